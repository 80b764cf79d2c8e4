"""What a server sends its own requests to RocketMQ peers with: its keys for ACL, and its certificate."""

from collections.abc import Sequence

from remoting.client import RemotingClient
from remoting.clock import Clock
from remoting.protocol.addresses import NamedAddress
from remoting.protocol.codes import SerializeType
from remoting.transport.tls import TlsError, client_context
from serving.config.security_options import tls_settings_of
from serving.config.server_config import ServerConfig
from serving.logging.logs import Logs
from serving.metrics.server_counters import ServerCounters
from serving.process.broker_access import ADDRESSES, PROPERTIES, OptionNames, SigningLog, signer_of
from serving.process.start import StartFailed


def broker_client(
    config: ServerConfig, clock: Clock, logs: Logs, counters: ServerCounters, peers: Sequence[NamedAddress] = ()
) -> RemotingClient:
    """Return what sends requests as `config` wants, to `peers` alone if there are any; raises StartFailed."""
    try:
        context = client_context(tls_settings_of(config)) if config.tls_enable else None
    except TlsError as error:
        raise StartFailed(f"tls.enable needs the certificates of tls.client.*: {error}") from error
    signer = signer_of(config)
    names = OptionNames(PROPERTIES, ADDRESSES)
    signing = SigningLog(logs, names, counters.unsigned_requests, has_keys=signer is not None)
    serialize_type = SerializeType[config.serialize_type]
    return RemotingClient(
        clock, tls=context, serialize_type=serialize_type, signer=signer, observer=signing, peers=peers
    )
