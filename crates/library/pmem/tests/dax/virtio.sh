# In the guest: ext4 mounted with DAX over memory whose host has to be asked to make it durable.
load virtio_pci virtio_pmem nd_pmem
wait_for /dev/pmem0
make_file_system /dev/pmem0
mount -o dax=always /dev/pmem0 /mnt
grep -q dax=always /proc/mounts || echo 'GUEST: failed to mount with DAX'
STRANDLINE_GUEST_FOLDER=/mnt STRANDLINE_GUEST_DURABILITY=page-cache run inside_on_files
umount /mnt
