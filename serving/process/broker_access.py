"""Who we are for brokers with ACL, for which of them, and the log of requests that they deny."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from remoting.client import RemotingClient
from remoting.clock import Clock
from remoting.protocol.addresses import NamedAddress, named_addresses
from remoting.protocol.broker_rights import needed_rights
from remoting.protocol.codes import SerializeType
from remoting.protocol.signing import Credentials, Denial, Signer, SigningObserver
from remoting.transport.tls import TlsError, client_context
from serving.config.security_options import tls_settings_of
from serving.config.server_config import ServerConfig
from serving.logging.logs import Logs
from serving.logging.server_events import BROKER_REQUEST_DENIED, BROKER_REQUEST_NOT_SIGNED
from serving.metrics.counters import CounterTable
from serving.process.start import StartFailed

#: The longest key that is taken from a file; a wrong file must not fill the memory.
KEY_BYTES_MAX: Final = 4096

#: Addresses whose unsigned requests were logged; the oldest are removed, and logged again.
ADDRESSES_MAX: Final = 4096

#: Options with the keys.
PROPERTIES: Final = "brokerAccessKey and brokerSecretKey (or brokerAccessKeyPath and brokerSecretKeyPath)"

#: Option with the addresses that requests are signed for.
ADDRESSES: Final = "brokerAccessAddresses"


def signer_of(config: ServerConfig) -> Signer | None:
    """Return what signs requests of ours, None without keys; raises StartFailed for files that hold none."""
    credentials = credentials_of(config)
    if credentials is None:
        return None
    named = named_addresses(config.broker_access_addresses) or ()
    return Signer(credentials=credentials, named=named, verifies_all=config.verifies_brokers)


def credentials_of(config: ServerConfig) -> Credentials | None:
    """Return the keys of the configuration, None without; raises StartFailed for files that hold none."""
    access_key = config.broker_access_key or key_in(config.broker_access_key_path, "brokerAccessKeyPath")
    secret_key = config.broker_secret_key or key_in(config.broker_secret_key_path, "brokerSecretKeyPath")
    return Credentials(access_key, secret_key) if access_key and secret_key else None


def key_in(path: str, option: str) -> str:
    """Return the key that a file holds, without blanks and line ends around it; blank without a path.

    Raises StartFailed with the name of the option, never with what the file holds.
    """
    if not path:
        return ""
    try:
        with Path(path).expanduser().open("rb") as file:
            text = file.read(KEY_BYTES_MAX + 1)
    except OSError as error:
        raise StartFailed(f"{option}: {path} cannot be read: {error.strerror or error}") from None
    try:
        key = text.decode().strip() if len(text) <= KEY_BYTES_MAX else ""
    except UnicodeDecodeError:
        key = ""
    if not key:
        raise StartFailed(f"{option}: {path} must hold a key: UTF-8 text of 1 to {KEY_BYTES_MAX} bytes") from None
    return key


class SigningLog(SigningObserver):
    """Logs requests that brokers deny with what to do about it, and each address that gets unsigned requests once."""

    def __init__(
        self,
        logs: Logs,
        keys: str,
        addresses: str,
        unsigned_requests: CounterTable,
        *,
        has_keys: bool,
        no_brokers: frozenset[str] = frozenset(),
    ) -> None:
        """Take the options that the advice names; requests to `no_brokers` need no signature."""
        self._logs = logs
        self._if_signed = f"{keys} must be a user that this broker knows, with its password and its rights"
        self._if_denied_unsigned = (
            f"name this address or its network in {addresses}, if it is a broker of yours"
            if has_keys
            else f"set {keys} to a user of the brokers with its password, and {addresses} to their networks"
        )
        self._if_unsigned = f"name it or its network in {addresses}, if it is a broker of yours that has ACL"
        self._unsigned_requests = unsigned_requests
        self._no_brokers = no_brokers
        #: Keys only, in the order in which they came.
        self._logged: dict[str, None] = {}

    def denied(self, denial: Denial) -> None:
        self._logs.write(
            BROKER_REQUEST_DENIED,
            addr=denial.address,
            request_code=denial.request_code,
            signed=denial.is_signed,
            error=denial.remark.strip(),
            advice=self._advice(denial),
        )

    def _advice(self, denial: Denial) -> str:
        if not denial.is_signed:
            return self._if_denied_unsigned
        rights = needed_rights(denial.request_code)
        return f"{self._if_signed}: {rights}" if rights else self._if_signed

    def unsigned(self, address: str) -> None:
        if address in self._no_brokers:
            return
        self._unsigned_requests.add(())
        if address in self._logged:
            return
        if len(self._logged) >= ADDRESSES_MAX:
            del self._logged[next(iter(self._logged))]
        self._logged[address] = None
        self._logs.write(BROKER_REQUEST_NOT_SIGNED, addr=address, advice=self._if_unsigned)


def broker_client(
    config: ServerConfig,
    clock: Clock,
    logs: Logs,
    unsigned_requests: CounterTable,
    peers: Sequence[NamedAddress] = (),
    servers: frozenset[str] = frozenset(),
) -> RemotingClient:
    """Return what sends requests as `config` wants, to `peers` alone if there are any; raises StartFailed.

    `servers` are addresses of no brokers but of servers as this one: they need no signature, and TLS if this one
    requires it too.
    """
    uses_tls = config.tls_enable or (bool(servers) and config.tls_server_mode == "enforcing")
    try:
        context = client_context(tls_settings_of(config)) if uses_tls else None
    except TlsError as error:
        raise StartFailed(f"tls.enable needs the certificates of tls.client.*: {error}") from error
    signer = signer_of(config)
    signing = SigningLog(
        logs, PROPERTIES, ADDRESSES, unsigned_requests, has_keys=signer is not None, no_brokers=servers
    )
    serialize_type = SerializeType[config.serialize_type]
    return RemotingClient(
        clock, tls=context, serialize_type=serialize_type, signer=signer, observer=signing, peers=peers
    )
