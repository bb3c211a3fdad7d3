#!/bin/sh
# PrologSlurmctld: gives each Slurm job a plan of its own. It runs on the machine of
# slurmctld, as its user, who must be a member of the group forsd there:
#
#	PrologSlurmctld=/etc/slurm/forsd/prolog.sh
#	EpilogSlurmctld=/etc/slurm/forsd/epilog.sh
#	TaskProlog=/etc/slurm/forsd/task_prolog.sh
#
# Changes are accepted on forsd's socket alone: forsd runs on this machine too.
# Whatever goes wrong here, the Slurm job starts; without a plan of its own its MPI
# programs use the fabric's plan, or plain MPI.

# Slurm sets no PATH.
export PATH="${PATH:+$PATH:}/usr/local/bin:/usr/bin:/bin"

if [ -z "$SLURM_JOB_ID" ] || [ -z "$SLURM_JOB_NODELIST" ]; then
	echo "forsd's prolog: Slurm tells no SLURM_JOB_ID or no SLURM_JOB_NODELIST" >&2
	exit 0
fi
name=slurm-$SLURM_JOB_ID

# The lease outlives the job's time limit by an hour, for the epilog ends the job.
lease=
now=$(date +%s)
if [ "${SLURM_JOB_END_TIME:-0}" -gt "$now" ] 2>/dev/null; then
	lease=$((SLURM_JOB_END_TIME - now + 3600))s
fi

# A job that was requeued has its number still.
forsctl job rm "$name" >/dev/null 2>&1
forsctl job create --nodes "$SLURM_JOB_NODELIST" --name "$name" ${lease:+--lease "$lease"} >/dev/null ||
	echo "forsd made no plan for $name" >&2
exit 0
