#!/bin/bash
# A task prolog for Slurm, written by attn-doctor @@VERSION@@: runs as the user, in the user's environment.
#
#     srun --task-prolog=@@FOLDER@@/slurm-taskprolog.sh ...      # or TaskProlog= in slurm.conf
#
# Not for Prolog=: that runs without the user's environment, and a status other than 0 there drains a healthy node for
# somebody's packages. Here it fails this user's task, and only with GATE=yes. One task of each node looks at files only.
GATE=no
[ "${SLURM_LOCALID:-0}" = 0 ] || exit 0
doctor=(@@DOCTOR@@)
# The user's own environment unless this file names one; never what merely lies in the current folder.
python=@@PYTHON@@
python=${python:-${VIRTUAL_ENV:-${CONDA_PREFIX:-python3}}}
said=$(timeout -k 2 30 "${doctor[@]}" check --quick --python "$python" @@CHECK@@ --format summary 2>/dev/null)
status=$?
# With its own line alone: a Python that cannot start ends with 1 as well, and is nobody's task to fail for.
if [ "$status" -eq 1 ] && grep -q '^attn-doctor [^ ]*: ' <<<"$said"; then
  # "print" lines of a task prolog reach the job's output: https://slurm.schedmd.com/prolog_epilog.html
  printf '%s\n' "$said" | head -n 20 | sed 's/^/print [user_problem] /'
  if [ "$GATE" = yes ]; then exit 1; fi
fi
exit 0
