"""Ctrl-C."""

import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import strandline as sl
from support import Scratch


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
