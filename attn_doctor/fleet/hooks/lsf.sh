# LSF
# https://www.ibm.com/docs/en/spectrum-lsf: bsub
  bsub -J attn-doctor -m "$node" -n 1 -W "$minutes" -rn -o "$reports/run/$node.log" timeout -k 5 @@TIMEOUT@@ "${doctor[@]}"
