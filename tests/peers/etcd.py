"""etcd beside the store under test: one member or three, that are killed, paused, filled, restored; and a way to it
that delays or loses what is sent.
"""

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from peers.processes import Process, free_port
from peers.waiting import wait_until

STARTS_WITHIN_S = 60
#: Where etcd's files are if there is room: it waits for the disk at each write, and here others use the disk as well.
#: What is killed is a process, never the machine.
MEMORY = Path("/dev/shm")
MEMORY_BYTES_MIN = 1 << 30


PROGRAMS = ("etcd", "etcdctl", "openssl")


class Member:
    """One etcd process and its folder."""

    def __init__(self, name, folder, *, scheme="http"):
        self.name = name
        self.folder = folder
        self.scheme = scheme
        self.client_port = free_port()
        self.peer_port = free_port()
        self.process = None

    @property
    def endpoint(self):
        return f"127.0.0.1:{self.client_port}"

    @property
    def peer(self):
        return f"{self.name}=http://127.0.0.1:{self.peer_port}"

    @property
    def data(self):
        return self.folder / f"{self.name}.etcd"


class Etcd:
    """A cluster of members on loopback; starts at once, or member by member.

    `on_disk` keeps its files in the folder, where they would otherwise be in memory.
    """

    def __init__(self, folder, *, members=1, options=(), tls=None, on_disk=False):
        self.folder = folder
        self.data = folder if on_disk else _roomy(folder)
        self.options = list(options)
        #: An authority's file, certificate and key, of the server; the client may use the same.
        self.tls = tls
        self.members = [Member(f"etcd{n}", self.data, scheme="https" if tls else "http") for n in range(members)]
        self.login = ()

    @property
    def endpoints(self):
        return tuple(member.endpoint for member in self.members)

    def start(self):
        for member in self.members:
            self.begin(member)
        for member in self.members:
            self.wait_for(member)
        return self

    def begin(self, member, *, new=True):
        """Start the process of a member, and do not wait for it."""
        url = f"{member.scheme}://{member.endpoint}"
        peer_url = f"http://127.0.0.1:{member.peer_port}"
        command = ["etcd", "--name", member.name, "--data-dir", member.data, "--logger", "zap"]
        command += ["--listen-client-urls", url, "--advertise-client-urls", url]
        command += ["--listen-peer-urls", peer_url, "--initial-advertise-peer-urls", peer_url]
        command += ["--initial-cluster", ",".join(each.peer for each in self.members), "--log-level", "warn"]
        command += ["--initial-cluster-state", "new", *self.options]
        if self.tls:
            ca, cert, key = self.tls
            command += ["--cert-file", cert, "--key-file", key, "--trusted-ca-file", ca, "--client-cert-auth"]
        member.process = Process(member.name, command, folder=self.folder, env=dict(os.environ))

    def wait_for(self, member):
        def answers():
            assert member.process.running, f"{member.name} has ended: {member.process.text()[-2000:]}"
            return self.ctl("endpoint", "health", endpoints=[member.endpoint], check=False).returncode == 0

        wait_until(answers, seconds=STARTS_WITHIN_S, what=f"{member.name} is healthy")

    def restart(self, member=None):
        for each in self.members if member is None else [member]:
            self.begin(each)
        for each in self.members if member is None else [member]:
            self.wait_for(each)

    def kill(self):
        """End all members with SIGKILL."""
        for member in self.members:
            member.process.kill()

    def stop(self):
        for member in self.members:
            if member.process is not None and member.process.running:
                member.process.kill()
        if self.data != self.folder:
            shutil.rmtree(self.data)

    def ctl(self, *arguments, endpoints=None, check=True):
        """Run etcdctl."""
        command = ["etcdctl", "--endpoints", ",".join(endpoints or self.endpoints), *self.login]
        if self.tls:
            ca, cert, key = self.tls
            command += ["--cacert", ca, "--cert", cert, "--key", key]
        done = subprocess.run(
            [*command, *map(str, arguments)],
            env={**os.environ, "ETCDCTL_API": "3"},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert not check or done.returncode == 0, f"etcdctl {arguments}: {done.stderr}"
        return done

    def leader(self):
        """Return the member that leads the others."""
        for member in self.members:
            fields = self.ctl("endpoint", "status", "-w", "fields", endpoints=[member.endpoint], check=False).stdout
            status = dict(line.split(" : ", 1) for line in fields.splitlines() if " : " in line)
            if status and status['"MemberID"'] == status['"Leader"']:
                return member
        return None

    def revision(self):
        fields = self.ctl("endpoint", "status", "-w", "fields", endpoints=[self.members[0].endpoint]).stdout
        return int(next(line.split(" : ")[1] for line in fields.splitlines() if line.startswith('"Revision"')))

    def restore(self, snapshot):
        """Replace the data of the only member, which is not running, by what a snapshot holds."""
        member = self.members[0]
        shutil.rmtree(member.data, ignore_errors=True)
        self.ctl(
            "snapshot", "restore", snapshot, "--name", member.name, "--data-dir", member.data,
            "--initial-cluster", member.peer, "--initial-advertise-peer-urls", f"http://127.0.0.1:{member.peer_port}",
        )  # fmt: skip


@contextlib.contextmanager
def running_etcd(folder, **options):
    etcd = Etcd(folder, **options)
    try:
        yield etcd.start()
    finally:
        etcd.stop()


class Way:
    """A TCP proxy to one endpoint: passes, delays by seconds, or holds back what is sent, without closing."""

    def __init__(self, endpoint):
        host, port = endpoint.rsplit(":", 1)
        self._target = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.delay_s = 0.0
        self._passes, self._answers_pass = threading.Event(), threading.Event()
        self.let_go()
        self._is_closed = False
        self._sockets = []
        self._lock = threading.Lock()
        self._threads = []
        self._spawn(self._accept)

    def hold(self):
        """Keep back all bytes of both directions from now on; the connections stay."""
        self._passes.clear()

    def hold_answers(self):
        """Hold responses of etcd from now on; requests still arrive."""
        self._answers_pass.clear()

    def let_go(self):
        """Let what was kept back arrive, and all that follows."""
        self._passes.set()
        self._answers_pass.set()

    def cut(self):
        """Lose all that is held, and close the connections."""
        with self._lock:
            sockets, self._sockets = self._sockets, []
        for each in sockets:
            _shut(each)

    def close(self):
        self._is_closed = True
        self.let_go()
        _shut(self._listener)
        self.cut()
        for thread in self._threads:
            thread.join(10)

    def _spawn(self, work, *arguments):
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self):
        while not self._is_closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._spawn(self._connect, client)

    def _connect(self, client):
        self._passes.wait()
        try:
            server = socket.create_connection(self._target, timeout=5)
        except OSError:
            _shut(client)
            return
        server.settimeout(None)
        with self._lock:
            self._sockets += [client, server]
        self._spawn(self._pump, client, server, self._passes)
        self._spawn(self._pump, server, client, self._answers_pass)

    def _pump(self, source, sink, passes):
        """Read at once, send each part when its time has come: a delay is no narrow way."""
        parts = []
        arrived = threading.Condition()

        def send():
            while True:
                with arrived:
                    arrived.wait_for(lambda: parts)
                    due, part = parts.pop(0)
                if not part:
                    _shut(sink)
                    return
                time.sleep(max(0.0, due - time.perf_counter()))
                self._passes.wait()
                passes.wait()
                with contextlib.suppress(OSError):
                    sink.sendall(part)

        self._spawn(send)
        part = b"."
        while part:
            try:
                part = source.recv(65536)
            except OSError:
                part = b""
            with arrived:
                parts.append((time.perf_counter() + self.delay_s, part))
                arrived.notify()
        _shut(source)


def certificate(folder, name):
    """Write a key and a certificate for loopback that vouches for itself; return its authority, itself, and the key."""
    cert, key = folder / f"{name}.pem", folder / f"{name}.key"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert]
    subprocess.run(command, check=True, capture_output=True)
    return str(cert), str(cert), str(key)


def _roomy(folder):
    try:
        has_room = shutil.disk_usage(MEMORY).free > MEMORY_BYTES_MIN
    except OSError:
        has_room = False
    return Path(tempfile.mkdtemp(prefix="etcd-", dir=MEMORY)) if has_room else folder


def _shut(each):
    with contextlib.suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)
    each.close()
