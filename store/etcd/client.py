"""Calls one of several etcd endpoints, with a deadline for each call; blocking, for threads.

Each endpoint has a channel of its own. All calls go to one endpoint until it fails; then to the next one. gRPC's
own choice among addresses is not used: it leaves a member that hangs only when its keepalive fails, etcd refuses such
pings more often than every 5 s, and with TLS all members would have to have one name.

This is the one module that imports gRPC and etcd's messages; a controller without etcd does not load it. Only the
messages of etcd3 are used: its client knows one endpoint, calls without deadline, and its watch does not survive
a compaction.
"""

import ast
import os
import re
import threading
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from remoting.clock import Clock
from serving.config.etcd_options import EtcdConfig
from store.etcd.failures import Failure, FailureKind, failure_of
from store.store import OutcomeUnknown, StoreError

# gRPC writes lines of its own to stderr, where the log is. The errors of its calls have the same facts.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
# Nothing here forks to go on in Python; with it each subprocess that is started would stop all calls for a moment.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

try:
    import grpc as _grpc  # type: ignore[import-untyped]  # it has no types, and reads the environment
    from google.protobuf.descriptor_pool import DescriptorPool  # type: ignore[import-untyped]  # it has no types
    from google.protobuf.message_factory import (  # type: ignore[import-untyped]  # as above
        GetMessageClass,
        GetMessageClassesForFiles,
    )
except ModuleNotFoundError as error:
    raise StoreError(f"{error.name} is not installed: pip install 'rocketmq-control-plane[etcd]'") from None

grpc: Any = _grpc
_POOL: Final[Any] = DescriptorPool()
_PACKAGE: Final = "etcdserverpb"


def _message_classes() -> Any:
    """Return etcd's messages by their names, made from the descriptors in the sources of etcd3.

    These are read, not imported: an old protoc generated them, which only protobuf's implementation in Python takes.
    """
    etcd3 = find_spec("etcd3")
    if etcd3 is None or etcd3.origin is None:
        raise StoreError("etcd3 is not installed: pip install 'rocketmq-control-plane[etcd]'")
    for name in ("kv", "auth", "rpc"):
        source = Path(etcd3.origin).with_name("etcdrpc").joinpath(f"{name}_pb2.py").read_text(encoding="utf-8")
        (literal,) = re.findall(r"serialized_pb=_b\((.*?)\)$", source, re.MULTILINE)
        _POOL.AddSerializedFile(ast.literal_eval(literal).encode("latin-1"))
    classes = GetMessageClassesForFiles(["rpc.proto"], _POOL)
    return SimpleNamespace(**{name.removeprefix(f"{_PACKAGE}."): found for name, found in classes.items()})


messages: Final = _message_classes()


def _service(channel: Any, name: str) -> Any:
    calls = SimpleNamespace()
    for method in _POOL.FindServiceByName(f"{_PACKAGE}.{name}").methods:
        kinds = ("stream" if streams else "unary" for streams in (method.client_streaming, method.server_streaming))
        call = getattr(channel, "_".join(kinds))(
            f"/{_PACKAGE}.{name}/{method.name}",
            request_serializer=GetMessageClass(method.input_type).SerializeToString,
            response_deserializer=GetMessageClass(method.output_type).FromString,
        )
        setattr(calls, method.name, call)
    return calls


#: A whole call, with all its attempts: less than a commit may take (`store.py`), to report why it failed.
CALL_MS: Final = 1900
#: How long one of several endpoints may take before the next one is called.
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
        return bool(self.ca_file or self.cert_file) or any(each.startswith("https://") for each in self.endpoints)

    @property
    def addresses(self) -> tuple[str, ...]:
        return tuple(each.split("://")[-1].rstrip("/") for each in self.endpoints)


def etcd_options(config: EtcdConfig, group: str) -> EtcdOptions:
    return EtcdOptions(
        endpoints=tuple(config.etcd_endpoints.split(";")),
        group=group,
        user=config.etcd_user,
        password=config.etcd_password,
        ca_file=config.etcd_ca_path,
        cert_file=config.etcd_cert_path,
        key_file=config.etcd_key_path,
    )


class Unreachable(StoreError):
    """No endpoint can be reached; nothing was sent."""


class Compacted(StoreError):
    """The requested revision was compacted."""


class EtcdConnection:
    """A channel to one endpoint. It is closed once it is left and nobody uses it any more."""

    def __init__(self, address: str, channel: Any) -> None:
        self.address: Final = address
        self._channel = channel
        self.kv: Final = _service(channel, "KV")
        self.lease: Final = _service(channel, "Lease")
        self.watch: Final = _service(channel, "Watch")
        self.auth: Final = _service(channel, "Auth")
        self.maintenance: Final = _service(channel, "Maintenance")
        self._lock = threading.Lock()
        self._users = 0
        self._is_left = False
        self._streams: list[Any] = []

    def use(self) -> None:
        """Keep the channel open until `release`."""
        with self._lock:
            self._users += 1

    def release(self) -> None:
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
        self._connections: dict[int, EtcdConnection] = {}
        self._is_closed = False
        self._token_lock = threading.Lock()
        self._token = ""

    def request(
        self, call: Callable[[EtcdConnection, float, Metadata], Answer], *, deadline_ms: int, is_repeatable: bool = True
    ) -> Answer:
        """Return the answer of some endpoint; `call` gets a connection, the seconds it may take, and metadata.

        A repeatable call is sent again where nobody knows whether it was done. Raises StoreError, OutcomeUnknown.
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
                return call(connection, self._attempt_s(left_ms), _metadata(token))
            except grpc.RpcError as error:
                failure = failure_of(connection.address, error.code().name, error.details() or "")
            except ValueError as error:
                # gRPC raises it where the channel was closed before anything was sent.
                failure = Failure(FailureKind.NOT_SENT, f"etcd at {connection.address}: {error}", is_silence=True)
            finally:
                connection.release()
            self._after(failure, connection, token)
            if failure.kind is FailureKind.UNKNOWN and not is_repeatable:
                break
        if failure is None:
            raise Unreachable(f"etcd at {', '.join(self._options.addresses)}: no time was left to call it")
        raise (OutcomeUnknown if failure.kind is FailureKind.UNKNOWN else Unreachable)(failure.text)

    def request_once(self, call: Callable[[EtcdConnection, float, Metadata], Answer], *, deadline_ms: int) -> Answer:
        """Call the endpoint in use, once, for what nothing depends on: nobody goes elsewhere. Raises StoreError."""
        connection = self._used_connection()
        left_ms = max(deadline_ms - self._clock.now_ms(), 1)
        try:
            return call(connection, left_ms / 1000, _metadata(self._token))
        except grpc.RpcError as error:
            raise StoreError(failure_of(connection.address, error.code().name, error.details() or "").text) from None
        except ValueError as error:
            raise StoreError(f"etcd at {connection.address}: {error}") from None
        finally:
            connection.release()

    def open_stream(self, call: Callable[[EtcdConnection, Metadata], Any], *, deadline_ms: int) -> Any:
        """Return a call that goes on until it is cancelled, or until its endpoint is left for another."""
        connection = self._used_connection()
        try:
            token = self._token_for(connection, deadline_ms)
            call = call(connection, _metadata(token))
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

    def _used_connection(self) -> EtcdConnection:
        """Return the connection for a call; its channel stays open until it is released."""
        with self._lock:
            if self._is_closed:
                raise StoreError("the store is closed")
            if self._current not in self._connections:
                address = self._options.addresses[self._current]
                self._connections[self._current] = EtcdConnection(
                    address, self.system.open_channel(address, self._credentials)
                )
            connection = self._connections[self._current]
            # Under this lock: once it is left by another thread, a connection without user is closed.
            connection.use()
            return connection

    def _attempt_s(self, left_ms: int) -> float:
        is_alone = len(self._options.addresses) == 1
        return (left_ms if is_alone else min(left_ms, ATTEMPT_MS)) / 1000

    def _after(self, failure: Failure, connection: EtcdConnection, token: str) -> None:
        match failure.kind:
            case FailureKind.TOKEN_REFUSED:
                self._forget(token)
            case FailureKind.COMPACTED:
                raise Compacted(failure.text)
            case FailureKind.REFUSED:
                raise StoreError(failure.text)
            case FailureKind.NOT_SENT | FailureKind.UNKNOWN:
                self._leave(connection, is_silent=failure.is_silence)

    def _leave(self, connection: EtcdConnection, *, is_silent: bool) -> None:
        """Call another endpoint from now on; others may have done so already."""
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

    def _token_for(self, connection: EtcdConnection, deadline_ms: int) -> str:
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
