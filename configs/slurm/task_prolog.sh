#!/bin/sh
# TaskProlog: tells the tasks of a Slurm job which job of forsd is theirs, if there is one. It
# runs on the compute nodes: /etc/default/forsd-slurm names a forsd that listens (api.listen in
# forsd.yaml). Slurm takes lines "export NAME=VALUE" and "unset NAME" from its output.

export PATH="${PATH:+$PATH:}/usr/local/bin:/usr/bin:/bin" # Slurm sets none
set -a
FORSD_SERVER=${FORSD_SERVER:-http://head:7480}
[ ! -r /etc/default/forsd-slurm ] || . /etc/default/forsd-slurm
forsctl slurm task-prolog --timeout 5s
exit 0
