"""A host on which connections begin. Its kernel can be kept from sending their requests again, as it does after 1 s."""

import contextlib
import select
import socket
import subprocess

BUSY_S = 10

_SEND_NOT_AGAIN = """
nft add table inet once
nft add chain inet once out "{ type filter hook output priority 0; }"
nft add rule inet once out "tcp flags & (syn | ack) == syn drop"
"""


class ConnectingHost:
    """A client's host, number 4; with addresses of both families."""

    def __init__(self, network):
        self._host = network.host(4)
        self.run("ip", "address", "add", "fd99::4/64", "dev", "inner", "nodad")

    def run(self, *command):
        with self._host.inside():
            return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    @property
    def mac(self):
        return self.run("ip", "-o", "link", "show", "dev", "inner").partition("link/ether ")[2].split()[0]

    def begin(self, address, port):
        """Return a connection that has begun and whose first request was sent, if the neighbour is known."""
        with self._host.inside():
            connection = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
        connection.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            connection.connect((address, port))
        return connection

    def send_not_again(self):
        """Drop all further requests for connections."""
        self.run("sh", "-ec", _SEND_NOT_AGAIN)


def is_connected(connection, seconds):
    """Return whether a connection that has begun succeeds within a time."""
    answered = select.poll()
    answered.register(connection, select.POLLOUT)
    return bool(answered.poll(seconds * 1000)) and connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0


def answer(connection, seconds=BUSY_S):
    """Return the name of the broker that answers a line."""
    assert is_connected(connection, seconds)
    connection.settimeout(seconds)
    connection.sendall(b"1\n")
    return connection.recv(100).decode().split()[0]
