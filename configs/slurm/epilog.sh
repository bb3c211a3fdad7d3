#!/bin/sh
# EpilogSlurmctld: ends what prolog.sh began. Where it does not run, the lease does.

export PATH="${PATH:+$PATH:}/usr/local/bin:/usr/bin:/bin" # Slurm sets none
set -a
[ ! -r /etc/default/forsd-slurm ] || . /etc/default/forsd-slurm
forsctl slurm epilog --timeout 5s
exit 0
