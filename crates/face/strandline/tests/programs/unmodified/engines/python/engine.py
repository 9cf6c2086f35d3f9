"""What the programs of all engines share.

    PROGRAM SETTINGS FOLDER COUNT                 commits COUNT transactions, prints the number of each
    PROGRAM --verify LOST SETTINGS FOLDER         whether all that were printed are there, but for LOST

Transaction i stores i as `last` and a value as `k<i>`, and deletes the key that is KEPT older.
"""
import os
import sys

KEPT = 8


def value_of(i):
    return bytes([97 + i % 26]) * (i * 577 % 3000 + 1)


def key_of(i):
    return f"k{i}"


def fail(text):
    print(text)
    sys.exit(1)


def acknowledge(i):
    print(i, flush=True)


def verified(lost, get):
    """Ends the program: 0 if what `get` finds is the state after one transaction that is young enough."""
    last = int(get("last") or 0)
    said = open(os.environ["STRANDLINE_STDOUT"]).read().split() if "STRANDLINE_STDOUT" in os.environ else []
    said = int(said[-1]) if said else 0
    for i in range(1, last + 4):
        if get(key_of(i)) != (value_of(i) if last - KEPT < i <= last else None):
            fail(f"a transaction is there in part: {key_of(i)} of {last}")
    if last + lost < said:
        fail(f"too many are lost: {said} was acknowledged, {last} is there")
    sys.exit(0)


def main(commit, verify):
    if sys.argv[1] == "--verify":
        lost, settings, folder = sys.argv[2:5]
        try:
            verify(int(lost), settings, folder)
        except Exception as error:
            fail(f"{type(error).__name__}: {error}")
    else:
        settings, folder, count = sys.argv[1:4]
        commit(settings, folder, int(count))
