"""Redis. Settings: `always`, `everysec` (of the AOF) or `rdb`. A transaction is a MULTI, or a SAVE."""
import os
import socket
import subprocess
import tempfile
import time

from engine import KEPT, acknowledge, fail, key_of, main, value_of, verified


class Server:
    def __init__(self, settings, folder):
        self.socket_folder = tempfile.TemporaryDirectory()
        path = f"{self.socket_folder.name}/s"
        aof = ["--appendonly", "yes", "--appendfsync", settings]
        if settings == "rdb":
            aof = ["--appendonly", "no"]
        words = ["--port", "0", "--unixsocket", path, "--dir", os.path.abspath(folder), "--save", "", *aof]
        self.process = subprocess.Popen(["redis-server", *words], stdout=subprocess.DEVNULL)
        for _ in range(2000):
            try:
                self.socket = socket.socket(socket.AF_UNIX)
                self.socket.connect(path)
                self.answers = self.socket.makefile("rb")
                if self.ask("PING") == b"PONG":
                    return
            except OSError:
                pass
            if self.process.poll() is not None:
                fail(f"redis-server ended with {self.process.returncode}")
            time.sleep(0.002)
        fail("redis-server does not answer")

    def ask(self, *words):
        words = [word if isinstance(word, bytes) else word.encode() for word in words]
        self.socket.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words))
        return self.answer()

    def answer(self):
        line = self.answers.readline().rstrip()
        kind, rest = line[:1], line[1:]
        if kind == b"$":
            return None if rest == b"-1" else self.answers.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return [self.answer() for _ in range(int(rest))]
        if kind == b"-" or not kind:
            raise OSError(line.decode())
        return rest

    def end(self):
        self.socket.sendall(b"*2\r\n$8\r\nSHUTDOWN\r\n$6\r\nNOSAVE\r\n")
        self.process.wait()


def commit(settings, folder, count):
    server = Server(settings, folder)
    for i in range(1, count + 1):
        server.ask("MULTI")
        server.ask("SET", "last", str(i))
        server.ask("SET", key_of(i), value_of(i))
        server.ask("DEL", key_of(i - KEPT))
        server.ask("EXEC")
        if settings == "rdb":
            server.ask("SAVE")
        acknowledge(i)
        if settings != "rdb" and i == count // 2:
            server.ask("BGREWRITEAOF")
            while b"aof_rewrite_in_progress:1" in server.ask("INFO", "persistence"):
                time.sleep(0.01)
    server.end()


def verify(lost, settings, folder):
    server = Server(settings, folder)
    try:
        verified(lost, lambda key: server.ask("GET", key))
    finally:
        server.end()


main(commit, verify)
