# The second life: nothing that was reported is gone.
mount_dax
want /opt/power check /mnt/ledger $reported $durability
want says /mnt/ledger $durability

# The same on the memory as a device, without a file system.
if [ $negative_twins = yes ]; then
  umount /mnt
  dd if=/dev/zero of=/dev/pmem0 bs=1M count=64
  as_device
  survives /dev/dax0.0 dax
fi
