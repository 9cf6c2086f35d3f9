"""Sweeps on whatever has `submit`: what is computed is Rust's; here tasks go out and answers come in."""

import json
import os
import queue
import time

from . import _native


def _compute(task):
    """One task, in whatever process the executor chose."""
    return _native.compute(task)


class Workload(dict):
    """A built-in workload as the input of a verb or a sweep.

    operations  its own number if not given
    threads     1 to 64; with more than one, the order of their events is this computer's
    seed        of its choices; 1 if not given
    """

    def __init__(self, name, operations=None, threads=1, seed=1):
        super().__init__(workload=name, threads=threads, seed=seed)
        if operations is not None:
            self["operations"] = operations


def _grid(trace, grid):
    words = {}
    if isinstance(trace, Workload):
        words["workload"] = trace["workload"]
        words["threads"] = trace["threads"]
        words["workload_seed"] = trace["seed"]
        if "operations" in trace:
            words["operations"] = trace["operations"]
    elif isinstance(trace, _native.Trace):
        words["trace"] = os.fspath(trace.path)
    elif isinstance(trace, (list, tuple)):
        words["trace"] = [os.fspath(getattr(one, "path", one)) for one in trace]
    elif trace is not None:
        words["trace"] = os.fspath(trace)
    for word, value in dict(grid or {}).items():
        if word == "machine":
            several = value if isinstance(value, (list, tuple)) else [value]
            value = [json.loads(m._spec()) if isinstance(m, _native.Machine) else os.fspath(m) for m in several]
        elif hasattr(value, "tolist"):
            value = value.tolist()
        elif isinstance(value, range):
            value = list(value)
        words[word] = value
    return json.dumps(words)


def sweep(trace=None, grid=None, executor=None, *, store=None, output=None, chunk=None, ahead=None):
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
    if grid is None and isinstance(trace, (str, os.PathLike)) and os.fspath(trace).endswith(".toml"):
        plan = _native.Plan.load(trace, store)
    else:
        plan = _native.Plan(_grid(trace, grid), store)
    if executor is None:
        plan.run(len(os.sched_getaffinity(0)), chunk)
    else:
        _on(executor, plan, chunk, ahead)
    table = plan.table()
    output = plan.output if output is None else output
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
            except Exception as error:  # what the others have done is kept first
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
