# %% [markdown]
# # A persistency design against x86
# Which design, on how many strand buffers, for transactions on a red-black tree?
# %%
import os

import strandline as sl

print(sl.designs())
work = sl.Workload("rb-tree", operations=300)
report = sl.simulate(dict(work), "table-5.1", persistency=["x86", "strandweaver", "ssp"])
print(report)
# %%
report
# %%
table = sl.sweep(
    work,
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
