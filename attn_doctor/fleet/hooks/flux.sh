# Flux
# https://flux-framework.readthedocs.io: flux-submit(1), RFC 31
  flux submit --job-name=attn-doctor --requires="host:$node" -N1 -n1 -c1 -t "${minutes}m" \
    --output="$reports/run/$node.log" timeout -k 5 @@TIMEOUT@@ "${doctor[@]}"
