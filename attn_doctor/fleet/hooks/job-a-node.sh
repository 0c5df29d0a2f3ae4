#!/bin/bash
# One small job a node under @@SCHEDULER@@, written by attn-doctor @@VERSION@@.
# A node that is busy, drained or dead costs its own report alone.
# @@SOURCE@@
#
#     bash @@FILE@@ /shared/reports gpu001 gpu002 ...      # a folder that all nodes and this machine see
#     attn-doctor fleet merge /shared/reports --expect gpu[001-002] --wait 600
set -u
if [ "$#" -lt 2 ]; then
  echo "usage: bash @@FILE@@ DIR NODE..." >&2
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
@@SUBMIT@@ || {
    echo "$node: refused" >&2
    refused=3
  }
done
exit "$refused"
