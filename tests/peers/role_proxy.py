"""HAProxy at a role address, as operators set it up."""

import os
import re
import socket
import subprocess
import sys

from peers.jars import REPOSITORY
from peers.processes import Process, free_port

_GUIDE = REPOSITORY / "docs" / "role-addresses-haproxy.md"


def states_to_save(shown):
    """Return what operators save of the states that HAProxy shows: what the script of the guide makes of them."""
    (program,) = re.findall(r"awk '([^']+)'", _GUIDE.read_text())
    return subprocess.run(["awk", program], input=shown, capture_output=True, text=True, check=True).stdout


class RoleHAProxy:
    """HAProxy with the configuration that `rmq haproxy-config` writes."""

    def __init__(self, folder, rules, controllers, check_ports, options=()):
        self.folder = folder / "haproxy"
        self.folder.mkdir()
        self._rules, self._controllers, self._check_ports = rules, controllers, check_ports
        self._local_port = free_port()
        #: More options of the command.
        self.options = options
        self._states = self.folder / "state"
        self.process = None

    def configure(self):
        """Write its configuration, once the controllers know the brokers."""
        (self.folder / "haproxy.cfg").write_text(self._written())

    def reset_sessions(self):
        """Let its sessions end by a reset; only for networks that exist for one test."""
        subprocess.run(["nft", "-f", "-"], input=self._written("--nft"), text=True, check=True)

    def _written(self, *more):
        words = ["haproxy-config", f"--role-addresses={self._rules}", f"--local-port={self._local_port}"]
        words.append("--controllers=" + ",".join(f"http://127.0.0.1:{each.http_port}" for each in self._controllers))
        words.append("--role-checks=" + ",".join(f"127.0.0.1:{port}" for port in self._check_ports))
        words.append(f"--run-folder={self.folder}")
        command = [sys.executable, "-m", "rmq", *words, *self.options, *more]
        written = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=REPOSITORY)
        assert written.returncode == 0, written.stderr
        return written.stdout

    def save_states(self):
        """Do what the unit does before HAProxy stops, and each minute: a new process begins with these states."""
        with socket.socket(socket.AF_UNIX) as admin:
            admin.connect(str(self.folder / "admin.sock"))
            admin.sendall(b"show servers state\n")
            with admin.makefile() as answer:
                self._states.write_text(states_to_save(answer.read()))

    def drop_states(self):
        """Let a new process know nothing of this one."""
        self._states.unlink(missing_ok=True)

    def start(self):
        command = ["haproxy", "-db", "-f", self.folder / "haproxy.cfg"]
        self.process = Process("haproxy", command, folder=self.folder, env=os.environ)
        return self
