"""OffsetManagerConfig: every option of the offset manager with its unit, default and reader.

No RocketMQ peer connects to it, so of what `serving/config/server_config.py` has it takes the options of logs, HTTP and
the history. A change takes effect at the next start.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, get_args

from remoting.protocol.addresses import is_loopback
from serving.config.etcd_options import STORE, EtcdConfig, etcd_conflicts
from serving.config.options import (
    LISTENS,
    NAMES_A_FILE,
    AddressList,
    FilePath,
    Fixed,
    OneOf,
    Text,
    Whole,
    described,
    option,
)
from serving.config.server_config import (
    CONFIG_BLACK_LIST,
    CONFIG_STORE_PATH,
    FRAME_BYTES_MAX,
    LISTEN_PORT,
)
from serving.config.server_kind import ServerKind
from serving.shapes.offsets import RepairMode, StoreKind

LockReplayMode = Literal["off", "on"]

_FOLLOWS: Final = Fixed("it decides which brokers are read and changed")
_REPAIRS: Final = Fixed("it decides what is written to brokers")
_READS: Final = Fixed("it decides how often brokers are read, and how much is kept")
_WRITES: Final = Fixed("it decides what an acknowledgement means, and how much memory is used")


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetManagerConfig(EtcdConfig):
    """All options. Each comment names the reader; those of ServerConfig without one are no options here."""

    config_store_path: str = described("", CONFIG_STORE_PATH)
    config_black_list: str = described("", CONFIG_BLACK_LIST)
    listen_port: int = described(0, LISTEN_PORT)
    frame_bytes_max: int = described(1024, FRAME_BYTES_MAX)
    #: Read by process.py, as the next one.
    http_port: int = option(
        9883, "httpPort", Whole(0, 65535), "Port of the HTTP API and metrics; 0: any free port.", LISTENS
    )
    client_token_file: str = option(
        "",
        "clientTokenFile",
        FilePath(),
        "File whose first line, at least 16 characters, is the token for clients, which may commit and read "
        "offsets, but not reset or delete them; read again when it changes; blank: clients use the admin token.",
        NAMES_A_FILE,
    )
    #: Read by manager.py, as all that follow.
    advertised_address: str = option(
        "",
        "advertisedAddress",
        AddressList(),
        "Address host:port at which clients reach this manager; blank: httpBindAddress and httpPort, or the address "
        "of this machine.",
        Fixed("it sends clients to other servers"),
    )
    manager_group: str = option(
        "rocketmq", "managerGroup", Text(may_be_blank=False), "Name shared by the offset managers of one store.", STORE
    )
    manager_id: str = option("", "managerId", Text(), "Name of this offset manager; blank: its address.", STORE)
    store_path: str = option(
        "~/offset-manager/store",
        "storePath",
        FilePath(may_be_blank=False),
        "Folder for readings of brokers and for offsets that clients commit.",
        NAMES_A_FILE,
    )
    store: StoreKind = option(
        "embedded",
        "store",
        OneOf(get_args(StoreKind)),
        "Where committed offsets are stored: embedded (files, one manager) or etcd (several managers).",
        STORE,
    )
    #: Read by commits/, as the next three.
    flush_interval_ms: int = option(
        100,
        "flushIntervalMs",
        Whole(10, 10_000),
        "Time for which acknowledged offsets are collected before they go to the store, in milliseconds.",
        _WRITES,
    )
    write_through_groups: str = option(
        "",
        "writeThroughGroups",
        Text(),
        "Groups whose commits are acknowledged only once they are in the store, separated by ';'; * and ? are "
        "wildcards.",
        _WRITES,
    )
    dirty_keys_max: int = option(
        200_000,
        "dirtyKeysMax",
        Whole(1_000, 10_000_000),
        "Queues whose newest offsets may be missing in the store; beyond that, commits are refused until it has "
        "caught up.",
        _WRITES,
    )
    offsets_max: int = option(
        1_000_000,
        "offsetsMax",
        Whole(1_000, 10_000_000),
        "Limit of committed offsets of all groups, one for each queue that a group consumes.",
        _WRITES,
    )
    #: Read by sets/, as the next one.
    controller_http_addr: str = option(
        "",
        "controllerHttpAddr",
        AddressList(),
        "HTTP addresses (httpPort) of all controllers, which report the masters, as host:port separated by ';'; "
        "blank: none.",
        _FOLLOWS,
    )
    namesrv_addr: str = option(
        "",
        "namesrvAddr",
        AddressList(),
        "All NameServers, which report the masters of broker sets without a controller, as host:port separated by "
        "';'; blank: none.",
        _FOLLOWS,
    )
    #: Read by repair/, as the next one.
    repair: RepairMode = option(
        "report",
        "repair",
        OneOf(get_args(RepairMode)),
        "What to do with offsets lost in a failover or restart: report lists them with the repair command, act "
        "writes them to the new master.",
        _REPAIRS,
    )
    repair_groups: str = option(
        "*",
        "repairGroups",
        Text(may_be_blank=False),
        "Groups that act repairs, separated by ';'; * and ? are wildcards. Others are only reported.",
        _REPAIRS,
    )
    #: Read by readings/, as the next one.
    reading_period_ms: int = option(
        5_000,
        "readingPeriodMs",
        Whole(1_000, 60_000),
        "Interval at which the offsets of each broker are read, in milliseconds.",
        _READS,
    )
    readings_bytes_max: int = option(
        4 << 30,
        "readingsBytesMax",
        Whole(64 << 20, 1 << 40),
        "Disk space for readings, in bytes; beyond that, the oldest are deleted, but never the newest of a broker set.",
        _READS,
    )
    #: Read by order/.
    lock_replay: LockReplayMode = option(
        "off",
        "lockReplay",
        OneOf(get_args(LockReplayMode)),
        "on: restore the queue locks of orderly clients at a new master, for groups declared orderly; off: only "
        "read the lock holders.",
        Fixed("it decides whether brokers are changed"),
    )

    @property
    def follows_brokers(self) -> bool:
        """True if something tells who is master."""
        return bool(self.controller_http_addr or self.namesrv_addr)


def _conflicts(config: OffsetManagerConfig) -> Iterable[tuple[str, str]]:
    if not config.http_admin_token_file:
        if config.client_token_file:
            yield "http_admin_token_file", "set as well, because clientTokenFile is: operators have their own token"
        elif not is_loopback(config.http_bind_address):
            why = "httpBindAddress is not a loopback address: anyone who reaches it could change offsets"
            yield "http_admin_token_file", f"set, because {why}"
    if ";" in config.advertised_address:
        yield "advertised_address", "one address"
    for name, patterns in (
        ("write_through_groups", config.write_through_groups),
        ("repair_groups", config.repair_groups),
    ):
        if "[" in patterns:
            yield name, "names or patterns with * and ?, without ["
    if config.controller_http_addr and config.namesrv_addr:
        yield "namesrv_addr", "blank, because controllerHttpAddr is set: controllers know their masters better"
    if not config.follows_brokers:
        for name, value in (("repair", config.repair), ("lockReplay", config.lock_replay)):
            if value in ("act", "on"):
                yield "namesrv_addr", f"set, or controllerHttpAddr, because {name} is {value}: they tell who is master"
    yield from etcd_conflicts(config, config.store, "store")


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
