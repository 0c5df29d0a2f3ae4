# PBS (OpenPBS, PBS Professional)
# https://help.altair.com, PBS Reference Guide: qsub
  qsub -N attn-doctor -l select=1:host="$node":ncpus=1:mem=512mb -l walltime="00:$minutes:00" -r n -j oe \
    -o "$reports/run/$node.log" -- "$(command -v timeout)" -k 5 @@TIMEOUT@@ "${doctor[@]}"
