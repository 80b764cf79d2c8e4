"""Asks one of several etcd endpoints, with a deadline for each call; blocking, for threads.

Each endpoint has a channel of its own. All calls go to one endpoint until it fails; then the next one is asked. gRPC's
own choice among addresses is not used: it leaves a member that hangs only when its keepalive fails, etcd refuses such
pings more often than every 5 s, and with TLS all members would have to have one name.
"""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from controller.storage.etcd.failures import Failure, Fate, failure_of
from controller.storage.etcd.messages import grpc, messages, stubs
from controller.storage.store import OutcomeUnknown, StoreError
from remoting.clock import Clock

#: A whole call, with all its attempts: less than a commit may take (`store.py`), to say why it failed.
CALL_MS: Final = 1900
#: How long one of several endpoints may take before the next one is asked.
ATTEMPT_MS: Final = 1000
#: The largest answer: far above a page of entries.
ANSWER_BYTES_MAX: Final = 64 << 20

_CHANNEL_OPTIONS: Final = (
    ("grpc.max_receive_message_length", ANSWER_BYTES_MAX),
    ("grpc.max_send_message_length", ANSWER_BYTES_MAX),
    # A new channel is to have a new connection: the old one may be one that nobody answers on.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.min_reconnect_backoff_ms", 1000),
    ("grpc.max_reconnect_backoff_ms", 1000),
    # For watches, on which nothing may come for hours. etcd refuses pings more often than every 5 s.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 2_000),
    ("grpc.enable_retries", 0),
    ("grpc.enable_http_proxy", 0),
)

Answer = TypeVar("Answer")
Metadata = tuple[tuple[str, str], ...]


def grpc_channel(address: str, credentials: Any) -> Any:
    """Return a channel to an endpoint; it connects when it is used."""
    if credentials is None:
        return grpc.insecure_channel(address, options=_CHANNEL_OPTIONS)
    return grpc.secure_channel(address, credentials, options=_CHANNEL_OPTIONS)


class System(NamedTuple):
    """What the store needs of its machine."""

    #: Opens a channel of gRPC to an address, encrypted if there are credentials.
    open_channel: Callable[[str, Any], Any] = grpc_channel
    #: The module whose threads and events are used.
    threads: Any = threading


class EtcdOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Where etcd is, and who asks."""

    #: `host:port`, or an URL as etcd names it. With `https://`, or with any of the files, TLS is used for all.
    endpoints: tuple[str, ...]
    #: Controllers of one group share their sets and one leader.
    group: str = "default"
    #: PEM files: whose certificates are trusted (default: the system's), and who this client is.
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    user: str = ""
    password: str = ""

    @property
    def is_tls(self) -> bool:
        """Whether connections are encrypted."""
        return bool(self.ca_file or self.cert_file) or any(each.startswith("https://") for each in self.endpoints)

    @property
    def addresses(self) -> tuple[str, ...]:
        """The endpoints as `host:port`."""
        return tuple(each.split("://")[-1].rstrip("/") for each in self.endpoints)


class Unreachable(StoreError):
    """No endpoint can be reached; nothing was sent."""


class Compacted(StoreError):
    """The revision that was asked for is gone."""


class Connection:
    """A channel to one endpoint. It is closed once it is left and nobody uses it any more."""

    def __init__(self, address: str, channel: Any) -> None:
        self.address: Final = address
        self._channel = channel
        self.kv: Final = stubs.KVStub(self._channel)
        self.lease: Final = stubs.LeaseStub(self._channel)
        self.watch: Final = stubs.WatchStub(self._channel)
        self.auth: Final = stubs.AuthStub(self._channel)
        self.maintenance: Final = stubs.MaintenanceStub(self._channel)
        self._lock = threading.Lock()
        self._users = 0
        self._is_left = False
        self._streams: list[Any] = []

    def use(self) -> None:
        """Keep the channel open until `release`."""
        with self._lock:
            self._users += 1

    def release(self) -> None:
        """Need the channel no more."""
        with self._lock:
            self._users -= 1
        self._close_if_done()

    def stream(self, call: Any) -> None:
        """Cancel this call as soon as the endpoint is left for another."""
        with self._lock:
            self._streams.append(call)

    def end_streams(self) -> None:
        """Let those who read them go elsewhere."""
        with self._lock:
            streams, self._streams = self._streams, []
        for each in streams:
            each.cancel()

    def leave(self) -> None:
        """Close the channel when the last call on it has ended."""
        self.end_streams()
        with self._lock:
            self._is_left = True
        self._close_if_done()

    def _close_if_done(self) -> None:
        with self._lock:
            is_done = self._is_left and not self._users
        if is_done:
            self._channel.close()

    def close(self) -> None:
        """Close the channel; calls on it fail at once."""
        self._channel.close()


class EtcdClient:
    """The endpoints of one etcd, and the user's token."""

    def __init__(self, options: EtcdOptions, clock: Clock, system: System | None = None) -> None:
        """Connect to nobody yet; raises StoreError if the options cannot be followed."""
        if not options.addresses:
            raise StoreError("no endpoint of etcd is configured")
        self._options = options
        self.system = system or System()
        self._clock = clock
        self._credentials = _credentials(options) if options.is_tls else None
        self._lock = threading.Lock()
        self._current = 0
        self._connections: dict[int, Connection] = {}
        self._is_closed = False
        self._token_lock = threading.Lock()
        self._token = ""

    def ask(
        self,
        question: Callable[[Connection, float, Metadata], Answer],
        *,
        deadline_ms: int,
        is_repeatable: bool = True,
    ) -> Answer:
        """Return the answer of some endpoint; `question` gets a connection, the seconds it may take, and metadata.

        What is repeatable is asked again where nobody knows whether it was done. Raises StoreError, OutcomeUnknown.
        """
        failure: Failure | None = None
        for _ in range(len(self._options.addresses) + 1):
            left_ms = deadline_ms - self._clock.now_ms()
            if left_ms <= 0:
                break
            token = ""
            connection = self._used_connection()
            try:
                token = self._token_for(connection, deadline_ms)
                return question(connection, self._attempt_s(left_ms), _metadata(token))
            except grpc.RpcError as error:
                failure = failure_of(connection.address, error.code().name, error.details() or "")
            except ValueError as error:
                # gRPC says so where the channel was closed before anything was sent.
                failure = Failure(Fate.NOT_SENT, f"etcd at {connection.address}: {error}", is_silence=True)
            finally:
                connection.release()
            self._after(failure, connection, token)
            if failure.fate is Fate.UNKNOWN and not is_repeatable:
                break
        if failure is None:
            raise Unreachable(f"etcd at {', '.join(self._options.addresses)}: no time was left to ask it")
        raise (OutcomeUnknown if failure.fate is Fate.UNKNOWN else Unreachable)(failure.text)

    def ask_beside(self, question: Callable[[Connection, float, Metadata], Answer], *, deadline_ms: int) -> Answer:
        """Return the answer of the endpoint that is asked now, once; raises StoreError.

        For what nothing depends on: a failure sends nobody to another endpoint, and nobody is logged in for it.
        """
        connection = self._used_connection()
        left_ms = max(deadline_ms - self._clock.now_ms(), 1)
        try:
            return question(connection, left_ms / 1000, _metadata(self._token))
        except grpc.RpcError as error:
            raise StoreError(failure_of(connection.address, error.code().name, error.details() or "").text) from None
        except ValueError as error:
            raise StoreError(f"etcd at {connection.address}: {error}") from None
        finally:
            connection.release()

    def open_stream(self, question: Callable[[Connection, Metadata], Any], *, deadline_ms: int) -> Any:
        """Return a call that goes on until it is cancelled, or until its endpoint is left for another."""
        connection = self._used_connection()
        try:
            token = self._token_for(connection, deadline_ms)
            call = question(connection, _metadata(token))
            connection.stream(call)
        finally:
            connection.release()
        return call

    def close(self) -> None:
        """Fail all calls, also those under way."""
        with self._lock:
            self._is_closed = True
            connections, self._connections = tuple(self._connections.values()), {}
        for each in connections:
            each.end_streams()
            each.close()

    def _used_connection(self) -> Connection:
        """Return the connection to ask on; its channel stays open until it is released."""
        with self._lock:
            if self._is_closed:
                raise StoreError("the store is closed")
            if self._current not in self._connections:
                address = self._options.addresses[self._current]
                self._connections[self._current] = Connection(
                    address, self.system.open_channel(address, self._credentials)
                )
            connection = self._connections[self._current]
            # Under this lock: once it is left by another thread, a connection without user is closed.
            connection.use()
            return connection

    def _attempt_s(self, left_ms: int) -> float:
        is_alone = len(self._options.addresses) == 1
        return (left_ms if is_alone else min(left_ms, ATTEMPT_MS)) / 1000

    def _after(self, failure: Failure, connection: Connection, token: str) -> None:
        match failure.fate:
            case Fate.TOKEN_REFUSED:
                self._forget(token)
            case Fate.COMPACTED:
                raise Compacted(failure.text)
            case Fate.REFUSED:
                raise StoreError(failure.text)
            case Fate.NOT_SENT | Fate.UNKNOWN:
                self._leave(connection, is_silent=failure.is_silence)

    def _leave(self, connection: Connection, *, is_silent: bool) -> None:
        """Ask another endpoint from now on; others may have done so already."""
        with self._lock:
            if self._connections.get(self._current) is not connection:
                return
            if is_silent:
                del self._connections[self._current]
            self._current = (self._current + 1) % len(self._options.addresses)
        if is_silent:
            connection.leave()
        else:
            connection.end_streams()

    def _token_for(self, connection: Connection, deadline_ms: int) -> str:
        if not self._options.user:
            return ""
        left_ms = max(deadline_ms - self._clock.now_ms(), 1)
        if not self._token_lock.acquire(timeout=left_ms / 1000):
            raise Unreachable(f"etcd at {connection.address}: no time was left to log in")
        try:
            if not self._token:
                request = messages.AuthenticateRequest(name=self._options.user, password=self._options.password)
                self._token = connection.auth.Authenticate(request, timeout=self._attempt_s(left_ms)).token
        except grpc.RpcError as error:
            if "authentication is not enabled" in (error.details() or ""):
                return ""
            raise
        else:
            return self._token
        finally:
            self._token_lock.release()

    def _forget(self, token: str) -> None:
        with self._token_lock:
            if self._token == token:
                self._token = ""


def _metadata(token: str) -> Metadata:
    return (("token", token),) if token else ()


def _credentials(options: EtcdOptions) -> Any:
    return grpc.ssl_channel_credentials(
        root_certificates=_pem(options.ca_file),
        private_key=_pem(options.key_file),
        certificate_chain=_pem(options.cert_file),
    )


def _pem(path: str) -> bytes | None:
    if not path:
        return None
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise StoreError(f"{path} cannot be read, for TLS to etcd: {error.strerror}") from None
