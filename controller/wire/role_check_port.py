"""Serves role checks over plain TCP: one line is read, one is written, and the connection closes.

HAProxy checks each broker ten times a second over new connections, so a check is read and answered in one turn of the
event loop, without a transport: the kernel hands over a connection once its line is there. Peers that are slow wait
within limits, and hold up nobody.

A client sends `BROKERNAME/BROKERID` and a line end, and is answered one line in the form of HAProxy's agent-check
(HAProxy 2.6, configuration manual 5.2 "agent-check"): `up ready` or `down`, with the reason as a comment. A line with
nothing but a comment changes nothing there; that is the answer in doubt. `leader` asks for the controller itself.
"""

import asyncio
import errno
import socket
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Literal

from controller.failure_detection.heartbeats import BrokerKey
from controller.roles.events import ROLE_CHECKS, RoleChecked
from controller.roles.verdict import RoleAnswer, RoleVerdict
from remoting.server.server import BindError
from serving.telemetry.events import Count, Counted, Emit

#: A longer line is not read; a brokerName has 255 characters at most.
LINE_BYTES_MAX: Final = 300
#: Digits of a broker id.
_ID_DIGITS_MAX: Final = 19
_LEADER: Final = "leader"

#: Answers about the controller: HAProxy sends its checks on to the one that leads.
LEADS: Final = b"up #this controller leads\n"
FOLLOWS: Final = b"down #this controller does not lead\n"
INVALID: Final = b"#unknown the line must be BROKERNAME/BROKERID, or leader\n"


def decode_check(line: bytes) -> BrokerKey | Literal["leader"] | None:
    """Return what a line without its end asks for; None if it is invalid."""
    try:
        text = line.strip().decode()
    except UnicodeDecodeError:
        return None
    if text == _LEADER:
        return _LEADER
    broker_name, _, digits = text.rpartition("/")
    if not broker_name or not (digits.isascii() and digits.isdigit()) or len(digits) > _ID_DIGITS_MAX:
        return None
    return BrokerKey(broker_name, int(digits))


def encode_answer(answer: RoleAnswer) -> bytes:
    match answer.verdict:
        case RoleVerdict.SERVES:
            # HAProxy takes what follows for a comment; agents on brokers' hosts read the epoch.
            return f"up ready #epoch {answer.master_epoch}\n".encode()
        case RoleVerdict.UNKNOWN:
            return f"#unknown {answer.doubt}\n".encode()
        case _:
            return f"down #{answer.verdict.value} epoch {answer.master_epoch}\n".encode()


#: How long a peer may take to send its line.
LINE_S: Final = 2.0
#: How many peers may take that long; beyond it the one that waits for longest is closed.
WAITING_MAX: Final = 1_000
#: Connections that are taken in one turn of the event loop: requests of brokers wait for no more.
_ACCEPTED_AT_ONCE: Final = 16
_BACKLOG: Final = 1_024
#: How soon connections are taken again after there were no files or no memory for one.
_ACCEPT_AGAIN_S: Final = 0.2
_OUT_OF_RESOURCES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class RoleCheckPort:
    """Listens, and answers from what is known at that moment."""

    def __init__(
        self,
        answer: Callable[[BrokerKey], RoleAnswer],
        leads: Callable[[], bool],
        record: Callable[[BrokerKey, str, RoleAnswer], None],
        emit: Emit,
    ) -> None:
        """`answer` returns the role of a broker; `record` takes the host that has checked it, and the answer."""
        self._answer, self._leads, self._record, self._emit = answer, leads, record, emit
        self._loop = asyncio.get_running_loop()
        self._listener: socket.socket | None = None
        #: Peers whose line is not complete: what came of it, and when they are closed. The oldest is the first.
        self._waiting: OrderedDict[socket.socket, tuple[bytes, asyncio.TimerHandle]] = OrderedDict()

    def listen(self, host: str, port: int) -> int:
        """Serve there, and return the port; raises BindError."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            listener = socket.create_server((host, port), family=family, backlog=_BACKLOG)
        except OSError as error:
            raise BindError(host, port, error.strerror or str(error)) from None
        listener.setblocking(False)
        if hasattr(socket, "TCP_DEFER_ACCEPT"):
            # A connection is handed over with its line: no turn of the loop is spent on an empty one.
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, int(LINE_S))
        self._listener = listener
        self._loop.add_reader(listener, self._accept)
        bound: int = listener.getsockname()[1]
        return bound

    def close(self) -> None:
        if self._listener is not None:
            self._loop.remove_reader(self._listener)
            self._listener.close()
            self._listener = None
        for peer in list(self._waiting):
            self._drop(peer)

    def _accept(self) -> None:
        listener = self._listener
        for _ in range(_ACCEPTED_AT_ONCE):
            if listener is None:
                return
            try:
                peer, _address = listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _OUT_OF_RESOURCES:
                    self._pause(listener)
                    return
                # This connection was reset before it was taken.
                continue
            peer.setblocking(False)
            self._read(peer, b"")

    def _pause(self, listener: socket.socket) -> None:
        self._loop.remove_reader(listener)
        self._loop.call_later(_ACCEPT_AGAIN_S, self._resume, listener)

    def _resume(self, listener: socket.socket) -> None:
        if listener is self._listener:
            self._loop.add_reader(listener, self._accept)

    def _read(self, peer: socket.socket, before: bytes) -> None:
        """Take what has come of a line, and answer it once it is complete."""
        try:
            came = peer.recv(LINE_BYTES_MAX + 1 - len(before))
        except BlockingIOError:
            self._wait(peer, before)
            return
        except OSError:
            came = b""
        line, end, _ = (before + came).partition(b"\n")
        if end:
            self._reply(peer, self._answer_to(line, peer))
        elif not came or len(line) > LINE_BYTES_MAX:
            self._refuse(peer, INVALID if came else b"")
        else:
            self._wait(peer, line)

    def _answer_to(self, line: bytes, peer: socket.socket) -> bytes:
        match decode_check(line):
            case None:
                self._count("invalid")
                return INVALID
            case BrokerKey() as key:
                answer = self._answer(key)
                self._emit(RoleChecked(key=key, answer=answer))
                self._record(key, _host_of(peer), answer)
                return encode_answer(answer)
            case _:
                leads = self._leads()
                self._count("leads" if leads else "follows")
                return LEADS if leads else FOLLOWS

    def _count(self, answer: str) -> None:
        self._emit(Counted(count=Count(ROLE_CHECKS, (answer,))))

    def _wait(self, peer: socket.socket, line: bytes) -> None:
        waiting = self._waiting.get(peer)
        if waiting is not None:
            self._waiting[peer] = (line, waiting[1])
            return
        if len(self._waiting) >= WAITING_MAX:
            self._refuse(next(iter(self._waiting)))
        self._waiting[peer] = (line, self._loop.call_later(LINE_S, self._refuse, peer))
        self._loop.add_reader(peer, self._read_more, peer)

    def _read_more(self, peer: socket.socket) -> None:
        self._read(peer, self._waiting[peer][0])

    def _refuse(self, peer: socket.socket, answer: bytes = b"") -> None:
        self._count("invalid")
        self._reply(peer, answer)

    def _reply(self, peer: socket.socket, answer: bytes) -> None:
        """Write the answer, which the buffer of a new connection always takes, and close."""
        try:
            if answer:
                peer.send(answer)
        except OSError:
            # The peer is gone, or reads nothing.
            pass
        finally:
            self._drop(peer)

    def _drop(self, peer: socket.socket) -> None:
        if (waiting := self._waiting.pop(peer, None)) is not None:
            waiting[1].cancel()
            self._loop.remove_reader(peer)
        peer.close()


def _host_of(peer: socket.socket) -> str:
    """Return the address of a peer, blank of one that is gone."""
    try:
        host: str = peer.getpeername()[0]
    except OSError:
        return ""
    return host
