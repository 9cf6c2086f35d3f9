mount -t tmpfs tmp /tmp
cd /tmp
/opt/strandline wear run --nodes 1,0 --interval 2s --limit 1000 --capacity 1MiB --json -- /opt/writes 20
