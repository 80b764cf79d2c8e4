"""OffsetManagerConfig: every option of the offset manager with its unit, default and reader.

No RocketMQ peer connects to it, so of what `serving/config/server_config.py` has it takes the options of logs, HTTP and
the history. No request changes an option: a restart does.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated, Final, Literal, get_args

from remoting.protocol.addresses import is_loopback
from serving.config.etcd_options import (
    STORE,
    EtcdCaPath,
    EtcdCertPath,
    EtcdEndpoints,
    EtcdKeyPath,
    EtcdPassword,
    EtcdUser,
    etcd_conflicts,
)
from serving.config.options import (
    LISTENS,
    NAMES_A_FILE,
    AddressList,
    FilePath,
    Fixed,
    OneOf,
    Option,
    Text,
    Whole,
)
from serving.config.server_config import ConfigBlackList, ConfigStorePath, FrameBytesMax, ListenPort, ServerConfig
from serving.config.server_kind import ServerKind

StoreKind = Literal["embedded", "etcd"]
GuardMode = Literal["off", "report", "act"]
GuardTail = Literal["kept", "may_be_lost", "lost"]
LockReplayMode = Literal["off", "on"]

_PATH: Final = FilePath()
_TEXT: Final = Text()
_FOLLOWS: Final = Fixed("it decides which brokers are read and changed")
_GUARDS: Final = Fixed("it decides what is written to brokers")
_MIRRORS: Final = Fixed("it decides how much brokers are asked for, and how much is kept")
_WRITES: Final = Fixed("it decides what an acknowledgement means, and how much memory is used")


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetManagerConfig(ServerConfig):
    """All options. Each comment names the reader; those of ServerConfig without one are no options here."""

    config_store_path: ConfigStorePath = ""
    config_black_list: ConfigBlackList = ""
    listen_port: ListenPort = 0
    frame_bytes_max: FrameBytesMax = 1024
    #: Read by http_process.py.
    http_port: Annotated[
        int, Option("httpPort", Whole(0, 65535), "Port of the HTTP API and metrics; 0 for any free port.", LISTENS)
    ] = 9883
    #: Read by http_process.py.
    client_token_file: Annotated[
        str,
        Option(
            "clientTokenFile",
            _PATH,
            "File whose first line, of 16 characters or more, is the token of clients: they may commit, read, flush "
            "and lock, and neither reset nor delete. Read again when it changes; blank: they use the other token.",
            NAMES_A_FILE,
        ),
    ] = ""
    #: Read by manager.py, as all that follow.
    advertised_address: Annotated[
        str,
        Option(
            "advertisedAddress",
            AddressList(),
            "Address host:port at which clients reach this manager; blank for httpBindAddress and httpPort, or the "
            "address of this machine.",
            Fixed("it sends clients to other servers"),
        ),
    ] = ""
    manager_group: Annotated[
        str, Option("managerGroup", Text(may_be_blank=False), "Name of the offset managers of one store.", STORE)
    ] = "rocketmq"
    manager_id: Annotated[
        str, Option("managerId", _TEXT, "Name of this offset manager; blank for its address.", STORE)
    ] = ""
    store_path: Annotated[
        str,
        Option(
            "storePath",
            FilePath(may_be_blank=False),
            "Folder of the journal of this manager, and of the embedded store.",
            NAMES_A_FILE,
        ),
    ] = "~/offset-manager/store"
    store: Annotated[
        StoreKind,
        Option(
            "store",
            OneOf(get_args(StoreKind)),
            "Where offsets are kept: a file of this manager alone, or etcd, for several managers.",
            STORE,
        ),
    ] = "embedded"
    flush_interval_ms: Annotated[
        int,
        Option(
            "flushIntervalMs",
            Whole(10, 10_000),
            "How long acknowledged offsets are collected before the store gets them, in milliseconds.",
            _WRITES,
        ),
    ] = 100
    write_through_groups: Annotated[
        str,
        Option(
            "writeThroughGroups",
            _TEXT,
            "Groups whose commits are acknowledged only when the store has them, separated by ';'; * stands for any "
            "characters, ? for one.",
            _WRITES,
        ),
    ] = ""
    dirty_keys_max: Annotated[
        int,
        Option(
            "dirtyKeysMax",
            Whole(1_000, 10_000_000),
            "Queues whose offsets the store may lack; beyond it commits are refused until it has caught up.",
            _WRITES,
        ),
    ] = 200_000
    offsets_max: Annotated[
        int,
        Option(
            "offsetsMax",
            Whole(1_000, 10_000_000),
            "Offsets of all groups, one for each queue that a group consumes; a million take some 500 MB.",
            _WRITES,
        ),
    ] = 1_000_000
    #: Read by following.py, as the next one.
    controller_http_addr: Annotated[
        str,
        Option(
            "controllerHttpAddr",
            AddressList(),
            "Controllers at whose HTTP ports (httpPort) the masters of broker sets are followed, all of them as "
            "host:port with a ';' between; blank for none.",
            _FOLLOWS,
        ),
    ] = ""
    namesrv_addr: Annotated[
        str,
        Option(
            "namesrvAddr",
            AddressList(),
            "NameServers at which the masters of broker sets without a controller are followed, all of them as "
            "host:port with a ';' between; blank for none.",
            _FOLLOWS,
        ),
    ] = ""
    #: Read by guarding.py, as the next one.
    guard: Annotated[
        GuardMode,
        Option(
            "guard",
            OneOf(get_args(GuardMode)),
            "What is done about offsets that went back when a broker became master or started again: act writes them "
            "to the broker, report only shows what it would write, off does neither.",
            _GUARDS,
        ),
    ] = "report"
    guard_tail: Annotated[
        GuardTail,
        Option(
            "guardTail",
            OneOf(get_args(GuardTail)),
            "Whether consumers may have read messages that a new master does not have: kept if masters are elected "
            "only from those in sync; may_be_lost; lost if each change of a master is to be taken for one that lost "
            "messages, so that groups read again rather than skip.",
            _GUARDS,
        ),
    ] = "may_be_lost"
    #: Read by mirroring.py, as the next one.
    mirror_period_ms: Annotated[
        int,
        Option(
            "mirrorPeriodMs",
            Whole(1_000, 60_000),
            "How often the offsets of each master are read into the mirror, in milliseconds.",
            _MIRRORS,
        ),
    ] = 5_000
    mirror_bytes_max: Annotated[
        int,
        Option(
            "mirrorBytesMax",
            Whole(64 << 20, 1 << 40),
            "Room of mirror.db, in bytes: beyond it the oldest moments of the sets with the most are given up. The "
            "newest offsets are stored in any case.",
            _MIRRORS,
        ),
    ] = 1 << 30
    #: Read by manager.py, as it is.
    lock_replay: Annotated[
        LockReplayMode,
        Option(
            "lockReplay",
            OneOf(get_args(LockReplayMode)),
            "Whether a new master gets the queue locks of orderly clients in their names, and loses those of lost "
            "clients: for groups that are declared orderly. off: who holds what is only read.",
            Fixed("it decides whether brokers are changed"),
        ),
    ] = "off"
    #: Read by store.py, as all that follow.
    etcd_endpoints: EtcdEndpoints = ""
    etcd_user: EtcdUser = ""
    etcd_password: EtcdPassword = field(default="", repr=False)
    etcd_ca_path: EtcdCaPath = ""
    etcd_cert_path: EtcdCertPath = ""
    etcd_key_path: EtcdKeyPath = ""

    @property
    def follows_brokers(self) -> bool:
        """True if something tells who is master."""
        return bool(self.controller_http_addr or self.namesrv_addr)


def _conflicts(config: OffsetManagerConfig) -> Iterable[tuple[str, str]]:
    """Yield what does not go together."""
    if not config.http_admin_token_file:
        if config.client_token_file:
            yield "http_admin_token_file", "set as well, because clientTokenFile is: operators have their own token"
        elif not is_loopback(config.http_bind_address):
            why = "httpBindAddress is no loopback address: whoever reaches it could change offsets"
            yield "http_admin_token_file", f"set, because {why}"
    if ";" in config.advertised_address:
        yield "advertised_address", "one address"
    if "[" in config.write_through_groups:
        yield "write_through_groups", "names or patterns with * and ?, without ["
    if config.controller_http_addr and config.namesrv_addr:
        yield "namesrv_addr", "blank, because controllerHttpAddr is set: controllers know their masters better"
    yield from _without_masters(config)
    yield from etcd_conflicts(config, config.store, "store")


def _without_masters(config: OffsetManagerConfig) -> Iterable[tuple[str, str]]:
    """Yield what is needed of what acts at masters."""
    if config.follows_brokers:
        return
    if config.guard == "act":
        yield "controller_http_addr", "set, or namesrvAddr, because guard is act: only they show who is master"
    if config.lock_replay == "on":
        yield "controller_http_addr", "set, or namesrvAddr, because lockReplay is on: only they show who is master"


#: How requests to brokers and NameServers are signed and encrypted.
_OF_REQUESTS_TO_BROKERS: Final = (
    "tls_enable",
    "tls_ciphers",
    "tls_protocols",
    "tls_client_key_path",
    "tls_client_key_password",
    "tls_client_cert_path",
    "tls_client_auth_server",
    "tls_client_trust_cert_path",
    "tls_test_mode_enable",
    "tls_config_file",
    "serialize_type",
    "broker_access_key",
    "broker_access_key_path",
    "broker_secret_key",
    "broker_secret_key_path",
    "broker_access_addresses",
)

OFFSET_MANAGER: Final = ServerKind(
    name="offset manager",
    program="rmq-offset-manager",
    variable_prefix="RMQ_OFFSET_MANAGER_",
    metric_prefix="rocketmq_offset_manager_",
    id_key="manager_id",
    id_meaning="Name of this offset manager: managerId, or its address.",
    requests=(),
    config_class=OffsetManagerConfig,
    conflicts=_conflicts,
    inherited=frozenset(
        {
            "history_bytes_max",
            "history_dir",
            "http_admin_token_file",
            "http_bind_address",
            "http_port",
            "log_format",
            "log_level",
            *_OF_REQUESTS_TO_BROKERS,
        }
    ),
)
