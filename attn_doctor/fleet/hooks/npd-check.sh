#!/bin/sh
# For node-problem-detector's custom plugin monitor, written by attn-doctor @@VERSION@@: reads the node's last report.
# https://github.com/kubernetes/node-problem-detector/blob/master/docs/custom_plugin_monitor.md
# Something else writes that report, such as a CronJob or DaemonSet with `attn-doctor check --output /var/lib/attn-doctor/`.
said=$(timeout -k 1 4 @@DOCTOR@@ status --from /var/lib/attn-doctor --max-age 24h --exit-style npd 2>/dev/null)
status=$?
case $said in
  "attn-doctor "*": "*) ;;
  *) # a Python that cannot start ends with 1 as well: not known is 2 or more
    said="attn-doctor gave no answer (status $status)"
    status=2
    ;;
esac
printf '%s\n' "$said"
exit "$status"
