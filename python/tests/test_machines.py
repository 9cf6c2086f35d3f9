"""Machines as objects."""

import os
import pickle
import tempfile
import unittest
from pathlib import Path

import strandline as sl
from support import WORK


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
