#!/bin/bash
# A task prolog for Slurm, written by attn-doctor @@VERSION@@: runs as the user, in the user's environment.
#
#     srun --task-prolog=@@FOLDER@@/slurm-taskprolog.sh ...      # or TaskProlog= in slurm.conf
#
# Not for Prolog=: that runs without the user's environment, and a status other than 0 there drains a healthy node for
# somebody's packages. Here it fails this user's task, and only with GATE=yes. One task of each node looks at files only.
# GATE=hold puts the job back into the queue, held, with the reason in its comment, instead of failing its task.
GATE=no
# Folder of full verdicts, shared by all nodes (`check --verdicts`): a full examination on one node answers in
# milliseconds for all that have the same environment. Empty: files alone are looked at, which takes a second.
verdicts=@@VERDICTS@@
[ "${SLURM_LOCALID:-0}" = 0 ] || exit 0
doctor=(@@DOCTOR@@)
# The user's own environment unless this file names one; never what merely lies in the current folder.
python=@@PYTHON@@
python=${python:-${VIRTUAL_ENV:-${CONDA_PREFIX:-python3}}}
status=3
if [ -n "$verdicts" ]; then # two seconds for a share that is dead; then the job runs
  case $python in */*) prefix=$python ;; *) prefix=$(command -v "$python" 2>/dev/null) ;; esac
  said=$(timeout -k 1 2 "${doctor[@]}" status --python "$prefix" --verdicts "$verdicts" 2>/dev/null)
  status=$?
  case $status in 0 | 124 | 137) exit 0 ;; esac
fi
if [ "$status" -ne 1 ]; then
  said=$(timeout -k 2 30 "${doctor[@]}" check --quick --python "$python" @@CHECK@@ --format summary 2>/dev/null)
  status=$?
fi
# With its own line alone: a Python that cannot start ends with 1 as well, and is nobody's task to fail for.
if [ "$status" -eq 1 ] && grep -q '^attn-doctor [^ ]*: ' <<<"$said"; then
  # "print" lines of a task prolog reach the job's output: https://slurm.schedmd.com/prolog_epilog.html
  printf '%s\n' "$said" | head -n 20 | sed 's/^/print [user_problem] /'
  if [ "$GATE" = hold ]; then
    reason="[user_problem] $(grep -m 1 '^attn-doctor [^ ]*: ' <<<"$said")"
    timeout -k 1 5 scontrol update jobid="$SLURM_JOB_ID" comment="$reason" 2>/dev/null
    timeout -k 1 5 scontrol requeuehold "$SLURM_JOB_ID" 2>/dev/null
    exit 1
  fi
  if [ "$GATE" = yes ]; then exit 1; fi
fi
exit 0
