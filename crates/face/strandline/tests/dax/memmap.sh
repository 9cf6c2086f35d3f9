# In the guest: memory that the kernel takes for persistent.
load nd_e820 nd_pmem
wait_for /dev/pmem0
negative_twins=yes
