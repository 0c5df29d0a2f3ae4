#!/bin/bash
# A HealthCheckProgram for Slurm, written by attn-doctor @@VERSION@@. In slurm.conf:
#
#     HealthCheckProgram=@@FOLDER@@/slurm-healthcheck.sh
#     HealthCheckInterval=3600
#     HealthCheckNodeState=CYCLE   # not all nodes at once; START_ONLY where slurm.conf(5) knows it: once, at boot
#
# slurmd runs it as root, with no PATH, ends it after 60 s (this takes 53 at most), and heeds no exit status: a node stays in service until
# something drains it. This drains only when DRAIN=yes stands below, and only for what was found; not for what could not
# be looked at. It runs before the node registers as well: a wrong finding would keep it out from its first second.
# Say yes only for an environment that is the site's own. Whichever it is, its Python is started as root: name none that
# somebody else can write. After a cure write a new report (`attn-doctor check --output /var/lib/attn-doctor/`) before the
# node is resumed: the old one would drain it again for a day.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
DRAIN=no
doctor=(@@DOCTOR@@)
reports=/var/lib/attn-doctor
# Verdicts of full examinations of this node's environments, made here or on another node of one file system. A verdict
# counts only from files and folders that root owns, since root runs this.
verdicts=@@VERDICTS@@
if [ -n "$verdicts" ]; then export ATTN_DOCTOR_VERDICTS="$verdicts"; fi
# Where slurm.conf is: scontrol below needs it. As this file was written, else as the slurmd that runs it has it.
conf=@@SLURMCONF@@
if [ -z "$conf" ] && [ -r "/proc/$PPID/environ" ]; then
  conf=$(tr '\0' '\n' <"/proc/$PPID/environ" | sed -n 's/^SLURM_CONF=//p' | head -n 1)
fi
if [ -n "$conf" ]; then export SLURM_CONF="$conf"; fi

# 1 counts only with attn-doctor's own line: a Python that cannot start or lost its packages ends with 1 as well, and
# where the file server of all nodes is ill, that would drain all of them.
ask() {
  # A limit of its own: slurmd waits for this script before it registers, and a dead file server hangs any Python.
  said=$(timeout -k 1 5 "${doctor[@]}" status --from "$reports" --max-age 24h 2>/dev/null)
  status=$?
  if ! first=$(grep -m 1 '^attn-doctor [^ ]*: ' <<<"$said"); then
    said="attn-doctor gave no answer: ${doctor[*]} ended with status $status"
    status=3
  fi
}

ask
if [ "$status" -eq 3 ]; then # no report, or too old
  mkdir -p "$reports"
  timeout -k 2 35 "${doctor[@]}" check --quick --python @@PYTHON@@ @@CHECK@@ --output "$reports/" >/dev/null 2>&1
  ask
fi
if [ "$status" -eq 1 ] && [ "$DRAIN" = yes ]; then
  node=${SLURMD_NODENAME:-$(hostname -s)}
  if ! why=$(timeout -k 1 5 scontrol update nodename="$node" state=drain reason="[node_problem] $first" 2>&1); then
    said="$said
attn-doctor $node: NOT DRAINED, scontrol failed${SLURM_CONF:+ with SLURM_CONF=$SLURM_CONF}: $why"
    logger -t attn-doctor "not drained: $why" 2>/dev/null
    printf '%s %s\n' "$(date -u +%FT%TZ)" "not drained: $why" >>"$reports/slurm-healthcheck.log" 2>/dev/null
  fi
fi
printf '%s\n' "$said"
exit "$status"
