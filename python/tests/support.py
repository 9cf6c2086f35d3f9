"""What the tests share."""

import tempfile
import unittest
from pathlib import Path

import strandline as sl

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
