"""The build backend: maturin's, after the command line is built, so that a wheel brings `strandline` along.

The command is an executable and no entry point of the module: it also is what a compiler calls as its assembler. STRANDLINE_BINARY
names one that is there already.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path

import maturin
from maturin import *  # the other hooks are maturin's own

HERE = Path(__file__).resolve().parent.parent
SCRIPTS = HERE / "strandline.data" / "scripts"
# maturin wants it, also before it is filled.
SCRIPTS.mkdir(parents=True, exist_ok=True)


def _command():
    built = os.environ.get("STRANDLINE_BINARY")
    if not built:
        profile = "dev" if "--profile dev" in os.environ.get("MATURIN_PEP517_ARGS", "") else "release"
        words = ["cargo", "build", "--locked", "--profile", profile, "-p", "strandline", "--bin", "strandline"]
        words += ["--manifest-path", str(HERE.parent / "Cargo.toml"), "--message-format", "json-render-diagnostics"]
        output = subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout
        messages = [json.loads(line) for line in output.splitlines()]
        built = next(message["executable"] for message in messages if message.get("executable"))
    # Replaced whole: the old one may be running.
    new = SCRIPTS / ".strandline"
    shutil.copy(built, new)
    if shutil.which("strip"):
        subprocess.run(["strip", str(new)], check=True)
    new.replace(SCRIPTS / "strandline")


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    _command()
    return maturin.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    _command()
    return maturin.build_editable(wheel_directory, config_settings, metadata_directory)
