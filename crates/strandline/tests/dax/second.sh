# The second life: nothing that was told is gone.
mount_dax
want /opt/power check /mnt/ledger $told $durability
want says /mnt/ledger $durability
