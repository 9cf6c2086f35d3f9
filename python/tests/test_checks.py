"""Crash checks by functions."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import strandline as sl
from support import Scratch


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
