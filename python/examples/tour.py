# %% [markdown]
# # A machine in ten lines, swept and plotted
# `python tour.py run.slt`; without a trace, a built-in workload.
# In a notebook, set `traces = ["run.slt"]` below.
# %%
import os
import sys

import strandline as sl

machine = sl.Machine("xpoint")
machine.cores.count = 4
machine.llc.size = "11MiB"
machine.llc.latency = "20ns"
# %%
# Which input: a trace of yours, or a built-in workload.
traces = [word for word in sys.argv[1:] if word.endswith(".slt")]
trace = traces[0] if traces else sl.Workload("hash-scatter", operations=2000)
report = sl.simulate(trace, ["dram", machine])
print(report.headline)
# %%
report
# %%
# Every combination; the second time this cell runs, nothing is computed.
table = sl.sweep(
    trace,
    {"machine": [machine, "dram"], "llc.size": ["44MiB", "11MiB", "22MiB"]},
    store=os.environ.get("STRANDLINE_STORE", ".strandline-sweep"),
)
for row in zip(table["machine"], table["llc.size"], table["elapsed_ns"]):
    print(*row)
# %%
# The plot, if matplotlib is there.
try:
    import matplotlib.pyplot as plot
except ImportError:
    print("skipped: no matplotlib")
else:
    for name in dict.fromkeys(table["machine"]):
        points = [(s, t / 1e3) for m, s, t in zip(table["machine"], table["llc.size"], table["elapsed_ns"]) if m == name]
        plot.plot(*zip(*points), "o-", label=name)
    plot.ylabel("time, µs")
    plot.xlabel("LLC")
    plot.legend()
    plot.savefig("tour.png")
