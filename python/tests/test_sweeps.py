"""Sweeps: grids, executors, what is kept."""

import json
import os
import signal
import subprocess
import sys
import time
import unittest
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import strandline as sl
from support import GRID, WORK, Scratch, has


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
