"""Requests of ours: one connection for each address, made when it is needed and closed when it is not.

Answers to `NettyRemotingClient`. What a response means is for the caller.
"""

import asyncio
import errno
import ssl
from collections.abc import Callable, Iterable
from itertools import count
from typing import Final, NamedTuple, Protocol, cast

import msgspec

from remoting.clock import Clock
from remoting.protocol.codes import ResponseCode, SerializeType
from remoting.protocol.command import RemotingCommand
from remoting.protocol.errors import ConnectionRefused, HeaderError, InvokeError, InvokeTimeout, OutOfResources
from remoting.protocol.frame import FRAME_BYTES_MAX_DEFAULT, CommandReader, encode
from remoting.protocol.signing import Signer, is_denied, signed
from remoting.transport.preamble import host_and_port

_OPAQUE_MAX: Final = 2**31 - 1
_PORT_MAX: Final = 65535
#: Some write zeros in front.
_PORT_DIGITS_MAX: Final = 10

#: Files, memory and ports of our own that were used up.
_OURS: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL})
#: Unused connections are looked for so many times within `idle_seconds`.
_LOOKS_PER_SILENCE: Final = 4


class Denial(msgspec.Struct, frozen=True, kw_only=True):
    """A request that a peer does not take, because of who sends it or because it does not know who."""

    address: str
    request_code: int
    remark: str
    is_signed: bool


Denied = Callable[[Denial], None]


class ClientLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that has an end, of one client."""

    #: Addresses that connections are kept to; with all of them in use, a request to another one fails.
    addresses_max: int = 4096
    #: Requests to one address whose answers are waited for.
    unanswered_max: int = 1024
    #: Requests to one address that its peer has not taken.
    unsent_bytes_max: int = 1024 * 1024
    #: The longest answer, with its length prefix.
    frame_bytes_max: int = FRAME_BYTES_MAX_DEFAULT
    #: A connection unused for so long is closed.
    idle_seconds: float = 120
    #: How long requests may take to leave when the client closes.
    close_seconds: float = 1


class PeerResponse(NamedTuple):
    """What a peer has answered, and where it certainly is."""

    command: RemotingCommand
    #: The "host:port" of the other end, the host as a number; names can stand for any.
    peer: str


class Requester(Protocol):
    """What asks peers; every failure is an InvokeError."""

    async def invoke(self, address: str, request: RemotingCommand, timeout_ms: int) -> RemotingCommand:
        """Return the answer of the peer at "host:port", whatever its code."""

    async def invoke_on_new_connection(self, address: str, request: RemotingCommand, timeout_ms: int) -> PeerResponse:
        """As `invoke`, over a connection of its own."""


class RemotingClient:
    """Sends requests to any number of peers; every failure is an InvokeError."""

    def __init__(
        self,
        clock: Clock,
        limits: ClientLimits | None = None,
        tls: ssl.SSLContext | None = None,
        serialize_type: SerializeType = SerializeType.JSON,
        signer: Signer | None = None,
    ) -> None:
        """Prepare; connections are plain without `tls`, and requests are signed for whom the `signer` says."""
        self._clock = clock
        self._limits = limits or ClientLimits()
        self._tls = tls
        self._serialize_type = serialize_type
        self._signer = signer
        #: Told of each request that a peer with ACL does not take from us.
        self.denied: Denied = lambda _denial: None
        #: Told the address of each request that goes unsigned, although there is a signer.
        self.unsigned: Callable[[str], None] = lambda _address: None
        self._numbers = count()
        #: By address; those used last stand last.
        self._slots: dict[str, _Slot] = {}
        #: Connections that new requests do not go over any more, while old ones wait for their answers.
        self._left: list[_Link] = []
        self._look_timer: asyncio.TimerHandle | None = None
        self._closed = False

    async def invoke(self, address: str, request: RemotingCommand, timeout_ms: int) -> RemotingCommand:
        """Return the answer of the peer at "host:port", whatever its code.

        Connecting counts towards the timeout. Raises InvokeTimeout without an answer in time, InvokeError otherwise.
        What comes next goes over another connection then, as the Java client's does: this one may lead nowhere.
        """
        link = None
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                link = await self._link(address)
                return self._looked_at(link, request, await link.ask(self._ready(link, request)))
        except TimeoutError:
            if link is not None:
                self._leave(address, link)
            raise InvokeTimeout(address, timeout_ms) from None

    async def invoke_on_new_connection(self, address: str, request: RemotingCommand, timeout_ms: int) -> PeerResponse:
        """As `invoke`, over a connection of its own: one that stands may not know yet that its peer is gone.

        Raises ConnectionRefused and OutOfResources too.
        """
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                link = await self._connect(address)
                try:
                    answer = self._looked_at(link, request, await link.ask(self._ready(link, request)))
                    return PeerResponse(answer, link.peer)
                finally:
                    link.transport.abort()
        except TimeoutError:
            raise InvokeTimeout(address, timeout_ms) from None

    async def post(self, address: str, request: RemotingCommand, timeout_ms: int) -> None:
        """Send a request whose answer nobody waits for; only a denial in it is told.

        Raises InvokeError if it cannot be handed to the connection in time.
        """
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                link = await self._link(address)
        except TimeoutError:
            raise InvokeTimeout(address, timeout_ms) from None
        link.post(self._ready(link, request))

    async def close(self) -> None:
        """Close all connections; requests that wait for answers fail."""
        self._closed = True
        if self._look_timer is not None:
            self._look_timer.cancel()
        links = [slot.link for slot in self._slots.values() if slot.link is not None] + self._left
        self._slots.clear()
        for link in links:
            link.transport.close()
        try:
            async with asyncio.timeout(self._limits.close_seconds):
                await _all_lost(links)
        except TimeoutError:
            for link in links:
                link.transport.abort()
            await _all_lost(links)

    def _ready(self, link: "_Link", request: RemotingCommand) -> RemotingCommand:
        """Return a request with its number and, if this peer gets that, signed."""
        request = msgspec.structs.replace(request, opaque=next(self._numbers) & _OPAQUE_MAX)
        if self._signer is None:
            return request
        if not link.is_signed:
            self.unsigned(link.address)
            return request
        return signed(request, self._signer.credentials)

    def _looked_at(self, link: "_Link", request: RemotingCommand, answer: RemotingCommand) -> RemotingCommand:
        if is_denied(answer):
            self.denied(link.denial(request.code, answer))
        return answer

    def _post_denied(self, denial: Denial) -> None:
        # By way of `self`: who is told may be set after the connection was made.
        self.denied(denial)

    async def _link(self, address: str) -> "_Link":
        """Return the connection to an address, made now if there is none; raises InvokeError."""
        if self._closed:
            raise InvokeError(address, "the client is closed")
        slot = self._slots.pop(address, None) or self._new_slot(address)
        self._slots[address] = slot
        slot.used_ms = self._clock.now_ms()
        slot.callers += 1
        try:
            # The first to come connects, the others wait for it: never two connections to one address.
            async with slot.lock:
                if slot.link is None or slot.link.transport.is_closing():
                    slot.link = await self._connect(address)
                return slot.link
        finally:
            slot.callers -= 1

    def _new_slot(self, address: str) -> "_Slot":
        if len(self._slots) >= self._limits.addresses_max:
            oldest = next((each for each, slot in self._slots.items() if not slot.in_use), None)
            if oldest is None:
                raise InvokeError(address, f"requests to {self._limits.addresses_max} other addresses are under way")
            self._drop(oldest)
        if self._look_timer is None:
            self._look_later()
        return _Slot()

    async def _connect(self, address: str) -> "_Link":
        host, port = _host_and_port(address)
        try:
            _, protocol = await asyncio.get_running_loop().create_connection(
                lambda: _Link(address, self._limits, self._serialize_type, self._post_denied), host, port, ssl=self._tls
            )
        except ConnectionRefusedError:
            raise ConnectionRefused(address, "cannot connect: connection refused") from None
        except ValueError as error:
            raise InvokeError(address, f"cannot connect: this is no host name: {error}") from None
        except OSError as error:
            kind = OutOfResources if error.errno in _OURS else InvokeError
            raise kind(address, f"cannot connect: {error.strerror or error}") from None
        if self._closed:
            protocol.transport.abort()
            raise InvokeError(address, "the client is closed")
        protocol.is_signed = self._signer is not None and self._signer.signs_for(host, protocol.leads_to)
        return protocol

    def _leave(self, address: str, link: "_Link") -> None:
        slot = self._slots.get(address)
        if slot is not None and slot.link is link:
            slot.link = None
        self._left = [each for each in self._left if not each.lost.is_set()]
        self._left.append(link)
        link.close_once_answered()

    def _drop(self, address: str) -> None:
        slot = self._slots.pop(address)
        if slot.link is not None:
            slot.link.transport.close()

    def _look_later(self) -> None:
        seconds = self._limits.idle_seconds / _LOOKS_PER_SILENCE
        self._look_timer = asyncio.get_running_loop().call_later(seconds, self._look)

    def _look(self) -> None:
        """Close what was not used for too long; go on looking while there is something."""
        self._look_timer = None
        try:
            unused_since_ms = self._clock.now_ms() - self._limits.idle_seconds * 1000
            for address, slot in list(self._slots.items()):
                if not slot.in_use and slot.used_ms <= unused_since_ms:
                    self._drop(address)
        finally:
            if self._slots:
                self._look_later()


class _Slot:
    """What is known of one address."""

    def __init__(self) -> None:
        #: Held while connecting.
        self.lock = asyncio.Lock()
        #: How many connect, or wait for the one that does.
        self.callers = 0
        self.link: _Link | None = None
        self.used_ms = 0

    @property
    def in_use(self) -> bool:
        """Whether somebody connects, or waits for an answer."""
        return self.callers > 0 or (self.link is not None and self.link.unanswered > 0)


class _Link(asyncio.Protocol):
    """Our end of one connection."""

    def __init__(self, address: str, limits: ClientLimits, serialize_type: SerializeType, denied: Denied) -> None:
        self.address = address
        #: Whether what goes over it is signed.
        self.is_signed = False
        self._limits = limits
        self._serialize_type = serialize_type
        self._denied = denied
        self._reader = CommandReader(limits.frame_bytes_max)
        #: By opaque.
        self._waiting: dict[int, asyncio.Future[RemotingCommand]] = {}
        #: Opaque -> code of requests whose answers nobody waits for; the oldest are forgotten.
        self._posted: dict[int, int] = {}
        self.transport: asyncio.Transport
        #: The IP address and port of the other end; None where the system knows them no more.
        self.leads_to: tuple[str, int] | None = None
        self.lost = asyncio.Event()
        self._is_left = False

    @property
    def peer(self) -> str:
        """The address of the other end, the host as a number; blank where nobody knows it any more."""
        return host_and_port(*self.leads_to) if self.leads_to else ""

    @property
    def unanswered(self) -> int:
        """How many requests wait for their answers."""
        return len(self._waiting)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the connection."""
        self.transport = cast("asyncio.Transport", transport)
        address = transport.get_extra_info("peername")
        self.leads_to = (address[0], address[1]) if address else None

    def data_received(self, data: bytes) -> None:
        """Hand each response to who waits for it; of one that nobody waits for only a denial is told."""
        for command in self._reader.receive(data):
            if not command.is_response:
                self._decline(command)
            elif (waiting := self._waiting.get(command.opaque)) and not waiting.done():
                waiting.set_result(command)
            elif (code := self._posted.pop(command.opaque, None)) is not None and is_denied(command):
                self._denied(self.denial(code, command))
        if self._reader.error is not None:
            self._fail(str(self._reader.error))
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail what still waits."""
        self.lost.set()
        self._fail(f"the connection was lost: {exc}" if exc else "the peer closed the connection")

    async def ask(self, request: RemotingCommand) -> RemotingCommand:
        """Send a request and return its answer; raises InvokeError."""
        if len(self._waiting) >= self._limits.unanswered_max:
            raise InvokeError(self.address, f"{len(self._waiting)} requests wait for an answer already")
        waiting: asyncio.Future[RemotingCommand] = asyncio.get_running_loop().create_future()
        self._waiting[request.opaque] = waiting
        try:
            self.write(request)
            return await waiting
        finally:
            del self._waiting[request.opaque]
            self._close_if_left()

    def post(self, request: RemotingCommand) -> None:
        """Send a request and look at its answer only for a denial; raises InvokeError."""
        self.write(request)
        self._posted[request.opaque] = request.code
        if len(self._posted) > self._limits.unanswered_max:
            del self._posted[next(iter(self._posted))]

    def denial(self, code: int, answer: RemotingCommand) -> Denial:
        """Return what an answer says that does not take a request of this code."""
        return Denial(address=self.address, request_code=code, remark=answer.remark or "", is_signed=self.is_signed)

    def close_once_answered(self) -> None:
        """Close when nobody waits any more. What was written stays written: a peer that stands still finds it later."""
        self._is_left = True
        self._close_if_left()

    def _close_if_left(self) -> None:
        if self._is_left and not self._waiting:
            self.transport.close()

    def write(self, command: RemotingCommand) -> None:
        """Write a command; raises InvokeError if the peer left too much unread, or no header can carry the command."""
        if self.transport.get_write_buffer_size() > self._limits.unsent_bytes_max:
            raise InvokeError(self.address, "the peer does not read")
        try:
            frame = encode(command, self._serialize_type)
        except HeaderError as error:
            raise InvokeError(self.address, str(error)) from None
        self.transport.write(frame)

    def _fail(self, reason: str) -> None:
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(InvokeError(self.address, reason))

    def _decline(self, request: RemotingCommand) -> None:
        """Tell a peer that sends requests the other way that none is served here."""
        if request.is_oneway or self.transport.get_write_buffer_size() > self._limits.unsent_bytes_max:
            return
        remark = f" request type {request.code} not supported"
        answer = request.reply(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=remark)
        self.transport.write(encode(answer, self._serialize_type))


async def _all_lost(links: Iterable[_Link]) -> None:
    for link in links:
        await link.lost.wait()


def _host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    # The length first: Python refuses to make a number of very many digits, with an error that is none of ours.
    is_number = len(port) <= _PORT_DIGITS_MAX and port.isascii() and port.isdigit()
    if not (host and is_number and 0 < int(port) <= _PORT_MAX):
        raise InvokeError(address, "not an address of the form host:port")
    return host.removeprefix("[").removesuffix("]"), int(port)
