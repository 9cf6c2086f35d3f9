# %% [markdown]
# # Which mix of memory tiers?
# `python tiers.py run.slt`; without a trace, a built-in workload.
# In a notebook, set `traces = ["run.slt"]` below.
# %%
import os
import sys

import strandline as sl

traces = [word for word in sys.argv[1:] if word.endswith(".slt")]
program = traces[0] if traces else {"workload": "hash-scatter", "operations": 20000}
report = sl.plan(program, ["cxl-asic"])
print(report)
# %%
report
# %%
# What a slower tier would do to the whole program, for two caches: cxl-dram is all behind CXL.
trace = program if isinstance(program, str) else sl.Workload("hash-scatter", operations=2000)
table = sl.sweep(
    trace,
    {"machine": ["dram", "dram-remote", "cxl-dram"], "llc.size": ["11MiB", "22MiB"]},
    store=os.environ.get("STRANDLINE_STORE", ".strandline-sweep"),
)
for row in zip(table["machine"], table["llc.size"], table["elapsed_ns"], table["error"]):
    print(*row)
