"""git. Settings: the value of `core.fsync`, or `default`. A transaction is a commit."""
import os
import subprocess
import sys

from engine import KEPT, acknowledge, fail, key_of, main, value_of, verified


def git(settings, folder, *words):
    own = {"HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
    own.update({f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")})
    how = [] if settings == "default" else ["-c", f"core.fsync={settings}"]
    command = ["git", "-c", "gc.auto=0", "-c", "safe.directory=*", *how, "-C", folder, *words]
    done = subprocess.run(command, env=os.environ | own, capture_output=True)
    if done.returncode:
        fail(f"git {words[0]}: {done.stdout.decode()}{done.stderr.decode()}")
    return done.stdout


def commit(settings, folder, count):
    if count == 0:
        git(settings, folder, "init", "-q")
        git(settings, folder, "commit", "-q", "--allow-empty", "-m", "0")
    for i in range(1, count + 1):
        with open(f"{folder}/last", "w") as file:
            file.write(str(i))
        with open(f"{folder}/{key_of(i)}", "wb") as file:
            file.write(value_of(i))
        if i > KEPT:
            os.remove(f"{folder}/{key_of(i - KEPT)}")
        git(settings, folder, "add", "-A")
        git(settings, folder, "commit", "-q", "-m", str(i))
        acknowledge(i)


def verify(lost, settings, folder):
    git(settings, folder, "fsck", "--full", "--strict")
    names = git(settings, folder, "ls-tree", "--name-only", "HEAD").decode().split()
    verified(lost, lambda key: git(settings, folder, "show", f"HEAD:{key}") if key in names else None)


main(commit, verify)
