#!/bin/bash
#SBATCH --job-name=attn-doctor
#SBATCH --ntasks-per-node=1
# Onboards the nodes of one job, written by attn-doctor @@VERSION@@:
#
#     sbatch --nodes=8 --partition=gpu --gpus-per-node=8 slurm-job.sh [COMMAND ARGS...]
#
# Examines every node; where all are fit, COMMAND runs. Where the shared environment is ill, it is mended once, from this
# node, under the lock of `attn-doctor fix`, by what was reviewed when this file was written (fixes, or a saved plan);
# without any of that the plan is printed and nothing is changed. Then every node is examined again.
# Ends with 0 (all fit), 1 (a node is ill or differs), 3 (a node is missing or could not be examined); the lists of
# nodes lie in a folder, exclude_nodes.txt among them.
set -u

doctor=(@@DOCTOR@@)
environment=@@PYTHON@@
reviewed=(@@REVIEWED@@)
check=(--python "$environment" @@CHECK@@)
lists=${ATTN_DOCTOR_LISTS:-${SLURM_SUBMIT_DIR:-$PWD}/attn-doctor-${SLURM_JOB_ID:?this is a Slurm job}}

examine() {
  "${doctor[@]}" fleet run --engine srun --expect slurm --deep @@DEEP@@ --timeout @@TIMEOUT@@ \
    --write-lists "$lists" -- "${check[@]}"
}

release() {
  echo "== released: $SLURM_JOB_NODELIST"
  if [ "$#" -gt 0 ]; then exec "$@"; fi
  exit 0
}

refuse() {
  if [ -s "$lists/fit_nodes.txt" ]; then
    echo "== not released; leave these nodes out next time:"
    echo "   sbatch --exclude=$(paste -sd, "$lists/exclude_nodes.txt") ..."
  else
    echo "== not released; none of the nodes is fit, so leaving some out does not help"
  fi
  echo "   lists: $lists"
  exit "$1"
}

runs() {
  ls "${environment%/bin/python*}/.attn-doctor/runs" 2>/dev/null
}

echo "== every node"
before=$(runs)
examine
status=$?
[ "$status" -eq 0 ] && release "$@"
if [ ! -e "$lists/exclude_nodes.txt" ]; then # broken or refused before it looked: 1 would say that a node is ill
  echo "== not released; attn-doctor gave no answer: it ended with $status"
  if [ "$status" -eq 1 ]; then exit 3; fi
  exit "$status"
fi
[ "$status" -eq 1 ] || refuse "$status"
[ -s "$lists/failing_nodes.txt" ] || refuse 1 # nodes differ, none is ill: no cure for one environment helps

if [ "${#reviewed[@]}" -eq 0 ]; then
  echo "== what would cure it; nothing is changed"
  "${doctor[@]}" fix --python "$environment" --dry-run --unsafe-fixes
  echo "== review it, then write this script again with --fix ID, or with --plan FILE of 'attn-doctor fix --save-plan'"
  refuse 1
fi

echo "== the shared environment, once, from $(hostname)"
for _ in 1 2 3 4 5 6; do
  "${doctor[@]}" fix --python "$environment" --yes --wait 1800 "${reviewed[@]}"
  mended=$?
  # 3: a program runs from the environment, another job holds it for longer, or was quicker than a saved plan.
  [ "$mended" -eq 3 ] || break
  echo "== not now; once more in a while"
  sleep "${ATTN_DOCTOR_PAUSE:-20}"
done
case "$mended" in
  0 | 1 | 3) ;; # what the nodes say now decides
  *) echo "== the fix ended with $mended"; refuse "$mended" ;;
esac

# Ill here before and well now without a run of ours: another job's fix, and worth a second look at every node.
here=${SLURMD_NODENAME:-$(hostname -s)}
if [ "$before" = "$(runs)" ] && { [ "$mended" -eq 1 ] ||
  { [ "$mended" -eq 0 ] && ! grep -qxF "$here" "$lists/failing_nodes.txt"; }; }; then
  echo "== the fix changed nothing here, so no node is examined again"
  refuse 1
fi

echo "== every node, again"
examine
status=$?
[ "$status" -eq 0 ] && release "$@"
refuse "$status"
