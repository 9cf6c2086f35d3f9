# In the guest: ext4 with DAX, the same without, and the memory as a device.
load nd_e820 nd_pmem
wait_for /dev/pmem0
make_file_system /dev/pmem0

mount -o dax=always /dev/pmem0 /mnt
STRANDLINE_GUEST_FOLDER=/mnt STRANDLINE_GUEST_DURABILITY=dax run inside_on_files
umount /mnt

make_file_system /dev/pmem0
mount -o dax=never /dev/pmem0 /mnt
STRANDLINE_GUEST_FOLDER=/mnt STRANDLINE_GUEST_DURABILITY=page-cache run inside_on_files
umount /mnt

as_device
STRANDLINE_GUEST_DEVICE=/dev/dax0.0 run inside_on_a_device
