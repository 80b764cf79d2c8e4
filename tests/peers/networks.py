"""A network that exists for one test: a server's namespace, and one for each of a few hosts, joined by a bridge.

Nothing of it has a name outside and nothing leads out of it. All of it hangs on one process that ends when its input
does, so the system removes everything even after the test was killed.
"""

import contextlib
import ctypes
import functools
import os
import subprocess
import threading

_BRIDGE = "bridge"
_CLONE_NEWNET = 0x40000000
# Names of namespaces lie in a folder that only this process sees. The bridge has an address of its own: it would take
# that of a port otherwise, and be reached over that port even after it has left.
_SCRIPT = f"""
set -e
mount -t tmpfs none /run
mkdir /run/netns
ip link set lo up
ip link add {_BRIDGE} address 02:00:00:00:00:01 type bridge
ip address add 10.99.0.1/24 dev {_BRIDGE}
ip link set {_BRIDGE} up
echo ready
exec cat
"""


@functools.cache
def why_not():
    """Return why there can be no such network here, None if there can."""
    if os.geteuid() != 0:
        return "only root can make networks"
    try:
        with contextlib.closing(Network()) as network:
            network.host(1)
    except (OSError, RuntimeError) as error:
        return f"no network can be made here: {error}"
    return None


class Network:
    """The server is at 10.99.0.1, host number N at 10.99.0.N."""

    server = "10.99.0.1"

    def __init__(self):
        self._process = subprocess.Popen(
            ["unshare", "--net", "--mount", "sh", "-c", _SCRIPT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        if self._process.stdout.readline() != b"ready\n":
            _, problem = self._process.communicate()
            raise RuntimeError(problem.decode())
        self._lock = threading.Lock()

    def close(self):
        self._process.communicate()

    def host(self, number):
        """Add a host, 2 to 254."""
        name, outer = f"host{number}", f"port{number}"
        self._run(f"ip netns add {name}")
        self._run(f"ip link add {outer} type veth peer name inner netns {name}")
        self._run(f"ip -n {name} address add 10.99.0.{number}/24 dev inner")
        self._run(f"ip -n {name} link set lo up")
        self._run(f"ip -n {name} link set inner up")
        host = Host(self, name, f"10.99.0.{number}", outer)
        self._run(f"ip link set {outer} up")
        host.join()
        return host

    def inside(self):
        """Let this thread, and the processes that it starts, be where the server is."""
        return self._entered(f"/proc/{self._process.pid}/ns/net")

    @contextlib.contextmanager
    def _entered(self, path):
        before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        there = os.open(path, os.O_RDONLY)
        try:
            _enter(there)
            yield
        finally:
            _enter(before)
            os.close(there)
            os.close(before)

    def _run(self, command):
        nsenter = ["nsenter", "--target", str(self._process.pid), "--net", "--mount"]
        # One at a time: the kernel has one lock for all of this.
        with self._lock:
            done = subprocess.run([*nsenter, *command.split()], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{command}: {done.stderr}")


class Host:
    """One host, whose cable can be cut or unplugged behind its switch."""

    def __init__(self, network, name, address, port):
        self.address = address
        self._network = network
        self._name = name
        self._port = port

    def inside(self):
        """Let the sockets that this thread makes belong to this host, for ever."""
        return self._network._entered(f"/proc/{self._network._process.pid}/root/run/netns/{self._name}")

    def cut(self):
        """Take the cable away: both ends see that their link is down."""
        self._network._run(f"ip link set {self._port} down")

    def mend(self):
        self._network._run(f"ip link set {self._port} up")

    def leave(self):
        """Lose every packet in between: neither end sees anything."""
        self._network._run(f"ip link set {self._port} nomaster")

    def join(self):
        self._network._run(f"ip link set {self._port} master {_BRIDGE}")


def _enter(namespace):
    if ctypes.CDLL(None, use_errno=True).setns(namespace, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
