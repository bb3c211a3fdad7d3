#!/bin/sh
# TaskProlog: tells the tasks of a Slurm job which job of forsd is theirs, if there
# is one. It runs on the compute nodes: FORSD_SERVER names a forsd that listens
# (api.listen in forsd.yaml), where it is not the one of this machine. Slurm takes
# lines "export NAME=VALUE" from its output.

export PATH="${PATH:+$PATH:}/usr/local/bin:/usr/bin:/bin" # Slurm sets none
export FORSD_SERVER="${FORSD_SERVER:-http://head:7480}"
if id=$(forsctl job show "slurm-$SLURM_JOB_ID" --id 2>/dev/null); then
	case $FORSD_SERVER in
	/*) FORSD_SERVER=unix:$FORSD_SERVER ;; # for libfors a mere path is a file's
	esac
	echo "export FORSD_JOB=$id"
	echo "export FORSD_TABLE=$FORSD_SERVER"
fi
exit 0
