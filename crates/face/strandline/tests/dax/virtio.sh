# In the guest: memory whose host has to be asked to make it durable.
load virtio_pci virtio_pmem nd_pmem
wait_for /dev/pmem0
negative_twins=no
