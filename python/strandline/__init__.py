"""What programs do to memory that is not plain DRAM: the verbs of Strandline as functions.

    import strandline as sl

    sl.simulate(["./app", "argument"], ["dram", "xpoint"])     # a program built with `strandline cc`
    sl.simulate("run.slt", sl.Machine("xpoint", {"llc.size": "22MiB"}))
    sl.sweep("run.slt", {"machine": ["dram", "xpoint"], "llc.size": ["11MiB", "22MiB"]})

Each verb returns a `Report`: `report["machines"]` looks into the numbers (the documented JSON), `print(report)` prints what the
command line prints, and a notebook shows the report's page. A refusal is a `StrandlineError` (a `ValueError`) with the command
line's message. Nothing heavy is imported: pandas, polars and dask only where you use them.

Units: sizes in bytes or with a unit ("22MiB"), times as text ("94ns", "10s"); fields that end with `_ns` are nanoseconds.
"""

import inspect as _inspect

from . import _native
from ._native import (
    VERSION,
    Machine,
    Report,
    StrandlineError,
    Trace,
    Table,
    __version__,
    designs,
    faults,
    measure,
    plan,
    profile,
    record,
    reproduce,
    rows,
    simulate,
    wear,
    workloads,
)
from ._sweep import Workload, sweep

__all__ = [
    "Machine",
    "Report",
    "StrandlineError",
    "Table",
    "Trace",
    "VERSION",
    "Workload",
    "__version__",
    "check",
    "designs",
    "faults",
    "measure",
    "plan",
    "profile",
    "record",
    "reproduce",
    "rows",
    "simulate",
    "sweep",
    "wear",
    "workloads",
]


def check(program=None, recover=None, **options):
    """Does its data survive a crash at any moment?

    The program runs once; `recover` then looks at the images that a crash of that run could have left, all of them up to
    `images` per crash point. `recover` is a shell command in which POOL stands for the image, or a Python function
    `recover(path)` or `recover(path, done)`: it brings the image into order and checks it. What it raises (`assert` will do),
    a text that it returns, or `False`, is a finding (`sys.exit(0)` is none); `done` is the number of `sl_region_end`s before the crash.
    A function runs in this process, from several threads: give `jobs=1` if it can't. After `timeout` a `TimeoutError` is raised in
    it, as soon as it runs Python code.

    program   a list of words; a trace recorded with `values=True`. With `files` any program will do, else one built with
              `strandline cc --as-shipped`.
    files     ordinary files and folders that are checked in place of persistent memory
    platform  "adr", "eadr", "epoch", "strand"; with files "ext4" (data=ordered) or "posix"
    images    per crash point at most; findings: stop after so many
    jobs      recoveries at a time; timeout, time: of one recovery, of the search, as "10s"
    reboot    run a recovery command as after a reboot, where the system allows that
    out       folder for the run, the failing images (strandline-check)

    Without `recover`, only the order of stores, flushes and fences is looked at. `report.found` says whether there are
    findings; `report["findings"]` has them, each with a token that repeats it.
    """
    function = None
    if recover is not None and callable(recover):
        try:
            wanted = len([p for p in _inspect.signature(recover).parameters.values() if p.default is p.empty])
        except (TypeError, ValueError):
            wanted = 1
        call = recover

        def function(path, begun, done):
            return call(path) if wanted < 2 else call(path, done)

        function.__name__ = getattr(recover, "__name__", "recover")
    options.setdefault("reboot", False)
    return _native.check(program, function or recover, **options)
