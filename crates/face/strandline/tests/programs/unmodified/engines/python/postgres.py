"""PostgreSQL by libpq. Settings: values of `synchronous_commit`, `on` or `off`."""
import ctypes
import os
import shutil
import subprocess
import tempfile

from engine import KEPT, acknowledge, fail, key_of, main, value_of, verified

# The server does not run as root.
USER = 65534 if os.getuid() == 0 else os.getuid()
LIBPQ = ctypes.CDLL("libpq.so.5")
for name, kind in [("connectdb", "p"), ("exec", "p"), ("getvalue", "s"), ("resultErrorMessage", "s")]:
    getattr(LIBPQ, f"PQ{name}").restype = ctypes.c_void_p if kind == "p" else ctypes.c_char_p


def as_user():
    os.setgid(USER)
    os.setuid(USER)


def own(folder):
    # The folders of tests are closed to others.
    for above in (os.path.abspath(f"{folder}/.."), os.path.abspath(f"{folder}/../..")):
        if not os.stat(above).st_mode & 1:
            os.chmod(above, 0o711)
    for path, _, names in os.walk(folder):
        for name in [path, *(os.path.join(path, name) for name in names)]:
            os.chown(name, USER, USER, follow_symlinks=False)
        os.chmod(path, 0o700)


def run(*words):
    done = subprocess.run(words, preexec_fn=as_user, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd="/")
    if done.returncode:
        fail(done.stdout.decode()[-500:])


class Server:
    def __init__(self, settings, folder):
        self.folder = f"{os.path.abspath(folder)}/db"
        self.sockets = tempfile.mkdtemp()
        own(self.sockets)
        how = f"-c listen_addresses= -c unix_socket_directories={self.sockets} -c synchronous_commit={settings} "
        how += "-c max_connections=5 -c shared_buffers=1MB -c autovacuum=off "
        how += "-c max_wal_senders=0 -c wal_level=minimal"
        run("pg_ctl", "-w", "-s", "-D", self.folder, "-l", f"{self.sockets}/log", "-o", how, "start")
        self.base = LIBPQ.PQconnectdb(f"host={self.sockets} dbname=postgres user=postgres".encode())

    def ask(self, text):
        result = ctypes.c_void_p(LIBPQ.PQexec(ctypes.c_void_p(self.base), text.encode()))
        if LIBPQ.PQresultStatus(result) not in (1, 2):
            fail(LIBPQ.PQresultErrorMessage(result).decode())
        rows = range(LIBPQ.PQntuples(result))
        return [tuple(LIBPQ.PQgetvalue(result, row, at) for at in range(LIBPQ.PQnfields(result))) for row in rows]

    def end(self, how):
        LIBPQ.PQfinish(ctypes.c_void_p(self.base))
        run("pg_ctl", "-w", "-s", "-D", self.folder, "-m", how, "stop")
        shutil.rmtree(self.sockets)


def commit(settings, folder, count):
    if count == 0:
        os.mkdir(f"{folder}/db")
        own(folder)
        run("initdb", "-D", f"{os.path.abspath(folder)}/db", "-U", "postgres", "--wal-segsize=1", "-N")
    server = Server(settings, folder)
    if count == 0:
        server.ask("create table t(k text primary key, v text)")
    put = "insert into t values('{}', '{}') on conflict(k) do update set v = excluded.v;"
    for i in range(1, count + 1):
        old = f"delete from t where k = '{key_of(i - KEPT)}';"
        server.ask("begin;" + put.format("last", i) + put.format(key_of(i), value_of(i).decode()) + old + "commit")
        acknowledge(i)
        if i == count // 2:
            server.ask("checkpoint")
    server.end("fast")


def verify(lost, settings, folder):
    own(folder)
    for name in ("postmaster.pid",):
        if os.path.exists(f"{folder}/db/{name}"):
            # Its process is gone after a reboot; without one, its number may be another program's.
            os.remove(f"{folder}/db/{name}")
    server = Server(settings, folder)
    rows = dict(server.ask("select k, v from t"))
    server.end("immediate")
    verified(lost, lambda key: rows.get(key.encode()))


main(commit, verify)
