# %% [markdown]
# # Which mix of memory tiers?
# `python tiers.py run.slt`; without a trace, a built-in workload.
# %%
import os
import sys

import strandline as sl

program = sys.argv[1] if len(sys.argv) > 1 else {"workload": "hash-scatter", "operations": 20000}
report = sl.plan(program, ["cxl-asic"])
print(report)
# %%
# What a slower tier would do to the whole program, for two caches.
trace = program if isinstance(program, str) else sl.Workload("hash-scatter", operations=2000)
table = sl.sweep(
    trace,
    {"machine": ["dram", "cxl-asic", "cxl-fpga"], "llc.size": ["11MiB", "22MiB"]},
    store=os.environ.get("STRANDLINE_STORE", ".strandline-sweep"),
)
for row in zip(table["machine"], table["llc.size"], table["elapsed_ns"], table["error"]):
    print(*row)
