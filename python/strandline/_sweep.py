"""Sweeps on whatever has `submit`: what is computed is Rust's; here tasks go out and answers come in."""

from __future__ import annotations

import json
import os
import queue
import time
from . import _native

TYPE_CHECKING = False  # without an import of typing
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, Union

    _Path = Union[str, os.PathLike[str]]
    _Input = Union[_Path, _native.Trace, Sequence[Union[_Path, _native.Trace]], dict[str, Any], None]


def _compute(task):
    """One task, in whatever process the executor chose."""
    return _native.compute(task)


class Workload(dict):
    """A built-in workload as the input of a verb or a sweep.

    operations  its own number if not given
    threads     1 to 64; with more than one, the order of their events is this computer's
    seed        of its choices; 1 if not given
    """

    def __init__(self, name: str, operations: int | None = None, threads: int = 1, seed: int = 1) -> None:
        super().__init__(workload=name, threads=threads, seed=seed)
        if operations is not None:
            self["operations"] = operations


# Words of a built-in workload, as the verbs have them, and as a grid has them.
_OF_WORKLOADS = {"workload": "workload", "operations": "operations", "threads": "threads", "seed": "workload_seed"}


def _text(path):
    """A path as a grid has it, which is text that every worker can read."""
    text = os.fspath(path._whole() if isinstance(path, _native.Trace) else path)
    try:
        return text.encode().decode() if isinstance(text, str) else text.decode()
    except UnicodeError:
        raise _native.StrandlineError(f"{text!r}: a sweep takes names of files that are UTF-8; rename it, or link to it") from None


def _inputs(trace):
    """The words of a grid that say what is run."""
    if trace is None:
        return {}
    if isinstance(trace, dict):
        unknown = ", ".join(f"`{word}`" for word in trace if word not in _OF_WORKLOADS)
        if unknown:
            raise TypeError(f"a built-in workload has no {unknown}: use {', '.join(_OF_WORKLOADS)}")
        return {_OF_WORKLOADS[word]: value for word, value in trace.items() if value is not None}
    if isinstance(trace, (list, tuple)):
        return {"trace": [_text(one) for one in trace]}
    return {"trace": _text(trace)}


def _machine(value):
    if not isinstance(value, _native.Machine):
        if not isinstance(value, (str, os.PathLike)):
            raise TypeError(f"a machine of a grid is a name, a path or a Machine, not {value!r}")
        return _text(value)
    return json.loads(value._spec())


def _machines(value):
    """One machine or several, in whatever holds several."""
    value = _listed(value)
    if isinstance(value, (str, os.PathLike, dict)) or not hasattr(value, "__iter__"):
        return _machine(value)
    return [_machine(one) for one in value]


def _listed(value):
    """The values of what numpy, pandas and polars have."""
    for method in ("tolist", "to_list"):
        if hasattr(value, method) and not isinstance(value, _native.Machine):
            return getattr(value, method)()
    return value


def _plain(value):
    """What JSON has no form for, as what it has: numbers of numpy, ranges, paths."""
    if _listed(value) is not value:
        return _listed(value)
    if isinstance(value, (range, tuple)):
        return [_finite(one) for one in value]
    if isinstance(value, os.PathLike):
        return _text(value)
    raise TypeError(f"a grid has texts, numbers and lists of these, not {value!r}")


def _finite(value):
    """A number as it is, and what is none as text, so that the message is that of the key."""
    if isinstance(value, float) and value - value != 0:
        return str(value)
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(one) for one in value]
    return value


def _grid(trace, grid):
    words = _inputs(trace)
    for word, value in dict(grid or {}).items():
        if word == "machine":
            value = _machines(value)
        elif word in ("trace", "workload") and word in words:
            raise _native.StrandlineError(f"{word} is given twice: as what is swept, and in the grid")
        elif word == "trace":
            value = _inputs(value)["trace"]
        words[word] = value if word == "machine" else _finite(_listed(value))
    return json.dumps(words, default=_plain)


def _from_one(name, number):
    """A count, which is at least one."""
    if number is not None and (isinstance(number, bool) or not hasattr(number, "__index__") or number.__index__() < 1):
        raise _native.StrandlineError(f"{name} is a whole number from 1 on, not {number!r}")


def sweep(
    trace: _Input = None,
    grid: Mapping[str, Any] | None = None,
    executor: Any = None,
    *,
    store: _Path | None = None,
    output: _Path | None = None,
    chunk: int | None = None,
    ahead: int | None = None,
) -> _native.Table:
    """Runs every combination of a grid on a trace; computes only what no sweep before it has computed.

    trace     a trace file (`run.slt`, a `Trace`, a list of these), or a `Workload`; a path that ends with `.toml` is a whole
              grid in a file
    grid      a dictionary of words with one value or a list: `machine` (names, files, `Machine`s), `persistency`, `language`,
              `seed`, and keys of machines (`"llc.size": ["11MiB", "22MiB"]`); `row` measures published results
    executor  whatever has `submit(function, argument)`: `concurrent.futures.ProcessPoolExecutor`, a Dask `Client`, submitit,
              executorlib. All cores of this machine if not given. Workers need the trace at the same path.
    store     the folder that keeps results (.strandline-sweep, or what a grid's file says), each by a hash of
              everything that it depends on: trace, configuration, seed,
              version of the models. Any number of sweeps may share it; only this process writes it.
    output    a Parquet file for the table; what a grid's file says if not given
    chunk     configurations of one task (8): a task decodes the trace once
    ahead     tasks that are with the executor at a time (all of them if not given)

    Returns a `Table`. What was finished when the process, or a worker, was killed is not computed again. If a task fails,
    the others are finished and kept, then its error is raised.
    """
    _from_one("chunk", chunk)
    _from_one("ahead", ahead)
    if executor is not None and not hasattr(executor, "submit"):
        raise TypeError(f"an executor has `submit(function, argument)`, which {executor!r} has not")
    if grid is None and isinstance(trace, (str, os.PathLike)) and os.fspath(trace).endswith(".toml"):
        plan = _native.Plan.load(trace, store)
    else:
        plan = _native.Plan(_grid(trace, grid), store)
    output = plan.output if output is None else output
    if output is not None:
        plan.writes_to(output)
    if executor is None:
        plan.run(len(os.sched_getaffinity(0)), chunk)
    else:
        _on(executor, plan, chunk, ahead)
        if plan.missing:
            raise _native.StrandlineError(f"{plan.missing} configurations have no result: the executor answered with something else")
    table = plan.table()
    if output is not None:
        table.parquet(output)
    return table


def _on(executor, plan, chunk, ahead):
    tasks = plan.tasks(chunk)
    tasks.reverse()
    waiting = {}
    try:
        _until_done(executor, plan, tasks, ahead, waiting)
    except BaseException:  # Ctrl-C: what did not begin need not
        for future in waiting.values():
            if hasattr(future, "cancel"):
                future.cancel()
        raise


def _until_done(executor, plan, tasks, ahead, waiting):
    done, failed, polled = queue.SimpleQueue(), None, False
    while tasks or waiting:
        while tasks and (ahead is None or len(waiting) < ahead) and failed is None:
            try:
                future = executor.submit(_compute, tasks[-1])
            except Exception as error:  # a pool whose process was killed takes nothing more
                failed = error
                break
            tasks.pop()
            waiting[id(future)] = future
            if hasattr(future, "add_done_callback"):
                future.add_done_callback(lambda _, number=id(future): done.put(number))
            else:
                polled = True
        if failed is not None:
            tasks.clear()
        if not waiting:
            break
        for number in _finished(waiting, done, polled):
            future = waiting.pop(number)
            try:
                plan.keep(future.result())
            except (KeyboardInterrupt, SystemExit, GeneratorExit):
                raise
            except BaseException as error:  # also asyncio's CancelledError; what the others have done is kept first
                failed = failed or error
    if failed is not None:
        raise failed


def _finished(waiting, done, polled):
    if not polled:
        return [done.get()]
    while True:
        ready = [number for number, future in waiting.items() if future.done()]
        if ready:
            return ready
        time.sleep(0.05)
