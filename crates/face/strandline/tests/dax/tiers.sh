mount -t tmpfs tmp /tmp
cd /tmp
/opt/tiers sl_tier
/opt/strandline plan --source referenced --footprint 64GiB --apply --json -- /opt/tiers 4
