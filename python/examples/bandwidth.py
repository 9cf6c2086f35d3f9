# %% [markdown]
# # Where does my program's bandwidth go?
# `python bandwidth.py run.slt`: a trace of `strandline record -o run.slt -- ./app`. Without one, a built-in workload.
# In a notebook, set `traces = ["run.slt"]` below.
# %%
import sys

import strandline as sl

traces = [word for word in sys.argv[1:] if word.endswith(".slt")]
program = traces[0] if traces else {"workload": "hash-scatter", "operations": 20000}
report = sl.profile(program, machine="xpoint")
print(report)
# %%
# In a notebook, the report itself: its page.
report
# %%
# The same events on two machines: what changes, and which lines of code wait.
compared = sl.simulate(program, ["dram", "xpoint"])
print(compared.headline)
for machine in compared["machines"]:
    for site in machine["figures"]["site_stalls"][:3]:
        print(machine["machine"], site["line"], site["stalled"])
# %%
# Every event, as a table: bytes stored per line of code.
if isinstance(program, str):
    try:
        import polars
    except ImportError:
        print("skipped: no polars")
    else:
        trace = sl.Trace(program)
        events, sites = polars.DataFrame(trace), polars.DataFrame(trace.sites())
        stores = events.filter(polars.col("op") == "store").group_by("site").agg(polars.col("len").sum())
        print(stores.join(sites, on="site").sort("len", descending=True).head(10))
