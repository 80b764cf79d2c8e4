"""Sends requests over one connection for each address, opened when it is needed and closed when it is idle.

Answers to `NettyRemotingClient`. The caller decides what a response means.
"""

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Final, NamedTuple, Protocol, cast

import msgspec

from remoting.clock import Clock
from remoting.protocol.addresses import NamedAddress, host_and_port, ip_of, split_address
from remoting.protocol.codes import ResponseCode, SerializeType
from remoting.protocol.command import RemotingCommand
from remoting.protocol.errors import (
    AnswerNotFramed,
    ConnectionRefused,
    HeaderError,
    InvokeError,
    InvokeTimeout,
    OutOfResources,
    TlsFailed,
)
from remoting.protocol.frame import FRAME_BYTES_MAX_DEFAULT, encode
from remoting.protocol.frame_reader import CommandReader
from remoting.protocol.signing import Denial, Signer, SigningObserver, is_denied, signed

_OPAQUE_MAX: Final = 2**31 - 1

#: Errors of this machine: no files, memory or ports left.
_OUT_OF_RESOURCES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL})
#: Idle connections are looked for so many times within `idle_seconds`.
_CHECKS_PER_IDLE_TIME: Final = 4


class ClientLimits(msgspec.Struct, frozen=True, kw_only=True):
    #: Addresses with a connection; with all of them in use, a request to another one fails.
    addresses_max: int = 4096
    #: Requests to one address that wait for a response.
    pending_max: int = 1024
    #: Requests to one address that its peer has not read.
    unsent_bytes_max: int = 1024 * 1024
    #: The longest response, with its length prefix.
    frame_bytes_max: int = FRAME_BYTES_MAX_DEFAULT
    #: A connection unused for so long is closed.
    idle_seconds: float = 120
    #: How long requests may take to leave when the client closes.
    close_seconds: float = 1


class PeerResponse(NamedTuple):
    """The response of a peer, and the address that it really has."""

    command: RemotingCommand
    #: The "host:port" of the other end, the host as a number: a name can resolve to any.
    peer: str


def send_always() -> None:
    """Let a request be sent."""


class Requester(Protocol):
    """Sends requests; every failure is an InvokeError."""

    async def invoke(
        self,
        address: str,
        request: RemotingCommand,
        timeout_ms: int,
        before_send: Callable[[], None] = send_always,
    ) -> RemotingCommand:
        """Return the answer of the peer at "host:port", whatever its code; `before_send` raises if none is wanted."""

    async def invoke_on_new_connection(self, address: str, request: RemotingCommand, timeout_ms: int) -> PeerResponse:
        """As `invoke`, over a connection of its own."""

    def release(self, address: str) -> None:
        """Close the connection to an address, unless others use it: the caller sends nothing there for long."""

    def connection_number(self, address: str) -> int | None:
        """Return the number of the open connection to an address: while it is the same, so is the process there."""


class RemotingClient:
    """Sends requests to any number of peers; every failure is an InvokeError."""

    def __init__(  # one for each thing that a configuration decides
        self,
        clock: Clock,
        limits: ClientLimits | None = None,
        tls: ssl.SSLContext | None = None,
        serialize_type: SerializeType = SerializeType.JSON,
        signer: Signer | None = None,
        observer: SigningObserver | None = None,
        peers: Sequence[NamedAddress] = (),
    ) -> None:
        """Prepare; connections are plain without `tls`, and the `signer` decides which requests are signed.

        It connects to none but `peers`, if there are any.
        """
        self._clock = clock
        self._limits = limits or ClientLimits()
        self._tls = tls
        self._serialize_type = serialize_type
        self._signer = signer
        self._observer = observer or SigningObserver()
        self._peers = peers
        self._numbers = count()
        self._connection_numbers = count()
        #: By address, the least recently used first.
        self._addresses: dict[str, _PeerAddress] = {}
        #: Connections without new requests, whose earlier ones wait for their responses.
        self._retired: list[ClientConnection] = []
        self._idle_timer: asyncio.TimerHandle | None = None
        self._closed = False

    async def invoke(
        self,
        address: str,
        request: RemotingCommand,
        timeout_ms: int,
        before_send: Callable[[], None] = send_always,
    ) -> RemotingCommand:
        """Return the answer of the peer at "host:port", whatever its code.

        Connecting counts towards the timeout; `before_send` is called after it, and nothing is sent if that raises.
        Raises InvokeTimeout without an answer in time, InvokeError otherwise. After a timeout the next request opens
        another connection, as in the Java client: this one may be dead.
        """
        connection = None
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                connection = await self._connection(address)
                before_send()
                return await self._request(connection, request)
        except TimeoutError:
            if connection is not None:
                self._retire(address, connection)
            raise InvokeTimeout(address, timeout_ms) from None

    async def invoke_on_new_connection(self, address: str, request: RemotingCommand, timeout_ms: int) -> PeerResponse:
        """As `invoke`, over a connection of its own: an open one may not know yet that its peer is gone.

        Raises ConnectionRefused and OutOfResources too.
        """
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                connection = await self._connect(address)
                try:
                    return PeerResponse(await self._request(connection, request), connection.peer)
                finally:
                    connection.transport.abort()
        except TimeoutError:
            raise InvokeTimeout(address, timeout_ms) from None

    def release(self, address: str) -> None:
        """Close the connection to an address, unless others use it."""
        if (entry := self._addresses.get(address)) is not None and not entry.in_use:
            self._drop(address)

    def connection_number(self, address: str) -> int | None:
        """Return the number of the open connection to an address; each connection has another one."""
        entry = self._addresses.get(address)
        if entry is None or entry.connection is None or entry.connection.transport.is_closing():
            return None
        return entry.connection.number

    async def post(self, address: str, request: RemotingCommand, timeout_ms: int) -> None:
        """Send a request without waiting for the response, which is only checked for a denial.

        Raises InvokeError if it cannot be handed to the connection in time.
        """
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                connection = await self._connection(address)
        except TimeoutError:
            raise InvokeTimeout(address, timeout_ms) from None
        connection.post(self._ready(connection, request))

    async def close(self) -> None:
        """Close all connections; requests that wait for a response fail."""
        self._closed = True
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        used = [entry.connection for entry in self._addresses.values()]
        connections = [each for each in (*used, *self._retired) if each is not None]
        self._addresses.clear()
        for connection in connections:
            connection.transport.close()
        try:
            async with asyncio.timeout(self._limits.close_seconds):
                await _all_lost(connections)
        except TimeoutError:
            for connection in connections:
                connection.transport.abort()
            await _all_lost(connections)

    def _ready(self, connection: "ClientConnection", request: RemotingCommand) -> RemotingCommand:
        """Return a request with its opaque, signed if the connection is."""
        request = msgspec.structs.replace(request, opaque=next(self._numbers) & _OPAQUE_MAX)
        if self._signer is None:
            return request
        if not connection.is_signed:
            self._observer.unsigned(connection.address)
            return request
        return signed(request, self._signer.credentials)

    async def _request(self, connection: "ClientConnection", request: RemotingCommand) -> RemotingCommand:
        answer = await connection.request(self._ready(connection, request))
        if is_denied(answer):
            self._observer.denied(connection.denial(request.code, answer))
        return answer

    async def _connection(self, address: str) -> "ClientConnection":
        """Return the connection to an address, opened now if there is none; raises InvokeError."""
        if self._closed:
            raise InvokeError(address, "the client is closed")
        entry = self._addresses.pop(address, None) or self._new_address(address)
        self._addresses[address] = entry
        entry.used_ms = self._clock.now_ms()
        entry.callers += 1
        try:
            # The first to come connects, the others wait for it: never two connections to one address.
            async with entry.lock:
                if entry.connection is None or entry.connection.transport.is_closing():
                    entry.connection = await self._connect(address)
                return entry.connection
        finally:
            entry.callers -= 1

    def _new_address(self, address: str) -> "_PeerAddress":
        if len(self._addresses) >= self._limits.addresses_max:
            oldest = next((each for each, entry in self._addresses.items() if not entry.in_use), None)
            if oldest is None:
                raise InvokeError(address, f"requests to {self._limits.addresses_max} other addresses are under way")
            self._drop(oldest)
        if self._idle_timer is None:
            self._check_later()
        return _PeerAddress()

    async def _connect(self, address: str) -> "ClientConnection":
        if (parts := split_address(address)) is None:
            raise InvokeError(address, "not an address of the form host:port")
        host, port = parts
        try:
            _, protocol = await asyncio.get_running_loop().create_connection(
                lambda: ClientConnection(
                    address, next(self._connection_numbers), self._limits, self._serialize_type, self._observer
                ),
                await self._permitted(address, host, port) if self._peers else host,
                port,
                ssl=self._tls,
                server_hostname=host if self._tls else None,
            )
        except (OSError, ValueError) as error:
            raise _no_connection(address, error, has_tls=self._tls is not None) from None
        if self._closed:
            protocol.transport.abort()
            raise InvokeError(address, "the client is closed")
        protocol.is_signed = self._signer is not None and self._signer.signs_for(host, protocol.remote_address)
        return protocol

    async def _permitted(self, address: str, host: str, port: int) -> str:
        """Return the host to connect to: a name that only its number permits is that number, and resolved once.

        Raises InvokeError if nothing permits it, and OSError.
        """
        if any(each.matches(host, ip_of(host), port) for each in self._peers):
            return host
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        for number in (str(each[4][0]) for each in found):
            if any(each.matches("", ip_of(number), port) for each in self._peers):
                return number
        raise InvokeError(address, "it is outside brokerNetworks")

    def _retire(self, address: str, connection: "ClientConnection") -> None:
        entry = self._addresses.get(address)
        if entry is not None and entry.connection is connection:
            entry.connection = None
        self._retired = [each for each in self._retired if not each.is_lost]
        self._retired.append(connection)
        connection.close_once_answered()

    def _drop(self, address: str) -> None:
        entry = self._addresses.pop(address)
        if entry.connection is not None:
            entry.connection.transport.close()

    def _check_later(self) -> None:
        seconds = self._limits.idle_seconds / _CHECKS_PER_IDLE_TIME
        self._idle_timer = asyncio.get_running_loop().call_later(seconds, self._close_idle)

    def _close_idle(self) -> None:
        """Close idle connections; check again while there are any."""
        self._idle_timer = None
        try:
            unused_since_ms = self._clock.now_ms() - self._limits.idle_seconds * 1000
            for address, entry in list(self._addresses.items()):
                if not entry.in_use and entry.used_ms <= unused_since_ms:
                    self._drop(address)
        finally:
            if self._addresses:
                self._check_later()


def _no_connection(address: str, error: OSError | ValueError, *, has_tls: bool) -> InvokeError:
    """Return what a failure to connect means."""
    if isinstance(error, ConnectionRefusedError):
        return ConnectionRefused(address, "cannot connect: connection refused")
    # Before ValueError: a certificate that is not trusted is one too.
    if isinstance(error, ssl.SSLError):
        return TlsFailed(address, f"no TLS session: {getattr(error, 'verify_message', None) or error.reason}")
    if has_tls and isinstance(error, ConnectionError):
        return TlsFailed(address, "no TLS session: the peer closed the connection")
    if isinstance(error, ValueError):
        return InvokeError(address, f"cannot connect: this is no host name: {error}")
    kind = OutOfResources if error.errno in _OUT_OF_RESOURCES else InvokeError
    return kind(address, f"cannot connect: {error.strerror or error}")


class _PeerAddress:
    """One address, and the connection to it."""

    __slots__ = ("callers", "connection", "lock", "used_ms")

    def __init__(self) -> None:
        #: Held while connecting.
        self.lock = asyncio.Lock()
        #: How many connect, or wait for the one that does.
        self.callers = 0
        self.connection: ClientConnection | None = None
        self.used_ms = 0

    @property
    def in_use(self) -> bool:
        """Whether a caller connects, or waits for a response."""
        return self.callers > 0 or (self.connection is not None and self.connection.pending > 0)


class ClientConnection(asyncio.Protocol):
    """The client's end of one connection."""

    # A controller has one to each of thousands of brokers.
    __slots__ = (
        "_is_retired",
        "_limits",
        "_observer",
        "_posted",
        "_reader",
        "_serialize_type",
        "_waiting",
        "_when_lost",
        "address",
        "is_lost",
        "is_signed",
        "number",
        "remote_address",
        "transport",
    )

    def __init__(
        self, address: str, number: int, limits: ClientLimits, serialize_type: SerializeType, observer: SigningObserver
    ) -> None:
        self.address = address
        self.number = number
        #: Whether its requests are signed.
        self.is_signed = False
        self._limits = limits
        self._serialize_type = serialize_type
        self._observer = observer
        self._reader = CommandReader(limits.frame_bytes_max)
        #: By opaque.
        self._waiting: dict[int, asyncio.Future[RemotingCommand]] = {}
        #: Opaque -> code of posted requests; the oldest are dropped.
        self._posted: dict[int, int] = {}
        self.transport: asyncio.Transport
        #: The IP address and port of the other end; None if it closed at once.
        self.remote_address: tuple[str, int] | None = None
        self.is_lost = False
        #: Made for the caller that waits for it.
        self._when_lost: asyncio.Event | None = None
        self._is_retired = False

    @property
    def peer(self) -> str:
        """The address of the other end, the host as a number; blank if it is unknown."""
        return host_and_port(*self.remote_address) if self.remote_address else ""

    @property
    def pending(self) -> int:
        """How many requests wait for their responses."""
        return len(self._waiting)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        address = transport.get_extra_info("peername")
        self.remote_address = (address[0], address[1]) if address else None

    def data_received(self, data: bytes) -> None:
        """Hand each response to its waiter; report a denial among those of posted requests."""
        for command in self._reader.receive(data):
            if not command.is_response:
                self._decline(command)
            elif (waiting := self._waiting.get(command.opaque)) and not waiting.done():
                waiting.set_result(command)
            elif (code := self._posted.pop(command.opaque, None)) is not None and is_denied(command):
                self._observer.denied(self.denial(code, command))
        if self._reader.error is not None:
            self._fail(str(self._reader.error), AnswerNotFramed)
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        if self._when_lost is not None:
            self._when_lost.set()
        self._fail(f"the connection was lost: {exc}" if exc else "the peer closed the connection")

    async def wait_until_lost(self) -> None:
        """Wait until nothing arrives any more."""
        if not self.is_lost:
            self._when_lost = self._when_lost or asyncio.Event()
            await self._when_lost.wait()

    async def request(self, request: RemotingCommand) -> RemotingCommand:
        """Send a request and return its response; raises InvokeError."""
        if len(self._waiting) >= self._limits.pending_max:
            raise InvokeError(self.address, f"{len(self._waiting)} requests wait for an answer already")
        waiting: asyncio.Future[RemotingCommand] = asyncio.get_running_loop().create_future()
        self._waiting[request.opaque] = waiting
        try:
            self.write(request)
            return await waiting
        finally:
            del self._waiting[request.opaque]
            self._close_if_retired()

    def post(self, request: RemotingCommand) -> None:
        """Send a request and check its response only for a denial; raises InvokeError."""
        self.write(request)
        self._posted[request.opaque] = request.code
        if len(self._posted) > self._limits.pending_max:
            del self._posted[next(iter(self._posted))]

    def denial(self, code: int, answer: RemotingCommand) -> Denial:
        """Return the denial that a response to a request of this code is."""
        return Denial(address=self.address, request_code=code, remark=answer.remark or "", is_signed=self.is_signed)

    def close_once_answered(self) -> None:
        """Close when no request waits any more. What is written still leaves: a paused peer may read it later."""
        self._is_retired = True
        self._close_if_retired()

    def _close_if_retired(self) -> None:
        if self._is_retired and not self._waiting:
            self.transport.close()

    def write(self, command: RemotingCommand) -> None:
        """Write a command; raises InvokeError if the peer does not read, or the header does not fit."""
        if self.transport.get_write_buffer_size() > self._limits.unsent_bytes_max:
            raise InvokeError(self.address, "the peer does not read")
        try:
            frame = encode(command, self._serialize_type)
        except HeaderError as error:
            raise InvokeError(self.address, str(error)) from None
        self.transport.write(frame)

    def _fail(self, reason: str, kind: type[InvokeError] = InvokeError) -> None:
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(kind(self.address, reason))

    def _decline(self, request: RemotingCommand) -> None:
        """Answer REQUEST_CODE_NOT_SUPPORTED to a request of the peer."""
        if request.is_oneway or self.transport.get_write_buffer_size() > self._limits.unsent_bytes_max:
            return
        remark = f" request type {request.code} not supported"
        answer = request.reply(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=remark)
        self.transport.write(encode(answer, self._serialize_type))


async def _all_lost(connections: Iterable[ClientConnection]) -> None:
    for connection in connections:
        await connection.wait_until_lost()
