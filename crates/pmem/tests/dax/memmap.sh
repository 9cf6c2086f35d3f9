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
STRANDLINE_GUEST_DEVICE=/dev/dax0.0 run inside_on_a_device
