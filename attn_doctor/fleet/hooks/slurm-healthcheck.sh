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
# somebody else can write. After a cure write a new report (`attn-doctor check --output /var/lib/attn-doctor/`) before the
# node is resumed: the old one would drain it again for a day.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
DRAIN=no
doctor=(@@DOCTOR@@)
reports=/var/lib/attn-doctor

# 1 counts only with attn-doctor's own line: a Python that cannot start or lost its packages ends with 1 as well, and
# where the file server of all nodes is ill, that would drain all of them.
ask() {
  said=$("${doctor[@]}" status --from "$reports" --max-age 24h 2>/dev/null)
  status=$?
  if ! first=$(grep -m 1 '^attn-doctor [^ ]*: ' <<<"$said"); then
    said="attn-doctor gave no answer: ${doctor[*]} ended with status $status"
    status=3
  fi
}

ask
if [ "$status" -eq 3 ]; then # no report, or too old
  mkdir -p "$reports"
  timeout -k 2 50 "${doctor[@]}" check --quick --python @@PYTHON@@ @@CHECK@@ --output "$reports/" >/dev/null 2>&1
  ask
fi
if [ "$status" -eq 1 ] && [ "$DRAIN" = yes ]; then
  scontrol update nodename="${SLURMD_NODENAME:-$(hostname -s)}" state=drain reason="[node_problem] $first"
fi
printf '%s\n' "$said"
exit "$status"
