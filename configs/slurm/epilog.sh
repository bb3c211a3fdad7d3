#!/bin/sh
# EpilogSlurmctld: ends what prolog.sh began. Where it does not run, the lease does.

export PATH="${PATH:+$PATH:}/usr/local/bin:/usr/bin:/bin" # Slurm sets none
forsctl job rm "slurm-${SLURM_JOB_ID:?}" >/dev/null ||
	echo "forsd had no job slurm-$SLURM_JOB_ID" >&2
exit 0
