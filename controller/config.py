"""ControllerConfig: every option of the controller with its unit, default and reader.

Answers to Java's `ControllerConfig`, whose property names and defaults are kept (docs/protocol/controller.md 8.1). What
any server has stands in `serving/config/server_config.py`. Where broker sets are kept is our own matter: DLedger and
jRaft mean nothing here.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from controller.failure_detection.detector import SILENCE_MS_MIN
from remoting.protocol.addresses import NamedAddress, named_address, split_address
from remoting.protocol.codes import CONTROLLER_REQUESTS
from serving.config.callback_target import CallbackTarget, is_url
from serving.config.etcd_options import STORE, EtcdConfig, etcd_conflicts
from serving.config.options import (
    ANY_VALUE,
    INT_MAX,
    KEEPS_OUT,
    LISTENS,
    NAMES_A_FILE,
    AddressList,
    Closed,
    FilePath,
    Fixed,
    Flag,
    NamedAddressList,
    OneOf,
    Text,
    Whole,
    Within,
    described,
    option,
    unused,
)
from serving.config.server_config import (
    CONFIG_BLACK_LIST,
    CONFIG_STORE_PATH,
    FRAME_BYTES_MAX,
    HTTP_PORT,
    LISTEN_PORT,
)
from serving.config.server_kind import ServerKind

StoreKind = Literal["embedded", "etcd"]

_FLAG: Final = Flag()
_TEXT: Final = Text()
_PATH: Final = FilePath()
_AT_LEAST_1: Final = Whole(1, INT_MAX)
_ANY_NUMBER: Final = Whole()
_PEERS: Final = Fixed("it can prevent the next start")


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerConfig(EtcdConfig):
    """All options."""

    config_store_path: str = described("~/controller/controller.properties", CONFIG_STORE_PATH)
    config_black_list: str = described("configBlackList;configStorePath", CONFIG_BLACK_LIST)
    listen_port: int = described(9878, LISTEN_PORT)
    http_port: int = described(9881, HTTP_PORT)
    #: The longest request (1006) has a body of 1 MiB, and a header has 256 KiB at most: handlers.py,
    #: remoting/protocol/frame.py.
    #: What is somewhat longer is still answered with its limit, and not disconnected.
    frame_bytes_max: int = described(2 * 1024 * 1024, FRAME_BYTES_MAX)

    # ControllerConfig

    controller_store_path: str = option(
        "~/controller/store",
        "controllerStorePath",
        FilePath(may_be_blank=False),
        "Folder of the embedded store.",
        NAMES_A_FILE,
    )
    enable_elect_unclean_master: bool = option(
        False,
        "enableElectUncleanMaster",
        _FLAG,
        "A broker outside the SyncStateSet may become master: at its own request if no broker in sync can be alive, "
        "or if an operator elects it, even over a healthy master. Messages are lost.",
        Closed("it decides whether messages are lost or a set stays without a master"),
        at_once=True,
    )
    notify_broker_role_changed: bool = option(
        True,
        "notifyBrokerRoleChanged",
        _FLAG,
        "Notify brokers of a new master at once; otherwise they learn of it within 5 s.",
        Within(OneOf(("true",)), "without it brokers learn of a new master 5 s later"),
        at_once=True,
    )
    controller_request_thread_pool_queue_capacity: int = option(
        50000,
        "controllerRequestThreadPoolQueueCapacity",
        _AT_LEAST_1,
        "Limit of waiting requests; beyond that, they are answered SYSTEM_BUSY.",
        KEEPS_OUT,
    )
    #: Threads of the Java server.
    controller_thread_pool_nums: int = unused(16, "controllerThreadPoolNums", _ANY_NUMBER, "Threads for requests.")
    #: Sets without master are looked at all the time here.
    scan_inactive_master_interval_ms: int = unused(
        5000, "scanInactiveMasterInterval", _ANY_NUMBER, "Interval between checks for failed masters."
    )
    #: suspectTimeoutMs decides here.
    scan_not_active_broker_interval_ms: int = unused(
        5000, "scanNotActiveBrokerInterval", _ANY_NUMBER, "Interval between scans for silent brokers."
    )
    #: An election that ends without master is not repeated at once here.
    elect_master_max_retry_count: int = unused(
        3, "electMasterMaxRetryCount", _ANY_NUMBER, "Number of retries of an election."
    )
    #: Reads are never stale here.
    process_read_event: bool = option(
        False,
        "processReadEvent",
        _FLAG,
        "Send reads through the log.",
        ANY_VALUE,
        has_effect=False,
        also=("isProcessReadEvent",),
    )
    #: DLedger and jRaft: the store is another one here.
    controller_type: str = option("DLedger", "controllerType", _TEXT, "DLedger or jRaft.", _PEERS, has_effect=False)
    controller_dleger_group: str = unused("", "controllerDLegerGroup", _TEXT, "DLedger group.")
    #: The port of the own entry is listenPort, as in Java.
    controller_dleger_peers: str = option(
        "",
        "controllerDLegerPeers",
        _TEXT,
        "DLedger peers as ID-HOST:PORT, separated by ';'; the port of the own entry is the default listenPort.",
        _PEERS,
    )
    controller_dleger_self_id: str = option(
        "", "controllerDLegerSelfId", _TEXT, "Id of this controller in controllerDLegerPeers.", _PEERS
    )
    mapped_file_size_bytes: int = unused(
        1024 * 1024 * 1024, "mappedFileSize", _ANY_NUMBER, "Size of a DLedger log file, in bytes."
    )
    jraft_election_timeout_ms: int = unused(1000, "jRaftElectionTimeoutMs", _ANY_NUMBER, "Election timeout of jRaft.")
    jraft_scan_wait_timeout_ms: int = unused(
        1000, "jRaftScanWaitTimeoutMs", _ANY_NUMBER, "Time that jRaft waits before a scan."
    )
    jraft_snapshot_interval_secs: int = unused(
        3600, "jRaftSnapshotIntervalSecs", _ANY_NUMBER, "Interval between snapshots of jRaft."
    )
    jraft_group_id: str = unused("jRaft-Controller", "jRaftGroupId", _TEXT, "jRaft group.")
    jraft_server_id: str = unused("localhost:9880", "jRaftServerId", _TEXT, "This peer in jRaft.")
    jraft_init_conf: str = option(
        "localhost:9880,localhost:9881,localhost:9882",
        "jRaftInitConf",
        _TEXT,
        "jRaft peers.",
        _PEERS,
        has_effect=False,
    )
    jraft_controller_rpc_addr: str = unused(
        "localhost:9770,localhost:9771,localhost:9772",
        "jRaftControllerRPCAddr",
        _TEXT,
        "RPC addresses of the jRaft peers.",
    )
    #: Metrics are served at httpPort.
    metrics_exporter_type: str = unused("DISABLE", "metricsExporterType", _TEXT, "Exporter of metrics.")
    metrics_grpc_exporter_target: str = unused("", "metricsGrpcExporterTarget", _TEXT, "Target of the gRPC exporter.")
    metrics_grpc_exporter_header: str = unused("", "metricsGrpcExporterHeader", _TEXT, "Header of the gRPC exporter.")
    metric_grpc_exporter_timeout_ms: int = unused(
        3000, "metricGrpcExporterTimeOutInMills", _ANY_NUMBER, "Timeout of the gRPC exporter."
    )
    metric_grpc_exporter_interval_ms: int = unused(
        60000, "metricGrpcExporterIntervalInMills", _ANY_NUMBER, "Interval of the gRPC exporter."
    )
    metric_logging_exporter_interval_ms: int = unused(
        10000, "metricLoggingExporterIntervalInMills", _ANY_NUMBER, "Interval of metrics in the log."
    )
    metrics_prom_exporter_port: int = unused(5557, "metricsPromExporterPort", _ANY_NUMBER, "Port for Prometheus.")
    metrics_prom_exporter_host: str = unused("", "metricsPromExporterHost", _TEXT, "Address for Prometheus.")
    metrics_label: str = unused("", "metricsLabel", _TEXT, "Labels of all metrics.")
    metrics_in_delta: bool = unused(False, "metricsInDelta", _FLAG, "Export differences.")

    # Ours

    #: A pause of 2,000 ms, up to 1,000 after the last heartbeat, must not move a master, which has
    #: 300 ms for the answer to a probe. A slave of a frozen master notices its own election only when its read ends,
    #: each second after the freeze: elected within 3 s, it serves a second earlier.
    suspect_timeout_ms: int = option(
        2800,
        "suspectTimeoutMs",
        Whole(SILENCE_MS_MIN, 600_000),
        "Silence after which a broker is probed, in milliseconds; it has failed if it does not answer the probe.",
        Closed("longer leaves failed masters in place, shorter replaces living ones"),
        at_once=True,
    )
    adopt_unknown_brokers: bool = option(
        False,
        "adoptUnknownBrokers",
        _FLAG,
        "Accept brokers with unknown ids, and keep the ids, after the store was lost.",
        Closed("it decides which brokers belong to a set, and so whose log may lead"),
        at_once=True,
    )
    advertised_address: str = option(
        "",
        "advertisedAddress",
        AddressList(),
        "Address host:port at which brokers reach this controller; blank: bindAddress and listenPort, or the "
        "address of this machine.",
        Fixed("it sends brokers to other servers"),
    )
    analytics_dir: str = option(
        "",
        "analyticsDir",
        _PATH,
        "Output folder of rmq-analytics, whose newest results become metrics and appear in the console; blank: off.",
        NAMES_A_FILE,
    )
    broker_networks: str = option(
        "",
        "brokerNetworks",
        NamedAddressList(),
        "Where brokers may be, separated by ';': IP addresses, networks (10.0.0.0/16) or host names, with or "
        "without :port; blank: anywhere. This controller connects nowhere else, except to NameServers.",
        Fixed("it decides where this controller connects to"),
    )
    controller_group: str = option(
        "rocketmq", "controllerGroup", Text(may_be_blank=False), "Name shared by the controllers of one store.", STORE
    )
    controller_id: str = option("", "controllerId", _TEXT, "Name of this controller; blank: its address.", STORE)
    namesrv_addr: str = option(
        "",
        "namesrvAddr",
        AddressList(),
        "All NameServers, at which queue scaling looks up topics; blank: queue scaling is off.",
        Fixed("it decides which brokers are changed"),
    )
    scaling_operations_max: int = option(
        20,
        "scalingOperationsMax",
        Whole(1, 1_000),
        "Limit of topics resized at the same time; others wait.",
        Closed("each of them sends requests to brokers"),
        at_once=True,
    )
    scaling_interval_ms: int = option(
        15_000,
        "scalingIntervalMs",
        Whole(5_000, 120_000),
        "Interval at which the autoscaler checks each topic with a policy, in milliseconds.",
        Closed("each look sends requests to brokers"),
        at_once=True,
    )
    scaling_policy_file: str = option(
        "",
        "scalingPolicyFile",
        _PATH,
        "TOML file with the autoscaler's policies, read again when it changes; blank: set over HTTP.",
        NAMES_A_FILE,
    )
    role_check_port: int = option(
        0,
        "roleCheckPort",
        Whole(0, 65535),
        "Port at bindAddress where proxies and agents check which broker of a set is master; 0: off.",
        LISTENS,
    )
    controller_store: StoreKind = option(
        "embedded",
        "controllerStore",
        OneOf(get_args(StoreKind)),
        "Where broker sets are stored: embedded (a file, one controller) or etcd (several controllers).",
        STORE,
    )

    # Who learns of a new master: Java has none of these

    on_role_change: str = option(
        "",
        "onRoleChange",
        CallbackTarget(),
        "Program with arguments (no shell runs it) or URL called at each change of a set's master; blank: off.",
        Fixed("it names a program that this server runs, or where it sends requests"),
    )
    on_role_change_token_path: str = option(
        "",
        "onRoleChangeTokenFile",
        _PATH,
        "File whose first line is sent to the URL of onRoleChange as a bearer token; read at each call.",
        NAMES_A_FILE,
    )
    on_role_change_sets: str = option(
        "",
        "onRoleChangeSets",
        Text(),
        "Broker sets for which onRoleChange is called, separated by ';'; names may end with *; blank: all sets.",
        Fixed("it decides which masters the operator's program learns of"),
    )
    on_role_change_timeout_ms: int = option(
        10_000,
        "onRoleChangeTimeoutMs",
        Whole(100, 60_000),
        "Limit of one call of onRoleChange, in milliseconds; then the program is killed.",
        Closed("a shorter time can end every call before it has done its work"),
        at_once=True,
    )
    on_role_change_calls_max: int = option(
        8,
        "onRoleChangeCallsMax",
        Whole(1, 64),
        "Limit of concurrent calls of onRoleChange, each for a different set; others wait.",
        Closed("each of them is a process of this machine, or a connection"),
    )
    role_probe_topic: str = option(
        "",
        "roleProbeTopic",
        Text(),
        "Topic, for this purpose only, to which the leader keeps sending small messages to measure how long sets "
        "accept none; blank: off.",
        Fixed("it makes this server send messages"),
    )
    role_probe_namesrv_addr: str = option(
        "",
        "roleProbeNamesrvAddr",
        AddressList(),
        "NameServers that the probe asks for the route of its topic, as clients do; blank: namesrvAddr.",
        Fixed("it decides where messages are sent"),
    )
    role_probe_interval_ms: int = option(
        200,
        "roleProbeIntervalMs",
        Whole(100, 10_000),
        "Interval between two probe messages to a set, in milliseconds.",
        Closed("each message is stored by a broker"),
        at_once=True,
    )
    kubernetes_sets_path: str = option(
        "",
        "kubernetesSetsFile",
        _PATH,
        "File with the broker sets for which the leader publishes EndpointSlices; blank: off.",
        NAMES_A_FILE,
    )
    kubernetes_credentials_path: str = option(
        "/var/run/secrets/kubernetes.io/serviceaccount",
        "kubernetesCredentialsDir",
        FilePath(may_be_blank=False),
        "Folder with `token` and `ca.crt` of the service account; read at each use.",
        NAMES_A_FILE,
    )


def permitted_peers(config: ControllerConfig) -> list[NamedAddress]:
    """Return to whom a controller connects as a client of RocketMQ; empty for anybody."""
    if not config.broker_networks:
        return []
    texts = f"{config.broker_networks};{config.namesrv_addr};{config.role_probe_namesrv_addr}"
    return [found for each in texts.split(";") if (found := named_address(each)) is not None]


def _role_conflicts(options: ControllerConfig) -> Iterator[tuple[str, str]]:
    if options.on_role_change_token_path and not is_url(options.on_role_change):
        yield "on_role_change", "the URL that gets the token, because onRoleChangeTokenFile is set"
    if options.on_role_change_sets and not options.on_role_change:
        yield "on_role_change", "set as well, because onRoleChangeSets is"
    if options.role_probe_topic and not (options.role_probe_namesrv_addr or options.namesrv_addr):
        yield "role_probe_namesrv_addr", "set as well, or namesrvAddr, because roleProbeTopic is"


def _conflicts(config: ControllerConfig) -> Iterable[tuple[str, str]]:
    yield from etcd_conflicts(config, config.controller_store, "controllerStore")
    yield from _role_conflicts(config)
    if ";" in config.advertised_address:
        yield "advertised_address", "one address"
    others = {config.listen_port: "listenPort", config.http_port: "httpPort"}
    if config.role_check_port and config.role_check_port in others:
        yield "role_check_port", f"another port than {others[config.role_check_port]}"
    if config.controller_store == "embedded":
        named, peers = _java_peers(config)
        if len([each for each in peers if each.strip()]) > 1:
            # Brokers would follow whichever they reach first: several masters in one set.
            yield named, "one peer, unless controllerStore is etcd: with the embedded store each would lead alone"
            return
    java_port = _java_port(config.controller_dleger_peers, config.controller_dleger_self_id, config.controller_type)
    if java_port is not None and config.listen_port not in {0, java_port}:
        yield "controller_dleger_peers", f"blank, or have {config.listen_port} as the port of this controller"


def _java_peers(config: ControllerConfig) -> tuple[str, list[str]]:
    """Return which property of the Java controller names the controllers, and those."""
    if config.controller_type.lower() == "jraft":
        return "jraft_init_conf", config.jraft_init_conf.split(",")
    return "controller_dleger_peers", config.controller_dleger_peers.split(";")


def _implied(given: Mapping[str, Any]) -> Mapping[str, Any]:
    names = ("controller_dleger_peers", "controller_dleger_self_id", "controller_type")
    port = _java_port(*(given.get(name, "") for name in names))
    return {} if port is None else {"listen_port": port}


def _java_port(peers: str, self_id: str, controller_type: str) -> int | None:
    """Return the port on which a Java controller listens: that of its own entry among the peers of DLedger."""
    entries = dict(entry.strip().partition("-")[::2] for entry in peers.split(";") if entry.strip())
    own = next(iter(entries.values())) if len(entries) == 1 else entries.get(self_id, "")
    address = None if controller_type.lower() == "jraft" else split_address(own)
    return None if address is None else address[1]


CONTROLLER: Final = ServerKind(
    name="controller",
    program="rmq-controller",
    variable_prefix="RMQ_CONTROLLER_",
    metric_prefix="rocketmq_controller_",
    id_key="controller_id",
    id_meaning="Name of this controller, as `/v1/controllers` shows it: controllerId, or its address.",
    requests=CONTROLLER_REQUESTS,
    config_class=ControllerConfig,
    conflicts=_conflicts,
    implied=_implied,
)
