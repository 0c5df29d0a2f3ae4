#!/bin/bash
# A HealthCheckProgram for Slurm, written by attn-doctor @@VERSION@@. In slurm.conf:
#
#     HealthCheckProgram=@@FOLDER@@/slurm-healthcheck.sh
#     HealthCheckInterval=3600
#     HealthCheckNodeState=CYCLE   # not all nodes at once; START_ONLY where slurm.conf(5) knows it: once, at boot
#
# slurmd runs it as root, with no PATH, ends it after 60 s, and heeds no exit status: a node stays in service until
# something drains it. This drains only when DRAIN=yes stands below, and only for what was found; not for what could not
# be looked at. It runs before the node registers as well: a wrong finding would keep it out from its first second.
# Say yes only for an environment that is the site's own. Whichever it is, its Python is started as root: name none that
# somebody else can write.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
DRAIN=no
doctor=(@@DOCTOR@@)
reports=/var/lib/attn-doctor

said=$("${doctor[@]}" status --from "$reports" --max-age 24h 2>&1)
status=$?
if [ "$status" -eq 3 ]; then # no report, or too old
  mkdir -p "$reports"
  timeout -k 2 50 "${doctor[@]}" check --quick --python @@PYTHON@@ @@CHECK@@ --output "$reports/" >/dev/null 2>&1
  said=$("${doctor[@]}" status --from "$reports" --max-age 24h 2>&1)
  status=$?
fi
if [ "$status" -eq 1 ] && [ "$DRAIN" = yes ]; then
  scontrol update nodename="${SLURMD_NODENAME:-$(hostname -s)}" state=drain reason="[node_problem] ${said%%$'\n'*}"
fi
printf '%s\n' "$said"
exit "$status"
