"""etcd by its gateway for JSON. Settings: `default`. A transaction is a `txn`."""
import base64
import json
import os
import signal
import socket
import subprocess
import time
import urllib.request

from engine import KEPT, acknowledge, fail, key_of, main, value_of, verified


def text(data):
    return base64.b64encode(data if isinstance(data, bytes) else data.encode()).decode()


class Server:
    def __init__(self, folder):
        peers, clients = (self.free_port() for _ in range(2))
        self.url = f"http://127.0.0.1:{clients}"
        peer = f"http://127.0.0.1:{peers}"
        words = ["--data-dir", f"{folder}/db", "--heartbeat-interval", "10", "--election-timeout", "100"]
        words += ["--listen-client-urls", self.url, "--advertise-client-urls", self.url, "--listen-peer-urls", peer]
        words += ["--initial-advertise-peer-urls", "http://127.0.0.1:1", "--snapshot-count", "8"]
        words += ["--logger", "zap"]
        words += ["--initial-cluster", "default=http://127.0.0.1:1", "--log-level", "fatal"]
        self.process = subprocess.Popen(["etcd", *words], stdout=subprocess.DEVNULL)
        for _ in range(2000):
            try:
                self.range("last")
                return
            except OSError:
                pass
            if self.process.poll() is not None:
                fail(f"etcd ended with {self.process.returncode}")
            time.sleep(0.005)
        fail("etcd does not answer")

    @staticmethod
    def free_port():
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            return one.getsockname()[1]

    def ask(self, what, question):
        request = urllib.request.Request(f"{self.url}/v3/kv/{what}", json.dumps(question).encode())
        return json.load(urllib.request.urlopen(request, timeout=5))

    def range(self, key):
        found = self.ask("range", {"key": text(key)}).get("kvs")
        return base64.b64decode(found[0]["value"]) if found else None

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


def commit(settings, folder, count):
    server = Server(folder)
    put = lambda key, value: {"requestPut": {"key": text(key), "value": text(value)}}
    for i in range(1, count + 1):
        old = {"requestDeleteRange": {"key": text(key_of(i - KEPT))}}
        server.ask("txn", {"success": [put("last", str(i)), put(key_of(i), value_of(i)), old]})
        acknowledge(i)
    server.end()


def verify(lost, settings, folder):
    server = Server(folder)
    try:
        verified(lost, server.range)
    finally:
        server.end()


main(commit, verify)
