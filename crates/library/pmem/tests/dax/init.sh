#!/bin/sh
# The first process in the guest. The part for each kind of memory follows.
export PATH=/bin:/sbin
busybox mkdir -p /proc /sys /dev /mnt /tmp
busybox mount -t proc proc /proc
busybox --install -s /bin
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
echo 'GUEST: started'
trap 'echo GUEST: end; echo o >/proc/sysrq-trigger; sleep 60' EXIT

load() { for module; do modprobe $module || echo "GUEST: failed to load $module"; done; }
wait_for() {
  tries=0
  while [ ! -e $1 ] && [ $tries -lt 300 ]; do sleep 0.1; tries=$((tries + 1)); done
  [ -e $1 ] || { echo "GUEST: failed to find $1"; exit; }
}
make_file_system() { /sbin/mke2fs -q -F -t ext4 -b 4096 $1 || { echo 'GUEST: failed to make a file system'; exit; }; }
run() { if /opt/test $1 --exact --ignored --nocapture; then echo 'GUEST: passed'; else echo "GUEST: failed in $1"; fi; }
# The memory of pmem0 as a whole DAX device, without a file system.
as_device() {
  load device_dax dax_pmem
  bus=/sys/bus/nd
  echo namespace0.0 >$bus/drivers/nd_pmem/unbind
  dax=$(cat $bus/devices/region0/dax_seed)
  echo 2097152 >$bus/devices/$dax/align
  echo ram >$bus/devices/$dax/mode
  cat /proc/sys/kernel/random/uuid >$bus/devices/$dax/uuid
  echo namespace0.0 >$bus/devices/$dax/namespace
  echo $dax >$bus/drivers/dax_pmem/bind
  wait_for /dev/dax0.0
}

depmod
