want() { if "$@"; then echo 'GUEST: passed'; else echo "GUEST: failed in $*"; fi; }

# What `strandline pool` says of a file: file, durability.
says() { /opt/strandline pool info --json $1 | grep "\"durability\": \"$2\""; }

# A program that is killed after a hundred regions have ended: file, durability.
survives() {
  /opt/power work $1 >/tmp/reported &
  process=$!
  tries=0
  while ! grep -q '^reported 100$' /tmp/reported && [ $tries -lt 600 ]; do sleep 0.1; tries=$((tries + 1)); done
  kill -9 $process
  wait $process
  want /opt/power check $1 "$(grep -c reported /tmp/reported)" $2
  want says $1 $2
}

mount_dax() {
  mount -o dax=always /dev/pmem0 /mnt
  grep -q 'pmem0.*dax=always' /proc/mounts || echo 'GUEST: failed to mount with DAX'
}
