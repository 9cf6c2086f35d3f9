"""Traces as tables; results through pickle."""

import copy
import pickle
from pathlib import Path

import strandline as sl
from support import WORK, Scratch, has


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
