#!/bin/sh
# PrologSlurmctld: gives each Slurm job on two nodes or more a plan of its own. It runs on
# the machine of slurmctld, as its user:
#
#	PrologSlurmctld=/etc/slurm/forsd/prolog.sh
#	EpilogSlurmctld=/etc/slurm/forsd/epilog.sh
#	TaskProlog=/etc/slurm/forsd/task_prolog.sh
#
# Where forsd runs on this machine too, that user must be a member of the group forsd.
# Where it runs elsewhere, export FORSD_SERVER=https://HOST:7481, FORSD_CA and, with a token
# of the role operator, FORSD_TOKEN_FILE here and in epilog.sh.
# Whatever goes wrong here, the Slurm job starts, after 10 s at most; without a plan of its
# own its MPI programs use the fabric's plan, or plain MPI. The system's log has the reason,
# by the name forsd-slurm. "forsctl slurm prolog --help" says what is done.

export PATH="${PATH:+$PATH:}/usr/local/bin:/usr/bin:/bin" # Slurm sets none
forsctl slurm prolog --timeout 5s
exit 0 # Slurm requeues a job whose prolog fails
