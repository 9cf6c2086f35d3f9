"""Verbs as functions."""

import json
import os
import pickle
import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import strandline as sl
from support import WORK, Scratch


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
