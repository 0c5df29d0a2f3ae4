#!/bin/sh
# For node-problem-detector's custom plugin monitor, written by attn-doctor @@VERSION@@: reads the node's last report.
# https://github.com/kubernetes/node-problem-detector/blob/master/docs/custom_plugin_monitor.md
# Something else writes that report, such as a CronJob or DaemonSet with `attn-doctor check --output /var/lib/attn-doctor/`.
exec @@DOCTOR@@ status --from /var/lib/attn-doctor --max-age 24h --exit-style npd
