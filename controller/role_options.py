"""RoleOptions: the options of a controller about who learns of a new master; Java has none of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from serving.config.callback_target import CallbackTarget, is_url
from serving.config.options import (
    NAMES_A_FILE,
    AddressList,
    Closed,
    FilePath,
    Fixed,
    Text,
    Whole,
    option,
)
from serving.config.server_config import ServerConfig

_PATH: Final = FilePath()


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleOptions(ServerConfig):
    """Options about changes of masters. Each comment names the reader."""

    #: Read by app/service.py and app/role_callbacks.py, the next two by the latter.
    on_role_change: str = option(
        "",
        "onRoleChange",
        CallbackTarget(),
        "Program with arguments, run by no shell, or URL that is called at each change of a set's master; blank "
        "for none.",
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
        "Broker sets for which onRoleChange is called, separated by ';'; one that ends with * names all that begin "
        "so; blank for every set.",
        Fixed("it decides of which masters the operator's program learns"),
    )
    #: Read by callbacks/service.py, as the next one.
    on_role_change_timeout_ms: int = option(
        10_000,
        "onRoleChangeTimeoutMs",
        Whole(100, 60_000),
        "How long one call of onRoleChange may take, in milliseconds; then the program is killed.",
        Closed("a shorter time can end every call before it has done its work"),
        at_once=True,
    )
    on_role_change_calls_max: int = option(
        8,
        "onRoleChangeCallsMax",
        Whole(1, 64),
        "Calls of onRoleChange at one time, each for another set; others wait.",
        Closed("each of them is a process of this machine, or a connection"),
    )
    #: Read by app/service.py.
    role_probe_topic: str = option(
        "",
        "roleProbeTopic",
        Text(),
        "Topic, made for it, into which the leader sends a small message again and again to measure how long sets "
        "take none; blank for no probe.",
        Fixed("it makes this server send messages"),
    )
    #: Read by role_probe/service.py, as the next one.
    role_probe_namesrv_addr: str = option(
        "",
        "roleProbeNamesrvAddr",
        AddressList(),
        "NameServers that the probe queries for the route of its topic, as clients do; blank for namesrvAddr.",
        Fixed("it decides where messages are sent"),
    )
    role_probe_interval_ms: int = option(
        200,
        "roleProbeIntervalMs",
        Whole(100, 10_000),
        "Time between two messages of the probe to one set, in milliseconds.",
        Closed("each message is stored by a broker"),
        at_once=True,
    )
    #: Read by app/endpoint_slices.py, as the next one.
    kubernetes_sets_path: str = option(
        "",
        "kubernetesSetsFile",
        _PATH,
        "File of broker sets that are Services of Kubernetes: the leader publishes where their brokers are as "
        "EndpointSlices; blank for none.",
        NAMES_A_FILE,
    )
    kubernetes_credentials_path: str = option(
        "/var/run/secrets/kubernetes.io/serviceaccount",
        "kubernetesCredentialsDir",
        FilePath(may_be_blank=False),
        "Folder with `token` and `ca.crt` of the service account; read at each use.",
        NAMES_A_FILE,
    )


def role_conflicts(options: RoleOptions, namesrv_addr: str) -> Iterator[tuple[str, str]]:
    """Yield what does not go together, and what it must be; `namesrv_addr` are the NameServers of queue scaling."""
    if options.on_role_change_token_path and not is_url(options.on_role_change):
        yield "on_role_change", "the URL that gets the token, because onRoleChangeTokenFile is set"
    if options.on_role_change_sets and not options.on_role_change:
        yield "on_role_change", "set as well, because onRoleChangeSets is"
    if options.role_probe_topic and not (options.role_probe_namesrv_addr or namesrv_addr):
        yield "role_probe_namesrv_addr", "set as well, or namesrvAddr, because roleProbeTopic is"
