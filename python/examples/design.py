# %% [markdown]
# # A persistency design against x86
# Which design, on how many strand buffers, for transactions on a red-black tree?
# `python design.py run.slt`: for a trace of yours, whose regions (`sl_region_begin`) each design orders in its way.
# In a notebook, set `traces = ["run.slt"]` below.
# %%
import os
import sys

import strandline as sl

print(sl.designs())
traces = [word for word in sys.argv[1:] if word.endswith(".slt")]
trace = traces[0] if traces else sl.Workload("rb-tree", operations=300)
report = sl.simulate(trace, "table-5.1", persistency=["x86", "strandweaver", "ssp"])
print(report)
# %%
report
# %%
table = sl.sweep(
    trace,
    {
        "machine": "table-5.1",
        "persistency": ["x86", "strandweaver"],
        "cores.pipeline.strand_buffers": [1, 2, 4],
    },
    store=os.environ.get("STRANDLINE_STORE", ".strandline-sweep"),
)
names = ("persistency", "cores.pipeline.strand_buffers", "elapsed_ns", "stalled_ns", "error")
for row in zip(*(table[name] for name in names)):
    print(*row)
