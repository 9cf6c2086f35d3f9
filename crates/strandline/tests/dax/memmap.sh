# In the guest: memory that the kernel takes for persistent.
load nd_e820 nd_pmem
wait_for /dev/pmem0
negative_twins=yes

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
