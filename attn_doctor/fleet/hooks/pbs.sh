#!/bin/bash
# One small job a node under PBS (OpenPBS, PBS Professional), written by attn-doctor @@VERSION@@.
# A node that is busy, drained or dead costs its own report alone.
# https://help.altair.com, PBS Reference Guide: qsub
#
#     bash pbs.sh /shared/reports gpu001 gpu002 ...      # a folder that all nodes and this machine see
#     attn-doctor fleet merge /shared/reports --expect gpu[001-002] --wait 600
set -u
if [ "$#" -lt 2 ]; then
  echo "usage: bash pbs.sh DIR NODE..." >&2
  exit 2
fi
reports=$1
shift
mkdir -p "$reports/run" || exit 2
reports=$(cd "$reports" && pwd)
doctor=(@@DOCTOR@@ check --quick --python @@PYTHON@@ @@CHECK@@ --output "$reports/" --exit-zero)
minutes=$(((@@TIMEOUT@@ + 35 + 59) / 60)) # for the job around it
refused=0
for node; do
  qsub -N attn-doctor -l select=1:host="$node":ncpus=1:mem=512mb -l walltime="00:$minutes:00" -r n -j oe \
    -o "$reports/run/$node.log" -- "$(command -v timeout)" -k 5 @@TIMEOUT@@ "${doctor[@]}" || {
    echo "$node: refused" >&2
    refused=3
  }
done
exit "$refused"
