#!/bin/sh
# PrologSlurmctld: gives each Slurm job on two nodes or more a plan of its own. It runs on
# the machine of slurmctld, as its user, which must be a member of the group forsd if forsd
# runs there, too; if not, /etc/default/forsd-slurm tells where forsd is. Whatever goes wrong
# here, the Slurm job starts, after 10 s at most; without a plan of its own its MPI programs
# use the fabric's plan, or plain MPI. The system's log has the reason, by the name
# forsd-slurm. "forsctl slurm prolog --help" says what is done.

export PATH="${PATH:+$PATH:}/usr/local/bin:/usr/bin:/bin" # Slurm sets none
set -a
[ ! -r /etc/default/forsd-slurm ] || . /etc/default/forsd-slurm
forsctl slurm prolog --timeout 5s
exit 0 # Slurm requeues a job whose prolog fails
