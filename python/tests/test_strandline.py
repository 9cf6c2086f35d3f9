"""The package as users have it: `python -m unittest discover python/tests`, with the package installed."""

import copy
import json
import os
import re
import pickle
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock
import zipfile
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import strandline as sl

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
import to_notebooks  # noqa: E402

WORK = sl.Workload("hash-scatter", operations=100)
GRID = {"machine": ["dram", "xpoint"], "llc.size": ["11MiB", "22MiB", "33MiB"], "seed": [1, 2, 3, 4]}


def has(module):
    try:
        __import__(module)
    except ImportError:
        return False
    return True


class Scratch(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)


class Verbs(Scratch):
    def test_simulate_gives_the_documented_numbers(self):
        report = sl.simulate(dict(WORK), ["dram", sl.Machine("xpoint", {"llc.size": "22MiB"})], seed=3)
        first, second = report["machines"]
        self.assertGreater(first["elapsed_ns"], 0)
        self.assertEqual(second["machine"], "xpoint llc.size=22MiB")
        self.assertEqual(report.data, json.loads(report.json))
        self.assertIn("iframe", report._repr_html_())
        self.assertTrue(Path(report.save(self.folder / "out")).read_text().startswith("<!"))

    def test_the_other_verbs_answer(self):
        self.assertIn("findings", sl.profile(dict(WORK)).data)
        self.assertTrue(sl.measure("xpoint", ["idle-latency"], events=2000).text)
        self.assertTrue(sl.wear(dict(WORK), duration="10s").headline)
        self.assertTrue(sl.plan(dict(WORK)).headline)
        faults = sl.faults([sys.executable, "-c", "b'x' * 50_000_000"])
        self.assertGreater(faults["faults"]["minor"], 0)
        report = sl.reproduce("xpoint-9")
        self.assertEqual(report["rows"][0]["id"], "xpoint-9")
        self.assertIn("xpoint-9", [row["id"] for row in sl.rows()])

    def test_refusals_are_those_of_the_command_line(self):
        for wrong, says in [
            (lambda: sl.simulate({"workload": "nothing"}), "no built-in workload `nothing`"),
            (lambda: sl.simulate("nowhere.slt"), "nowhere.slt"),
            (lambda: sl.simulate(["/nowhere/app"]), "/nowhere/app"),
            (lambda: sl.Machine("nowhere"), "nowhere"),
            (lambda: sl.reproduce("nothing"), "nothing"),
            (lambda: sl.measure("xpoint", ["nothing"]), "nothing"),
        ]:
            with self.assertRaises(sl.StrandlineError) as caught:
                wrong()
            self.assertIn(says, str(caught.exception))


    def refuses(self, says, call, kind=sl.StrandlineError):
        with self.assertRaises(kind, msg=says) as caught:
            call()
        self.assertIn(says, str(caught.exception))

    def test_numbers_have_the_ranges_of_the_command_line(self):
        recover = lambda path: None  # noqa: E731
        for says, call in [
            ("operations", lambda: sl.simulate(sl.Workload("hash-scatter", operations=0))),
            ("threads", lambda: sl.simulate(sl.Workload("hash-scatter", threads=0))),
            ("threads", lambda: sl.simulate(sl.Workload("hash-scatter", threads=65))),
            ("memory", lambda: sl.simulate(sl.Workload("btree-fill", operations=1 << 62))),
            ("sample", lambda: sl.profile(["true"], sample=(0, 1))),
            ("sample", lambda: sl.profile(["true"], sample=(2, 1))),
            ("events", lambda: sl.measure("xpoint", events=0)),
            ("events", lambda: sl.measure(events=5)),
            ("no values", lambda: sl.measure("xpoint", parameters={"threads": []})),
            ("rounds", lambda: sl.faults(["true"], rounds=0)),
            ("engine", lambda: sl.faults(["true"], engine=float("nan"))),
            ("engine", lambda: sl.faults(["true"], engine=-1.0)),
            ("tolerance", lambda: sl.plan(WORK, tolerance=float("nan"))),
            ("footprint", lambda: sl.plan(WORK, footprint=0)),
            ("endurance", lambda: sl.wear(WORK, endurance=float("nan"))),
            ("goal", lambda: sl.wear(WORK, goal="0s")),
            ("page", lambda: sl.wear(WORK, page=0)),
            ("duration", lambda: sl.wear(WORK, duration="0s")),
            ("images", lambda: sl.check(["true"], recover, images=0)),
            ("findings", lambda: sl.check(["true"], recover, findings=0)),
            ("jobs", lambda: sl.check(["true"], recover, jobs=0)),
            ("at least one", lambda: sl.simulate(WORK, [])),
            ("list of words", lambda: sl.simulate([])),
        ]:
            self.refuses(says, call)

    def test_what_would_change_nothing_is_refused(self):
        trace = sl.record(WORK, self.folder / "t.slt")
        for call in [
            lambda: sl.profile(trace, pmem=["/x"]),
            lambda: sl.simulate(WORK, sample=(1, 2)),
            lambda: sl.record(WORK, self.folder / "u.slt", values=True),
            lambda: sl.record(WORK, self.folder / "u.slt", files="/x"),
        ]:
            self.refuses("how to observe a program", call)

    def test_a_time_that_is_none_is_named(self):
        for name in ("goal", "duration"):
            with self.assertRaisesRegex(sl.StrandlineError, f'{name} = "abc": .*a time has a unit'):
                sl.wear(WORK, "xpoint", **{name: "abc"})

    def test_a_line_of_words_is_no_program(self):
        with self.assertRaisesRegex(sl.StrandlineError, r'a list of words: \["sh", "x.sh"\]'):
            sl.faults("sh x.sh")

    def test_one_text_or_path_stands_for_a_list(self):
        one = sl.simulate(WORK, "dram", persistency="epoch")
        self.assertEqual(one.json, sl.simulate(WORK, ["dram"], persistency=["epoch"]).json)
        some = sl.measure("dram", "idle-latency", events=2000)
        self.assertEqual(some.text, sl.measure("dram", ["idle-latency"], events=2000).text)
        data = self.folder / "data"
        data.mkdir()
        program = "import sys; open(sys.argv[1] + '/file', 'w').write('42')"
        trace = sl.record([sys.executable, "-c", program, data], self.folder / "f.slt", files=data)
        self.assertGreater(trace.info["events"], 0)
        name = os.fsdecode(b"/\xff")
        self.refuses("UTF-8", lambda: sl.record(["true"], self.folder / "n.slt", files=[name]))

    def test_names_that_are_not_utf_8_work_where_a_file_is_named(self):
        folder = Path(os.fsdecode(os.fsencode(self.folder) + b"/\xff \xc3\xbc"))
        folder.mkdir()
        trace = sl.record(WORK, folder / "t.slt")
        self.assertEqual(trace.path, folder / "t.slt")
        self.assertEqual(pickle.loads(pickle.dumps(trace)).info["events"], trace.info["events"])
        self.assertGreater(sl.simulate(trace, "dram")["machines"][0]["elapsed_ns"], 0)
        self.assertTrue(sl.simulate(trace, "dram").save(folder / "out").exists())
        self.refuses("UTF-8", lambda: sl.sweep(trace, {}, store=folder / "store"))
        self.assertEqual(len(sl.sweep(WORK, {"machine": "dram"}, store=folder / "store", output=folder / "t.parquet")), 1)

    def test_several_threads_call_at_once(self):
        machine = sl.Machine("xpoint", {"llc.size": "22MiB"})
        with ThreadPoolExecutor(8) as pool:
            texts = set(pool.map(lambda _: sl.simulate(WORK, machine, seed=1)["machines"][0]["elapsed_ns"], range(16)))
            self.assertEqual(len(texts), 1)
            sizes = ["11MiB", "22MiB", "33MiB"]

            def turn(number):
                machine.llc.size = sizes[number % 3]
                return machine["llc.size"] in sizes

            self.assertTrue(all(pool.map(turn, range(300))))

    def test_a_child_that_was_forked_after_a_run_runs(self):
        sl.simulate(WORK, "dram")
        with ProcessPoolExecutor(2, mp_context=get_context("fork")) as pool:
            ran = [pool.submit(_elapsed, seed) for seed in (1, 2, 1)]
            first, _, third = [one.result(timeout=120) for one in ran]
        self.assertEqual(first, third)


def _elapsed(seed):
    return sl.simulate(dict(WORK), "xpoint", seed=seed)["machines"][0]["elapsed_ns"]


class Machines(unittest.TestCase):
    def test_machines_of_texts_may_have_one_name(self):
        text = sl.Machine.preset_text("dram")
        first, second = sl.Machine.from_toml(text), sl.Machine.from_toml(sl.Machine("dram", {"llc.size": "11MiB"}).toml)
        long = sl.Machine.from_toml(text, "ü" * 300)
        work = sl.Workload("hash-scatter", operations=5000)
        alone = [sl.simulate(work, one)["machines"][0]["elapsed_ns"] for one in (first, second, long)]
        both = [one["elapsed_ns"] for one in sl.simulate(work, [first, second, long])["machines"]]
        self.assertEqual(both, alone)

    def test_files_that_a_description_names_are_found_from_its_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "mine.csv").write_text("read_share,bandwidth_gbps,latency_ns\n1,10,100\n0,5,200\n")
            head, _, rest = sl.Machine("dram").toml.partition("[device.timing")
            after = rest.partition("\n[")[2]
            while after.startswith("device.timing"):
                after = after.partition("\n[")[2]
            curve = '[device.timing]\nkind = "curve"\nfile = "mine.csv"\nwindow = "1us"\n'
            path = Path(folder) / "mine.toml"
            path.write_text(head + curve + (f"[{after}" if after else ""))
            machines = [sl.Machine(str(path)), sl.Machine(str(path), {"llc.size": "22MiB"}), sl.Machine.from_toml(path.read_text(), str(path))]
            for machine in machines:
                self.assertGreater(sl.simulate(WORK, machine)["machines"][0]["elapsed_ns"], 0)
                self.assertTrue(sl.profile(WORK, machine=machine).text)
                self.assertEqual(len(sl.sweep(WORK, {"machine": machine}, store=Path(folder) / "store")), 1)

    def test_a_machine_of_a_file_is_a_value(self):
        with tempfile.TemporaryDirectory() as folder:
            self.addCleanup(os.chdir, os.getcwd())
            os.chdir(folder)
            Path("mine.toml").write_text(sl.Machine("dram").toml)
            machine = sl.Machine("mine.toml")
            Path("mine.toml").write_text(sl.Machine("xpoint").toml)
            os.chdir("/")
            for same in (machine, machine.copy(), pickle.loads(pickle.dumps(machine)), machine.set({"cores.count": machine.cores.count})):
                self.assertEqual(same.llc.size, sl.Machine("dram").llc.size)
                elapsed = [sl.simulate(WORK, one)["machines"][0]["elapsed_ns"] for one in (same, "dram")]
                self.assertEqual(*elapsed)

    def test_a_machine_is_a_name_or_a_path(self):
        self.assertEqual(sl.Machine(Path("dram")), sl.Machine("dram"))
        self.assertEqual(sl.Machine(), sl.Machine("xpoint"))
        for wrong in (5, b"dram", ["dram"]):
            with self.assertRaisesRegex(TypeError, "a name or a path"):
                sl.Machine(wrong)

    def test_settings_count_together(self):
        size = {"llc.size": "1536KiB", "llc.ways": 12}
        for both in (size, dict(reversed(size.items()))):
            self.assertEqual(sl.Machine("dram", both)["llc.ways"], 12)
            self.assertEqual(sl.Machine("dram").set(both)["llc.size"], "1536KiB")

    def test_odd_values_are_refused_and_change_nothing(self):
        endless = []
        endless.append(endless)
        machine = sl.Machine("xpoint")

        class Sly:
            def __str__(self):
                machine["llc.size"] = "22MiB"
                return "11MiB"

        whole = machine.toml
        for value in [endless, {"a": endless}, float("nan"), float("inf"), -1, 1 << 70, None, "", "7B", b"11MiB", object(), "11MiB\nx = 1"]:
            with self.assertRaises(ValueError, msg=repr(value)):
                machine["llc.size"] = value
            self.assertEqual(machine.toml, whole)
        machine["llc.size"] = Sly()
        self.assertEqual(machine["llc.size"], "11MiB")

    def test_every_key_of_every_preset_is_reachable(self):
        for preset in sl.Machine.presets():
            machine = sl.Machine(preset)
            for key in machine.keys():
                value = machine[key]
                section = machine
                for part in key.split("."):
                    section = getattr(section, part)
                self.assertEqual(section, value, key)
            self.assertEqual(sl.Machine.from_toml(machine.toml, preset).toml, machine.toml)

    def test_values_are_checked_when_they_are_set(self):
        machine = sl.Machine("dram")
        machine.llc.size = "22MiB"
        self.assertEqual(machine["llc.size"], "22MiB")
        with self.assertRaises(sl.StrandlineError) as caught:
            machine.llc.sise = 1
        self.assertIn("llc.size", str(caught.exception))
        with self.assertRaises(ValueError):
            machine.llc.size = "7B"
        self.assertEqual(machine["llc.size"], "22MiB", "a refusal changes nothing")
        self.assertIsNot(machine.set({"cores.count": 2}), machine)
        with self.assertRaises(AttributeError):
            machine.nothing


class Sweeps(Scratch):
    def sweep(self, executor=None, grid=GRID, **options):
        return sl.sweep(WORK, grid, executor, store=self.folder / "store", **options)

    def test_the_same_table_on_threads_a_pool_and_what_has_no_callbacks(self):
        alone = sl.sweep(WORK, GRID, store=self.folder / "alone")
        self.assertEqual(len(alone), 24)
        with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
            table = self.sweep(pool, output=self.folder / "t.parquet")
        self.assertEqual(table["elapsed_ns"], alone["elapsed_ns"])
        self.assertTrue((self.folder / "t.parquet").stat().st_size > 0)

        class Plain:
            """As submitit's jobs: nothing but done and result."""

            def submit(self, function, argument):
                job = type("Job", (), {})()
                job.done, job.result = (lambda: True), (lambda: function(argument))
                return job

        polled = sl.sweep(WORK, GRID, Plain(), store=self.folder / "polled", chunk=5, ahead=2)
        self.assertEqual(polled["elapsed_ns"], alone["elapsed_ns"])

    def test_what_is_there_is_not_computed(self):
        self.sweep()

        class Refusing:
            def submit(self, function, argument):
                raise AssertionError("nothing is missing")

        again = self.sweep(Refusing())
        self.assertEqual(len(again), 24)
        more = dict(GRID, seed=[1, 2, 3, 4, 5])
        asked = []

        class Counting(ThreadPoolExecutor):
            def submit(self, function, argument):
                asked.append(len(json.loads(argument)["runs"]))
                return super().submit(function, argument)

        with Counting(1) as pool:
            self.sweep(pool, more)
        self.assertEqual(sum(asked), 6)

    def test_what_was_done_before_a_failure_is_kept(self):
        class Failing(ThreadPoolExecutor):
            number = 0

            def submit(self, function, argument):
                self.number += 1
                if self.number == 3:
                    future = Future()
                    future.set_exception(OSError("the node is gone"))
                    return future
                return super().submit(function, argument)

        with Failing(1) as pool, self.assertRaises(OSError):
            self.sweep(pool, chunk=4)
        asked = []

        class Counting(ThreadPoolExecutor):
            def submit(self, function, argument):
                asked.append(len(json.loads(argument)["runs"]))
                return super().submit(function, argument)

        with Counting(1) as pool:
            self.sweep(pool)
        self.assertEqual(sum(asked), 4)

    def test_a_killed_sweep_goes_on(self):
        script = (
            "import strandline as sl, sys\n"
            f"sl.sweep(sl.Workload('hash-scatter', operations=3000), {GRID!r}, store=sys.argv[1])\n"
        )
        store = self.folder / "store"
        child = subprocess.Popen([sys.executable, "-c", script, str(store)])
        begun = time.monotonic()
        while not list(store.glob("*/*.json")) and child.poll() is None and time.monotonic() - begun < 60:
            time.sleep(0.01)
        child.send_signal(signal.SIGKILL)
        child.wait()
        kept = len(list(store.glob("*/*.json")))
        self.assertGreater(kept, 0)
        work = sl.Workload("hash-scatter", operations=3000)
        plan = sl._native.Plan(sl._sweep._grid(work, GRID), store)
        self.assertEqual(plan.tally, (24, kept))
        self.assertEqual(len(sl.sweep(work, GRID, store=store)), 24)

    def test_a_grid_that_would_change_nothing_is_refused(self):
        for grid, says in [
            ({"seed": []}, "seed has no values"),
            ({"machine": []}, "machine has no values"),
            ({"llc.size": []}, "llc.size has no values"),
            ({"llc.sise": 1}, "llc.size"),
            ({"llc": {"sise": 1}}, "llc.size"),
            ({"llc.size": 1, "set": {"llc": {"size": 2}}}, "given twice"),
            ({"machines": "dram"}, "no such word `machines`"),
            ({"seed": -1}, "seed is a whole number"),
            ({"row": "xpoint-9"}, "three kinds of input"),
        ]:
            with self.assertRaises(sl.StrandlineError, msg=grid) as caught:
                self.sweep(grid=grid)
            self.assertIn(says, str(caught.exception))
        self.assertFalse(list((self.folder / "store").glob("*/*.json")))

    def test_counts_and_executors_that_would_end_in_half_a_table(self):
        for wrong in (0, -1, 1.5, True, "2"):
            for name in ("chunk", "ahead"):
                with self.assertRaisesRegex(sl.StrandlineError, f"{name} is a whole number from 1 on"):
                    self.sweep(ThreadPoolExecutor(1), **{name: wrong})
        with self.assertRaisesRegex(TypeError, "submit"):
            self.sweep(2)

        class Idle(ThreadPoolExecutor):
            def submit(self, function, argument):
                return super().submit(lambda: json.dumps({"results": []}))

        with Idle(1) as pool, self.assertRaisesRegex(sl.StrandlineError, "24 configurations have no result"):
            self.sweep(pool)

        class Wrong(ThreadPoolExecutor):
            def submit(self, function, argument):
                return super().submit(lambda: None)

        with Wrong(1) as pool, self.assertRaises(TypeError):
            self.sweep(pool)

    def test_a_cancelled_task_costs_only_its_own_results(self):
        import asyncio
        from concurrent.futures import CancelledError

        for kind in (CancelledError, asyncio.CancelledError):

            class Cancelling(ThreadPoolExecutor):
                number = 0

                def submit(self, function, argument):
                    self.number += 1
                    if self.number == 2:
                        future = Future()
                        future.set_exception(kind())
                        return future
                    return super().submit(function, argument)

            with self.subTest(kind):
                store = self.folder / kind.__module__
                with Cancelling(1) as pool, self.assertRaises(kind):
                    sl.sweep(WORK, GRID, pool, store=store, chunk=4)
                plan = sl._native.Plan(sl._sweep._grid(WORK, GRID), store)
                self.assertEqual(plan.missing, 4)

    def test_two_sweeps_in_one_store_at_once(self):
        script = (
            "import strandline as sl, sys\n"
            f"table = sl.sweep(sl.Workload('hash-scatter', operations=500), {GRID!r}, store=sys.argv[1], chunk=1)\n"
            "print(table['elapsed_ns'])\n"
        )
        words = [sys.executable, "-c", script, str(self.folder / "store")]
        both = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(2)]
        first, second = [one.communicate(timeout=120)[0] for one in both]
        self.assertEqual((first, [one.returncode for one in both]), (second, [0, 0]))
        self.assertEqual(len(list((self.folder / "store").glob("*/*.json"))), 24)

    def test_damaged_results_are_computed_again(self):
        before = self.sweep()
        files = sorted((self.folder / "store").glob("*/*.json"))
        files[0].write_bytes(b"")
        files[1].write_bytes(files[2].read_bytes())
        files[3].write_bytes(files[3].read_bytes()[:-40])
        files[4].unlink()
        files[4].mkdir()
        with self.assertRaisesRegex(sl.StrandlineError, files[4].name):
            self.sweep()
        files[4].rmdir()
        self.assertEqual(self.sweep()["elapsed_ns"], before["elapsed_ns"])

    def test_values_of_a_grid_may_be_of_numpy_and_none_may_be_no_number(self):
        for grid, rows in [({"seed": range(3)}, 3), ({"seed": (1, 2)}, 2), ({"machine": ("dram", Path("xpoint"))}, 2)]:
            self.assertEqual(len(self.sweep(grid=grid)), rows)
        self.assertEqual(len(sl.sweep(dict(WORK), {"seed": [1, 1]}, store=self.folder / "store")), 2)
        if has("numpy"):
            import numpy

            grid = {"seed": numpy.arange(3), "cores.pipeline.store_queue": [numpy.int64(16), numpy.float64(32)]}
            self.assertEqual(len(self.sweep(grid=grid)), 6)
        for value in (float("nan"), [1.0, float("inf")], {"a": float("-inf")}):
            with self.assertRaises(sl.StrandlineError) as caught:
                self.sweep(grid={"seed": value})
            self.assertIn("seed", str(caught.exception))
        for value in ({1, 2}, object(), b"x", [object()]):
            with self.assertRaisesRegex(TypeError, "a grid has texts, numbers and lists"):
                self.sweep(grid={"seed": value})
        with self.assertRaisesRegex(TypeError, "`speed`"):
            sl.sweep({"workload": "hash-scatter", "speed": 3})
        with self.assertRaisesRegex(sl.StrandlineError, "given twice"):
            sl.sweep("a.slt", {"trace": "b.slt"})
        with self.assertRaisesRegex(sl.StrandlineError, "nothing to run"):
            sl.sweep(None, {})

    def test_machines_of_a_grid_are_in_whatever_holds_several(self):
        names = ["dram", "xpoint"]
        for several in (iter(names), dict.fromkeys(names).keys(), tuple(map(sl.Machine, names))):
            self.assertEqual(self.sweep(grid={"machine": several})["machine"], names)
        if has("numpy"):
            import numpy

            self.assertEqual(self.sweep(grid={"machine": numpy.array(names)})["machine"], names)
        if has("polars"):
            import polars

            self.assertEqual(self.sweep(grid={"machine": "dram", "seed": polars.Series([1, 2])})["seed"], [1, 2])
        for wrong in (None, 5, ["dram", None], {"name": "dram"}):
            with self.assertRaisesRegex(TypeError, "a name, a path or a Machine"):
                self.sweep(grid={"machine": wrong})

    def test_a_table_goes_through_links_and_into_what_is_no_file(self):
        kept, link, pipe = (self.folder / name for name in ("kept.parquet", "link.parquet", "pipe.jsonl"))
        link.symlink_to(kept)
        self.sweep(output=link)
        self.assertTrue(link.is_symlink() and kept.stat().st_size > 0)
        os.mkfifo(pipe)
        with ThreadPoolExecutor(1) as pool:
            lines = pool.submit(pipe.read_text)
            self.sweep(output=pipe)
            self.assertEqual(len(lines.result(60).splitlines()), 24)
        self.assertTrue(pipe.is_fifo())
        for wrong, why in (("no/t.parquet", "there is no folder .*no: make it first"), ("t.csv", "FILE.parquet or FILE.jsonl")):
            with self.assertRaisesRegex(sl.StrandlineError, why):
                sl.sweep(WORK, GRID, store=self.folder / "early", output=self.folder / wrong)
        self.assertEqual(list((self.folder / "early").rglob("*.json")), [], "before anything is computed")

    def test_columns_have_what_was_given(self):
        many = [(1 << 53) + 1, (1 << 63) + 1, (1 << 64) - 1]
        self.assertEqual(self.sweep(grid={"machine": "dram", "seed": many})["seed"], [str(seed) for seed in many])
        key = "cores.pipeline.store_queue"
        for given, column in (([16, 56], [16, 56]), (["inf", 16], ["inf", "16"]), (["nan", "16"], ["nan", "16"])):
            self.assertEqual(self.sweep(grid={"machine": "xpoint", key: given})[key], column)

    def test_a_word_of_a_grid_is_no_key_of_machines_and_tables_have_keys(self):
        with self.assertRaisesRegex(sl.StrandlineError, "give it beside set"):
            self.sweep(grid={"seed": [1, 2], "set": {"seed": [5, 6]}})
        for empty in ({"llc": {}}, {"set": {"llc": {}}}):
            with self.assertRaisesRegex(sl.StrandlineError, "llc has no keys"):
                self.sweep(grid=empty)

    def test_workers_in_another_folder_have_the_machine_of_a_file(self):
        (self.folder / "mine.toml").write_text(sl.Machine("dram").toml)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)
        grid = {"machine": sl.Machine("mine.toml"), "seed": [1, 2]}
        with ProcessPoolExecutor(1, get_context("spawn"), os.chdir, ("/",)) as pool:
            table = self.sweep(pool, grid)
        self.assertEqual(table["error"], [None, None])
        self.assertEqual(table["elapsed_ns"], sl.sweep(WORK, {"machine": "dram", "seed": [1, 2]}, store="own")["elapsed_ns"])

    def test_a_grid_of_more_inputs_than_memory_is_refused(self):
        grid = {"operations": list(range(1, 50_000)), "workload_seed": list(range(50_000))}
        with self.assertRaisesRegex(sl.StrandlineError, "combinations"):
            self.sweep(grid=grid)

    def test_the_file_says_where_results_and_table_go(self):
        file = self.folder / "g.toml"
        text = 'workload = "hash-scatter"\noperations = 50\nllc.size = ["11MiB", "22MiB"]\nstore = "kept"\noutput = "t.parquet"\n'
        file.write_text(text)
        self.assertEqual(len(sl.sweep(file)), 2)
        self.assertEqual(len(list((self.folder / "kept").glob("*/*.json"))), 2)
        self.assertGreater((self.folder / "t.parquet").stat().st_size, 0)
        sl.sweep(file, store=self.folder / "other", output=self.folder / "o.parquet")
        self.assertTrue((self.folder / "o.parquet").exists() and (self.folder / "other").exists())

    def test_a_sweep_killed_at_any_time_goes_on(self):
        script = (
            "import strandline as sl, sys\n"
            f"sl.sweep(sl.Workload('hash-scatter', operations=300), {GRID!r}, store=sys.argv[1], chunk=1)\n"
        )
        store = self.folder / "store"
        for number in range(6):
            child = subprocess.Popen([sys.executable, "-c", script, str(store)])
            time.sleep(0.1 + 0.07 * number)
            child.send_signal(signal.SIGKILL)
            child.wait()
        work = sl.Workload("hash-scatter", operations=300)
        # Two at once on one folder, one of them an hour after the kills.
        for file in (store / "new").glob("*"):
            os.utime(file, (0, 0))
        with ThreadPoolExecutor(2) as both:
            one, two = both.map(lambda _: sl.sweep(work, GRID, store=store), range(2))
        alone = sl.sweep(work, GRID, store=self.folder / "alone")
        self.assertEqual(one["elapsed_ns"], alone["elapsed_ns"])
        self.assertEqual(two["elapsed_ns"], alone["elapsed_ns"])
        self.assertEqual(list((store / "new").glob("*")), [])

    def test_a_damaged_result_is_computed_again(self):
        whole = self.sweep()
        kept = sorted((self.folder / "store").glob("*/*.json"))
        text = kept[0].read_text()
        kept[0].write_text(text.replace('"elapsed_ns":', '"elapsed_ns":1'))
        kept[1].write_bytes(kept[1].read_bytes()[:-40])
        kept[2].write_bytes(b"")
        kept[3].write_text("{}")
        kept[4].write_text(kept[5].read_text())
        plan = sl._native.Plan(sl._sweep._grid(WORK, GRID), self.folder / "store")
        self.assertEqual(plan.missing, 5)
        self.assertEqual(self.sweep()["elapsed_ns"], whole["elapsed_ns"])

    def test_an_impossible_machine_is_a_row(self):
        table = self.sweep(grid={"machine": "dram", "llc.size": ["22MiB", "7B"]})
        self.assertIsNone(table["error"][0])
        self.assertIn("llc.size", table["error"][1])
        self.assertIn("<table>", table._repr_html_())
        with self.assertRaises(sl.StrandlineError):
            self.sweep(grid={"llc.sise": 1})

    def test_a_file_is_a_grid(self):
        file = self.folder / "g.toml"
        file.write_text('workload = "hash-scatter"\noperations = 50\n[set]\nllc.size = ["11MiB", "22MiB"]\n')
        self.assertEqual(len(sl.sweep(file, store=self.folder / "store")), 2)
        # Its own words count, from its folder.
        file.write_text('store = "own"\noutput = "t.parquet"\n' + file.read_text())
        self.assertEqual(len(sl.sweep(file)), 2)
        self.assertTrue(list((self.folder / "own").glob("*/*.json")))
        self.assertTrue((self.folder / "t.parquet").exists())

    @unittest.skipUnless(has("distributed"), "no distributed")
    def test_a_dask_cluster_whose_worker_is_killed(self):
        from distributed import Client, LocalCluster

        with LocalCluster(n_workers=3, threads_per_worker=1, dashboard_address=None, processes=True) as cluster:
            with Client(cluster) as client:
                client.wait_for_workers(3, timeout=300)
                victims = list(client.run(os.getpid).values())
                answers = []

                class Killing:
                    """Dask's client, which loses a worker when the third answer comes."""

                    def submit(self, function, argument):
                        future = client.submit(function, argument)
                        future.add_done_callback(self.answered)
                        return future

                    def answered(self, _):
                        answers.append(1)
                        if len(answers) == 3:
                            os.kill(victims[0], signal.SIGKILL)

                work = sl.Workload("hash-scatter", operations=2000)
                table = sl.sweep(work, GRID, Killing(), store=self.folder / "dask", chunk=1)
        alone = sl.sweep(work, GRID, store=self.folder / "alone")
        self.assertGreaterEqual(len(answers), 24)
        self.assertEqual(table["elapsed_ns"], alone["elapsed_ns"])


class Interrupts(Scratch):
    """Ctrl-C, as a terminal sends it to Python's first thread."""

    def interrupted(self, script, begun, arguments=()):
        """Seconds from Ctrl-C to the end of a script, which begins to work when `begun()`."""
        # Also where the tests run in the background, with the signal ignored.
        heard = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
        words = [sys.executable, "-c", heard + script, str(self.folder), *arguments]
        child = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
        limit = time.monotonic() + 120
        while not begun() and child.poll() is None and time.monotonic() < limit:
            time.sleep(0.02)
        child.send_signal(signal.SIGINT)
        sent = time.monotonic()
        try:
            _, said = child.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            child.kill()
            child.communicate()
            self.fail("Ctrl-C does not end it")
        self.assertIn("KeyboardInterrupt", said)
        self.assertEqual(child.returncode, -signal.SIGINT, said)
        return time.monotonic() - sent

    def test_a_sweep_ends_between_tasks_and_goes_on(self):
        script = (
            "import strandline as sl, sys\n"
            "grid = {'seed': list(range(400)), 'chunk': 1}\n"
            "sl.sweep(sl.Workload('hash-scatter', operations=3000), grid, store=sys.argv[1] + '/store')\n"
        )
        kept = lambda: len(list((self.folder / "store").glob("*/*.json")))  # noqa: E731
        self.interrupted(script, lambda: kept() > 2)
        self.assertLess(kept(), 400)

    def test_a_pool_is_not_waited_for(self):
        script = (
            "import strandline as sl, sys\n"
            "from concurrent.futures import ThreadPoolExecutor\n"
            "work = sl.Workload('hash-scatter', operations=3000)\n"
            "with ThreadPoolExecutor(1) as pool:\n"
            "    sl.sweep(work, {'seed': list(range(400))}, pool, store=sys.argv[1] + '/store', chunk=1)\n"
        )
        kept = lambda: len(list((self.folder / "store").glob("*/*.json")))  # noqa: E731
        self.interrupted(script, lambda: kept() > 2)
        self.assertLess(kept(), 400)

    def test_other_threads_go_on_in_a_run(self):
        turns, ends = [0], []

        def count():
            while not ends:
                turns[0] += 1
                time.sleep(0.001)

        with ThreadPoolExecutor(1) as pool:
            counting = pool.submit(count)
            before = turns[0]
            sl.simulate(sl.Workload("hash-scatter", operations=20000), "xpoint")
            ends.append(1)
            counting.result()
        self.assertGreater(turns[0] - before, 10)


class Pickles(Scratch):
    def test_results_and_machines_go_through_pickle_and_copy(self):
        machine = sl.Machine("xpoint", {"llc.size": "22MiB"})
        machine.device.buffer.lines = 128
        text = sl.Machine.from_toml(sl.Machine.preset_text("dram"), "mine")
        report = sl.simulate(dict(WORK), machine)
        table = sl.sweep(WORK, {"machine": "dram", "llc.size": ["22MiB", "7B"]}, store=self.folder / "s")
        trace = sl.record(WORK, self.folder / "t.slt")
        for again in (lambda one: pickle.loads(pickle.dumps(one)), copy.copy, copy.deepcopy):
            self.assertEqual(again(machine), machine)
            self.assertEqual(again(machine).label, machine.label)
            self.assertEqual(again(text).toml, text.toml)
            self.assertEqual(again(report).json, report.json)
            self.assertEqual((again(report).html, again(report).found), (report.html, False))
            same = again(table)
            self.assertEqual(same.columns, table.columns)
            self.assertEqual([same[name] for name in same.columns], [table[name] for name in table.columns])
            self.assertEqual(again(trace).path, trace.path)
        changed = copy.deepcopy(machine)
        changed.llc.size = "33MiB"
        self.assertEqual(machine["llc.size"], "22MiB")
        error = pickle.loads(pickle.dumps(sl.StrandlineError("why")))
        self.assertEqual(str(error), "why")


class Checks(Scratch):
    def test_a_python_function_recovers_images(self):
        program = (
            "import os, sys\n"
            "f = os.open(sys.argv[1] + '/new', os.O_WRONLY | os.O_CREAT)\n"
            "os.write(f, b'42')\n"
            "if sys.argv[2] == 'sync': os.fsync(f)\n"
            "os.close(f)\n"
            "os.rename(sys.argv[1] + '/new', sys.argv[1] + '/count')\n"
        )
        looked = []

        def recover(path, done):
            looked.append(done)
            count = Path(path) / "count"
            if count.exists() and count.read_text() != "42":
                return "the count is torn"
            return None

        for how, found in [("none", True), ("sync", False)]:
            data = self.folder / how
            data.mkdir()
            words = [sys.executable, "-c", program, str(data), how]
            report = sl.check(words, recover, files=[str(data)], platform="posix", out=self.folder / f"out-{how}")
            self.assertEqual(report.found, found, report.text)
            if found:
                self.assertIn("the count is torn", report.text)
        self.assertGreater(len(looked), 2)

    def checked(self, odd, **options):
        """Of a function that does `odd` unless the file is whole."""

        def recover(path):
            file = Path(path) / "file"
            return None if file.exists() and file.read_text() == "42" else odd(path)

        data = self.folder / "data"
        data.mkdir(exist_ok=True)
        program = "import sys; open(sys.argv[1] + '/file', 'w').write('42')"
        words = [sys.executable, "-c", program, str(data)]
        return sl.check(words, recover, files=[str(data)], platform="posix", out=self.folder / "out", **options)

    def test_whatever_a_function_does_is_a_verdict(self):
        class Odd:
            def __bool__(self):
                raise RuntimeError("neither")

            def __str__(self):
                raise RuntimeError("no text")

        def forever(path):
            while True:
                pass

        def stubborn(path):
            until = time.monotonic() + 3
            while time.monotonic() < until:
                try:
                    time.sleep(0.01)
                except BaseException:
                    pass

        def raising(error):
            def recover(path):
                raise error

            return recover

        for recover, said in [
            (forever, "TimeoutError: it ran for longer than 1s"),
            (stubborn, "TimeoutError: it ran for longer than 1s"),
            (raising(SystemExit(3)), "SystemExit: 3"),
            (raising(KeyError("name")), "KeyError: 'name'"),
            (raising(KeyboardInterrupt()), "KeyboardInterrupt"),
            (lambda path: Odd(), "recovery returned"),
        ]:
            report = self.checked(recover, timeout="1s", findings=1)
            self.assertTrue(report.found, said)
            self.assertIn(said, report.text)
        for recover in [raising(SystemExit(0)), raising(SystemExit()), lambda path: 1]:
            self.assertFalse(self.checked(recover).found)

    def test_what_would_check_nothing_is_refused(self):
        async def later(path):
            return "wrong"

        def lazily(path):
            yield "wrong"

        class Lazy:
            async def __call__(self, path):
                return "wrong"

        data = self.folder / "data"
        data.mkdir()
        for recover in [later, lazily, Lazy(), lambda: None, lambda a, b, c: None, 5, ["./app", "--recover"], Path("x"), b"x"]:
            with self.assertRaises(TypeError, msg=recover):
                sl.check(["true"], recover, files=data, platform="posix", out=self.folder / "out")
        for recover in [print, lambda *all: None, lambda path, more=1, **others: None, len]:
            self.checked(recover, findings=1)

    def test_a_command_runs_as_after_a_reboot_like_that_of_the_command_line(self):
        data = self.folder / "data"
        data.mkdir()
        program = "import sys; open(sys.argv[1] + '/file', 'w').write('42')"
        words = [sys.executable, "-c", program, str(data)]
        command = Path(sys.executable).parent / "strandline"
        line = [command, "check", "--json", "--platform", "posix", "--files", data, "--recover", "true POOL", "--out", "l", "--", *words]
        whole = json.loads(subprocess.run(line, cwd=self.folder, capture_output=True, text=True).stdout)
        (data / "file").unlink()
        ours = sl.check(words, "true POOL", files=data, platform="posix", out=self.folder / "out")
        self.assertEqual(ours["rebooted"], whole["rebooted"])
        self.assertEqual(ours["images"], whole["images"])
        (data / "file").unlink()
        as_it_is = sl.check(words, "true POOL", files=data, platform="posix", reboot=False, out=self.folder / "out")
        self.assertFalse(as_it_is["rebooted"])

    def test_ctrl_c_ends_a_function_that_does_not(self):
        code = (
            "import signal, sys, strandline as sl\n"
            "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
            "def recover(path):\n"
            "    print('begun', flush=True)\n"
            "    while True: pass\n"
            "program = \"import sys; open(sys.argv[1] + '/file', 'w').write('42')\"\n"
            "sl.check([sys.executable, '-c', program, 'data'], recover, files=['data'], timeout='1h')\n"
        )
        (self.folder / "data").mkdir()
        words = [sys.executable, "-c", code]
        with subprocess.Popen(words, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
            self.assertEqual(child.stdout.readline(), "begun\n")
            child.send_signal(signal.SIGINT)
            _, said = child.communicate(timeout=60)
        self.assertIn("KeyboardInterrupt", said)


class Tables(Scratch):
    def trace(self):
        return sl.record(WORK, self.folder / "t.slt")

    def test_a_trace_is_an_arrow_table(self):
        trace = self.trace()
        self.assertTrue(trace.__arrow_c_stream__())
        if has("pyarrow"):
            import pyarrow

            table = pyarrow.table(trace)
            self.assertEqual(len(table), trace.info["events"])
            self.assertIn("store", table["op"].unique().to_pylist())
            self.assertEqual(len(pyarrow.table(trace.sites())), trace.info["sites"])
        if has("pandas") and has("pyarrow"):
            self.assertEqual(len(trace.to_pandas()), trace.info["events"])
        if has("polars"):
            self.assertEqual(len(trace.to_polars()), trace.info["events"])

    def test_traces_without_events_cut_short_and_foreign(self):
        whole = self.trace()
        path = whole.path
        events = whole.info["events"]
        nothing = whole.thread(1 << 20)
        content = Path(path).read_bytes()
        cut = self.folder / "cut.slt"
        cut.write_bytes(content[: len(content) * 2 // 3])
        part = sl.Trace(cut)
        self.assertTrue(part.info["truncated"])
        self.assertLess(part.info["events"], events)
        damaged = self.folder / "damaged.slt"
        middle = len(content) // 2
        damaged.write_bytes(content[:middle] + bytes(b ^ 0xFF for b in content[middle : middle + 64]) + content[middle + 64 :])
        foreign = self.folder / "foreign.slt"
        foreign.write_bytes(b"text")
        with self.assertRaisesRegex(sl.StrandlineError, "foreign.slt"):
            sl.Trace(foreign)
        with self.assertRaisesRegex(sl.StrandlineError, "absent.slt"):
            sl.Trace(self.folder / "absent.slt")
        if has("pandas") and has("pyarrow"):
            self.assertEqual(len(nothing.to_pandas()), 0)
            self.assertEqual(list(nothing.to_pandas().columns), list(whole.to_pandas().columns))
            self.assertEqual(len(part.to_pandas()), part.info["events"])
            with self.assertRaisesRegex(Exception, "damaged.slt"):
                sl.Trace(damaged).to_pandas()

    def test_verbs_refuse_a_thread_s_table(self):
        trace = sl.record(WORK, self.folder / "t.slt")
        thread = trace.thread(0)
        self.assertIn("thread 0", repr(thread))
        for verb in (sl.simulate, sl.profile, lambda one: sl.sweep(one, {}, store=self.folder / "s"), lambda one: sl.sweep([one], {})):
            with self.assertRaisesRegex(sl.StrandlineError, r"thread\(0\) of .*t.slt is a table only"):
                verb(thread)

    def test_a_sweep_over_a_trace(self):
        table = sl.sweep(self.trace(), {"machine": ["dram", "xpoint"]}, store=self.folder / "store")
        self.assertEqual(table["error"], [None, None])
        if has("pandas") and has("pyarrow"):
            self.assertEqual(list(table.to_pandas()["machine"]), ["dram", "xpoint"])


class Whole(Scratch):
    def test_the_examples_run_on_another_trace(self):
        """On their own input they run as notebooks."""
        trace = sl.record(sl.Workload("btree-fill", operations=300), self.folder / "other.slt")
        for example in to_notebooks.SCRIPTS:
            with self.subTest(example.name):
                environment = dict(os.environ, STRANDLINE_STORE=str(self.folder / "store"))
                ran = subprocess.run(
                    [sys.executable, str(example), str(trace.path)], cwd=self.folder, env=environment, capture_output=True, text=True
                )
                self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)

    def test_the_notebooks_are_those_of_the_scripts_and_run(self):
        for script in to_notebooks.SCRIPTS:
            notebook = script.with_suffix(".ipynb")
            self.assertEqual(notebook.read_text(), to_notebooks.notebook(script), "run to_notebooks.py")
            if not has("nbclient") or not has("ipykernel"):
                continue
            import nbclient
            import nbformat

            environment = dict(os.environ, STRANDLINE_STORE=str(self.folder / "store"))
            with self.subTest(notebook.name), unittest.mock.patch.dict(os.environ, environment):
                cells = nbformat.read(notebook, as_version=4)
                where = {"metadata": {"path": str(self.folder)}}
                nbclient.NotebookClient(cells, timeout=300, kernel_name="python3", resources=where).execute()
                outputs = [output for cell in cells.cells if cell.cell_type == "code" for output in cell.outputs]
                pages = [output for output in outputs if "iframe" in output.get("data", {}).get("text/html", "")]
                self.assertTrue(pages or script.name == "crash.py", "no report is shown")

    @unittest.skipUnless(all(map(has, ["pandas", "pyarrow", "distributed"])), "no pandas, pyarrow, distributed")
    def test_the_code_of_the_manuals_runs(self):
        root = Path(__file__).parent.parent.parent
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        for page in ["docs/python.md", "python/README.md"]:
            with self.subTest(page), tempfile.TemporaryDirectory(dir="/dev/shm") as shared:
                text = (root / page).read_text().replace("/dev/shm/", f"{shared}/")
                blocks = re.findall(r"^(<!-- shell: skip[^\n]*\n)?```(sh|python)\n(.*?)^```$", text, re.M | re.S)
                shell = "\n".join(code for skip, language, code in blocks if language == "sh" and not skip)
                code = "\n".join(code for _, language, code in blocks if language == "python")
                self.assertIn("import strandline", code)
                for words in [["bash", "-ec", shell], [sys.executable, "-c", code]]:
                    own = dict(os.environ, PATH=path)
                    ran = subprocess.run(words, cwd=self.folder, env=own, capture_output=True, text=True)
                    self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)

    def test_the_command_line_comes_along(self):
        command = Path(sys.executable).parent / "strandline"
        said = subprocess.run([command, "--version"], capture_output=True, text=True)
        self.assertEqual(said.stdout.strip(), f"strandline {sl.__version__}", said.stderr)
        doctor = subprocess.run([command, "doctor", "--json"], capture_output=True, text=True)
        self.assertIn("facts", json.loads(doctor.stdout))

    def test_the_command_line_is_the_module_s(self):
        """Its executable opens the module: statuses, pipes, names, and what starts it again are those of any program."""
        own = Path(sl.__file__).parent / "strandline"
        command = Path(sys.executable).parent / "strandline"
        self.assertLess(own.stat().st_size, 1 << 20)
        link = self.folder / "elsewhere"
        link.symlink_to(command)
        run = lambda *words, **more: subprocess.run(words, capture_output=True, text=True, cwd=self.folder, **more)  # noqa: E731
        for words in [[own], [command], [link], [sys.executable, "-m", "strandline"]]:
            self.assertEqual(run(*words, "--version").stdout, f"strandline {sl.__version__}\n")
            self.assertEqual(run(*words, "nothing").returncode, 2)
            self.assertEqual(run(*words, "doctor", "--json").returncode, 0)
        # A reader that goes away is no error, and no signal.
        piped = run("bash", "-c", f"set -o pipefail; {command} completions bash | head -n 1")
        self.assertEqual((piped.returncode, piped.stderr), (0, ""))
        # The last line that has no end is there, too.
        self.assertTrue(json.loads(run(command, "profile", "--json", "--ops", "500").stdout))
        (self.folder / "app.c").write_text("static volatile int a[64]; int main(void) { for (int i = 0; i < 64; i++) a[i] = i; return a[3] != 3; }")
        (self.folder / "Makefile").write_text("app: app.c\n\t$(CC) -O1 -g -o app app.c\n")
        built = run("make", f"CC={command} cc")
        self.assertEqual(built.returncode, 0, built.stderr)
        self.assertGreater(sl.record([self.folder / "app"], self.folder / "a.slt").info["events"], 64)

    @unittest.skipUnless(has("maturin"), "no maturin")
    def test_a_wheel_s_executable_is_made_once_and_opens_the_module(self):
        """Of a module in C, in a folder whose name has a blank; its verb is the number of the file that it opens."""
        sys.path.insert(0, str(Path(__file__).parent.parent / "backend"))
        self.addCleanup(sys.path.pop, 0)
        import with_command

        folder = self.folder / "a folder" / "strandline"
        folder.mkdir(parents=True)
        source = folder / "module.c"
        source.write_text(
            "#include <fcntl.h>\nextern char _Py_NoneStruct; extern int PyErr_Print(void);\n"
            "void *data = &_Py_NoneStruct; int (*call)(void) = PyErr_Print;\n"
            'int strandline_main(void) { return data && call ? open("/dev/null", O_RDONLY) : 99; }\n'
        )
        module = folder / "_native.abi3.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-o", module, source], check=True)
        wheel = self.folder / "strandline-1-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as out:
            out.write(module, "strandline/_native.abi3.so")
            out.writestr("strandline-1.dist-info/RECORD", "strandline/_native.abi3.so,,\nstrandline-1.dist-info/RECORD,,\n")
        for _ in range(2):
            with_command.add_command(wheel)
            with zipfile.ZipFile(wheel) as made:
                names = made.namelist()
                record = made.read("strandline-1.dist-info/RECORD").decode().splitlines()
                launcher = folder / "strandline"
                launcher.write_bytes(made.read("strandline/strandline"))
            self.assertEqual(len(set(names)), len(names))
            # Pip writes the interpreter's path into scripts of a wheel as it is, with blanks.
            self.assertFalse([name for name in names if "/scripts/" in name])
            self.assertEqual(sorted(line.split(",")[0] for line in record), sorted(names))
            launcher.chmod(0o755)
            closed = ["bash", "-c", 'exec "$0" 0<&- 1>&- 2>&-', launcher]
            self.assertEqual(subprocess.run(closed, timeout=60).returncode, 3, "a standard stream's number is free")
        module.unlink()
        alone = subprocess.run([launcher], capture_output=True, text=True)
        self.assertEqual(alone.returncode, 2)
        self.assertIn("install the package again", alone.stderr)

    def test_nothing_heavy_is_imported(self):
        code = "import sys, strandline; print([m for m in ('pandas', 'polars', 'pyarrow', 'distributed', 'inspect', 'typing', 'asyncio') if m in sys.modules])"
        self.assertEqual(subprocess.check_output([sys.executable, "-c", code], text=True).strip(), "[]")

    @unittest.skipUnless(has("mypy"), "no mypy")
    def test_the_package_s_types_hold(self):
        """Of its sources, and of its stubs against what is there."""
        for words in (["mypy", "-p", "strandline", "--no-incremental"], ["mypy.stubtest", "strandline"]):
            ran = subprocess.run([sys.executable, "-m", *words], cwd=self.folder, capture_output=True, text=True)
            self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)

    def test_what_is_absent_is_named_with_what_installs_it(self):
        trace = sl.record(WORK, self.folder / "t.slt")
        for package, extra, call in [("pyarrow", "pandas", trace.to_pandas), ("polars", "polars", trace.to_polars)]:
            with unittest.mock.patch.dict(sys.modules, {package: None}):
                with self.assertRaisesRegex(ModuleNotFoundError, re.escape(f"strandline[{extra}]")):
                    call()

    def test_every_function_has_a_docstring_and_a_stub(self):
        stubs = (Path(sl.__file__).parent / "_native.pyi").read_text()
        for name in sl.__all__:
            if name not in ("VERSION", "__version__"):
                self.assertTrue(getattr(sl, name).__doc__, name)
        for name in dir(sl._native):
            if not name.startswith("_"):
                self.assertIn(f" {name}", f" {stubs}".replace("\n", " "), name)


if __name__ == "__main__":
    unittest.main()
