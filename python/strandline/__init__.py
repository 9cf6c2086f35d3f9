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

from __future__ import annotations

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

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from ._sweep import _Path

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


def check(
    program: _Path | Sequence[_Path] | Trace | None = None,
    recover: str | Callable[..., Any] | None = None,
    *,
    files: _Path | Sequence[_Path] = (),
    pmem: _Path | Sequence[_Path] = (),
    platform: str | None = None,
    images: int = 256,
    findings: int = 16,
    jobs: int | None = None,
    timeout: str = "10s",
    time: str | None = None,
    seed: int = 1,
    reboot: bool = True,
    out: _Path | None = None,
) -> Report:
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
    pmem      mapped files that count as persistent memory, besides those on DAX mounts and under /dev/shm
    platform  "adr", "eadr", "epoch", "strand"; with files "posix", "ext4" (data=ordered), "ext4-writeback", "xfs", "btrfs", "zfs"
    images    per crash point at most; findings: stop after so many
    jobs      recoveries at a time; timeout, time: of one recovery, of the search, as "10s"
    seed      of the choice among images, where a crash point has more than `images`
    reboot    whether a command runs as after a reboot, where the system allows it; a function runs in the running system
    out       folder for the run, the failing images (strandline-check)

    Without `recover`, only the order of stores, flushes and fences is looked at. `report.found` says whether there are
    findings; `report["findings"]` has them, each with a token that repeats it.
    """
    options: dict[str, Any] = dict(files=files, pmem=pmem, platform=platform, images=images, findings=findings, jobs=jobs)
    options.update(timeout=timeout, time=time, seed=seed, reboot=reboot, out=out)
    return _native.check(program, recover if recover is None or isinstance(recover, str) else _judge(recover), **options)


def _judge(recover):
    """A function of the caller's as the module calls it."""
    # Here, since most programs that import the package don't need it.
    import inspect

    if not callable(recover):
        raise TypeError(f"recover is a shell command (a text) or a function, not {recover!r}")
    called = recover if inspect.isroutine(recover) else getattr(recover, "__call__", recover)
    for lazy in (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction):
        if lazy(recover) or lazy(called):
            raise TypeError(f"calling {recover!r} would check nothing: give a function that is neither async nor a generator")
    wanted = 1
    try:
        signature = inspect.signature(recover)
    except (TypeError, ValueError):  # a builtin that does not say
        pass
    else:
        positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        needed = [p for p in signature.parameters.values() if p.kind in positional and p.default is p.empty]
        wanted = 2 if len(needed) > 1 else 1
        try:
            signature.bind(*range(wanted))
        except TypeError as error:
            raise TypeError(f"recover takes the image's path, and may take the number of ended regions: {error}") from None

    def function(path, begun, done):
        return recover(path) if wanted < 2 else recover(path, done)

    function.__name__ = getattr(recover, "__name__", "recover")
    return function
