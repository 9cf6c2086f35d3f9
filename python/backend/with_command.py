"""The build backend: maturin's, and a command line beside the module, so that a wheel brings `strandline` along.

The command line is an executable (launcher.c) that opens the module: its code is in a wheel once. A wheel of maturin's gets it
by `python3 with_command.py WHEEL`.
"""

import base64
import hashlib
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import maturin
from maturin import *  # noqa: F403  the other hooks are maturin's own

HERE = Path(__file__).resolve().parent
PACKAGE = HERE.parent / "strandline"
MODULE = re.compile(r"(.*/)?(_native\.[^/]*so)")
# What bin/strandline calls (pyproject.toml): it becomes the executable, wherever the package is. A module of its own, since
# the package loads all that there is. An installer writes the script itself: folders may have blanks in their names.
STARTER = b"""import os
import sys
from importlib.util import find_spec


def main():
    command = os.path.join(os.path.dirname(find_spec("strandline").origin), "strandline")
    os.execv(command, ["strandline", *sys.argv[1:]])
"""
STARTER_NAME = "_strandline_command.py"


def _launcher(module):
    """The executable for a module: its bytes."""
    listed = subprocess.run(["nm", "-D", "--undefined-only", module], stdout=subprocess.PIPE, check=True, text=True).stdout
    # Data and functions of the interpreter alike: the loader looks for their names only.
    names = [line.split()[-1] for line in listed.splitlines() if re.search(r"\bU _?Py", line)]
    with tempfile.TemporaryDirectory() as folder:
        stubs, launcher = Path(folder) / "stubs.s", Path(folder) / "launcher"
        lines = "".join(f".globl {name}\n{name}: .skip 8\n" for name in names)
        stubs.write_text(f'.bss\n{lines}.section .note.GNU-stack,""\n')
        words = ["cc", "-O2", "-rdynamic", f'-DMODULE="{Path(module).name}"', "-o", launcher, HERE / "launcher.c", stubs, "-ldl", "-s"]
        subprocess.run(words, check=True)
        return launcher.read_bytes()


def _record(name, content):
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(content)}\n"


def _add(wheel, added):
    """Puts files into a wheel: executables, by name."""
    new = wheel.with_suffix(".new")
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(new, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as out:
        about = _about(old, "RECORD")
        for entry in old.infolist():
            if entry.filename != about and entry.filename not in added:
                out.writestr(entry, old.read(entry), zipfile.ZIP_DEFLATED, 6)
        for name, content in added.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = 0o100755 << 16
            out.writestr(entry, content, zipfile.ZIP_DEFLATED, 6)
        kept = [line for line in old.read(about).decode().splitlines(True) if line.split(",")[0] not in added]
        out.writestr(about, "".join(kept + [_record(name, content) for name, content in added.items()]))
    new.replace(wheel)


def _about(wheel, file):
    return next(name for name in wheel.namelist() if name.endswith(f".dist-info/{file}"))


def add_command(wheel):
    """Adds the command line to a wheel."""
    with zipfile.ZipFile(wheel) as old, tempfile.TemporaryDirectory() as folder:
        module = next(name for name in old.namelist() if MODULE.fullmatch(name))
        launcher = _launcher(old.extract(module, folder))
        added = {f"{Path(module).parent}/strandline": launcher, STARTER_NAME: STARTER}
    _add(wheel, added)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    name = maturin.build_wheel(wheel_directory, config_settings, metadata_directory)
    add_command(Path(wheel_directory) / name)
    return name


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    name = maturin.build_editable(wheel_directory, config_settings, metadata_directory)
    wheel = Path(wheel_directory) / name
    # The module lies in the checkout, beside those of other interpreters; the executable belongs beside it.
    modules = [path for path in PACKAGE.iterdir() if MODULE.fullmatch(path.name)]
    new = PACKAGE / ".strandline"
    new.write_bytes(_launcher(max(modules, key=lambda path: path.stat().st_mtime)))
    new.chmod(0o755)
    # Replaced whole: the old one may be running.
    new.replace(PACKAGE / "strandline")
    _add(wheel, {STARTER_NAME: STARTER})
    return name


if __name__ == "__main__":
    for wheel in sys.argv[1:]:
        add_command(Path(wheel))
