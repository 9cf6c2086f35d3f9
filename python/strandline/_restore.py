"""What pickle and copy call to make our objects again: functions that can be imported by their names."""

from . import _native


def machine(spec):
    return _native.Machine._of(spec)


def report(*fields):
    return _native.Report._of(*fields)


def sites(path):
    return _native.Trace(path).sites()


def table(rows, columns):
    return _native.Table._of(rows, columns)


def trace(path, thread):
    whole = _native.Trace(path)
    return whole if thread is None else whole.thread(thread)
