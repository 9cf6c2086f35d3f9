# The first life: processes are killed, and the machine ends while one works.
if [ $negative_twins = yes ]; then
  make_file_system /dev/pmem0
  mount -o dax=never /dev/pmem0 /mnt
  survives /mnt/killed synced
  umount /mnt
  mount -t tmpfs none /tmp
  survives /tmp/killed volatile
fi
make_file_system /dev/pmem0
mount_dax
survives /mnt/killed $durability
/opt/power work /mnt/ledger
