"""The text of an HAProxy configuration, for HAProxy 2.4 and later, and its rules for nftables. Pure.

How it works: each server starts in maintenance, and only `up ready` of the leading controller lets clients to it, so a
fresh HAProxy sends nobody to a slave. `down` ends all sessions at once. An answer in doubt, or none, changes nothing.
While no server is up, a server that refuses every connection holds new ones: HAProxy waits CONNECT_MS after each
refusal and tries again, until a master is up or HOLD_MS are over.

On Kubernetes servers are names of a Service that HAProxy looks up all the time (docs/role-addresses-kubernetes.md).
DNS decides only where a broker is, never whether it is served, and its silence changes nothing.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator
from ipaddress import IPv6Address, ip_address
from typing import Final

import msgspec

from remoting.protocol.addresses import split_address
from rmq.haproxy_config.frontends import Frontends, MasterFrontend, SlaveFrontend

#: HAProxy waits so long for a connection to a broker, and after each refusal.
CONNECT_MS: Final = 100
#: New connections wait so long for a master.
HOLD_MS: Final = 10_000
#: A broker is checked so often, unless the checks of all are more than this many a second.
CHECK_MS: Final = 100
CHECKS_A_SECOND_MAX: Final = 1_000
#: Characters that HAProxy does not allow in names.
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_.:-]")
_DIGEST_CHARS: Final = 8
#: Sections that look names up; many names of brokers must not delay those of controllers.
_BROKERS: Final = "brokers"
_CONTROLLERS: Final = "controllers"
#: Nobody listens there: connections are refused at once.
_NOWHERE: Final = "127.0.0.1:1"
#: How often a name is looked up, unless those of all brokers are more than this many a second; controllers count apart.
LOOKUP_MS: Final = 1_000
LOOKUPS_A_SECOND_MAX: Final = 100
#: Connections beyond those to sets: checks of controllers must never wait for clients.
_OTHER_CONNECTIONS: Final = 2_000
#: Of them those that ask whether it runs.
_HEALTH_CONNECTIONS: Final = 100
#: HAProxy's longest time is 24 days: an answer without address, or none, takes no address away.
_FOR_EVER: Final = "24d"
_TABLE: Final = "table inet rocketmq_proxy_sessions"
#: A reset that carries data is not read: the last answer of a session keeps its end. An end without data has 40 or,
#: with timestamps, 52 bytes over IPv4, and 20 more over IPv6. Data of 20 bytes or less are not seen: frames of RocketMQ
#: are longer.
_RESET: Final = "tcp flags & (fin | rst) == fin tcp flags set rst | ack"
_BYTES_WITHOUT_DATA: Final = {"ip": 60, "ip6": 80}


class ProxyOptions(msgspec.Struct, frozen=True, kw_only=True):
    #: `host:port` of the role check port of each controller.
    role_checks: tuple[str, ...]
    #: Port at 127.0.0.1 at which HAProxy sends its own checks on to the controller that leads.
    local_port: int = 19_879
    #: Brokers learn the addresses of clients by the PROXY protocol; 5.1.4 and later take it.
    sends_proxy_header: bool = False
    #: HAProxies that run with this configuration; together they make CHECKS_A_SECOND_MAX checks a second at most.
    instances: int = 1
    #: Folder of the runtime socket and of the server states.
    run_folder: str = "/run/haproxy"
    #: Servers are names that are looked up all the time, instead of once at the start.
    follows_dns: bool = False
    #: `host:port` of DNS servers; empty for those of /etc/resolv.conf.
    nameservers: tuple[str, ...] = ()
    #: Port at which it answers over HTTP whether it runs, and at /started whether a controller leads; None for none.
    health_port: int | None = None
    #: Connections to one set at one time; None: HAProxy computes its limit from the files that it may open.
    connections_max: int | None = None


def configuration(frontends: Frontends, options: ProxyOptions, rules_digest: str) -> str:
    checked = sum(len(each.brokers) for each in frontends.masters)
    interval_ms = check_interval_ms(checked, options.instances)
    sections = (
        [
            f"# Written by rmq haproxy-config from role addresses {rules_digest}.",
            "# Changes go into the rules or the options of that command: the next run overwrites this file.",
        ],
        _global(options, len(frontends.masters) + len(frontends.slaves)),
        _defaults(options),
        *([_resolvers(_BROKERS, options, checked)] if options.follows_dns else []),
        *([_resolvers(_CONTROLLERS, options, len(options.role_checks))] if options.follows_dns else []),
        *([_health(options.health_port)] if options.health_port is not None else []),
        _role_checks(options),
        *(_master(each, options, interval_ms) for each in frontends.masters),
        *(_slave(each, options) for each in frontends.slaves),
    )
    return "\n\n".join("\n".join(section) for section in sections) + "\n"


def check_interval_ms(servers: int, instances: int) -> int:
    return max(CHECK_MS, -(-servers * instances * 1_000 // CHECKS_A_SECOND_MAX))


def lookup_interval_ms(names: int) -> int:
    return max(LOOKUP_MS, -(-names * 1_000 // LOOKUPS_A_SECOND_MAX))


def _global(options: ProxyOptions, sections: int) -> list[str]:
    limit = options.connections_max
    return [
        "global",
        "    log stderr format short local0 notice",
        f"    stats socket {_quoted(options.run_folder + '/admin.sock')} mode 600 level admin expose-fd listeners",
        f"    server-state-file {_quoted(options.run_folder + '/state')}",
        "    # After a reload the former process checks nothing any more: its sessions must not outlive a failover.",
        "    hard-stop-after 1s",
        *([f"    maxconn {sections * limit + _OTHER_CONNECTIONS}"] if limit is not None else []),
    ]


def _defaults(options: ProxyOptions) -> list[str]:
    return [
        "defaults",
        "    mode tcp",
        "    log global",
        f"    timeout connect {CONNECT_MS}ms",
        "    # Clients and brokers close idle connections after 120 s.",
        "    timeout client 5m",
        "    timeout server 5m",
        "    timeout check 500ms",
        "    option clitcpka",
        "    option srvtcpka",
        "    # While no broker is up, a new connection tries one after the other until one is.",
        f"    retries {HOLD_MS // CONNECT_MS}",
        "    option redispatch 1",
        "    # With the rules of --nft a client acknowledges no end of its session: HAProxy must not wait for that.",
        "    timeout client-fin 1s",
        "    option nolinger",
        "    load-server-state-from-file global",
        *(_keepalives() if options.follows_dns else ()),
    ]


def _keepalives() -> list[str]:
    """Return what ends idle sessions to an address that a pod has left, where nobody resets them.

    Sessions with a request under way end by the time limit of the client: `tcp-ut` is not applied to names (2.6.12).
    """
    return [
        "    srvtcpka-idle 2s",
        "    srvtcpka-intvl 1s",
        "    srvtcpka-cnt 3",
    ]


def _resolvers(name: str, options: ProxyOptions, names: int) -> list[str]:
    interval_ms = lookup_interval_ms(names)
    return [
        f"resolvers {name}",
        *(f"    nameserver dns_{i} {address}" for i, address in enumerate(options.nameservers, 1)),
        *([] if options.nameservers else ["    parse-resolv-conf"]),
        "    accepted_payload_size 8192",
        "    resolve_retries 3",
        f"    timeout resolve {interval_ms}ms",
        "    timeout retry 1s",
        f"    hold valid {interval_ms}ms",
        "    # A name that DNS does not know any more, or no answer, leaves the address as it was.",
        *(f"    hold {status} {_FOR_EVER}" for status in ("nx", "timeout", "refused", "other")),
        "    # Another address counts at once.",
        "    hold obsolete 0s",
    ]


def _health(port: int) -> list[str]:
    return [
        "frontend health",
        "    mode http",
        f"    bind :{port}",
        f"    maxconn {_HEALTH_CONNECTIONS}",
        "    timeout client 5s",
        "    timeout http-request 2s",
        "    # A fresh HAProxy serves nobody before a controller answers; one that runs goes on without.",
        "    http-request return status 503 if { path /started } { nbsrv(role_checks) eq 0 }",
        "    http-request return status 200",
    ]


def _lookup(options: ProxyOptions, resolvers: str) -> str:
    """Return how names of servers become addresses: all the time by a section of resolvers, or once at the start."""
    return f"init-addr none resolvers {resolvers} resolve-prefer ipv4" if options.follows_dns else "init-addr libc,none"


def _role_checks(options: ProxyOptions) -> list[str]:
    """Return the section that sends checks to the controller that leads; without one they fail and change nothing."""
    return [
        "listen role_checks",
        f"    bind 127.0.0.1:{options.local_port}",
        "    balance first",
        "    retries 0",
        "    timeout client 1s",
        "    timeout server 1s",
        "    option tcp-check",
        "    tcp-check connect",
        '    tcp-check send "leader\\n"',
        '    tcp-check expect string "up "',
        "    default-server check inter 200ms fall 2 rise 1 on-marked-down shutdown-sessions",
        f"    default-server {_lookup(options, _CONTROLLERS)}",
        *(f"    server controller_{i} {address}" for i, address in enumerate(options.role_checks, 1)),
    ]


def _master(frontend: MasterFrontend, options: ProxyOptions, interval_ms: int) -> list[str]:
    name = frontend.broker_name
    return [
        *_listen(name, "set", frontend.addresses),
        *_connections_max(options),
        "    balance first",
        f"    default-server disabled on-marked-down shutdown-sessions {_lookup(options, _BROKERS)}",
        f"    default-server agent-check agent-addr 127.0.0.1 agent-port {options.local_port}",
        f"    default-server agent-inter {interval_ms}ms",
        *(
            f"    server broker_{broker_id} {address}{_proxy_header(options)} "
            f"agent-send {_quoted(f'{name}/{broker_id}', end=chr(10))}"
            for broker_id, address in frontend.brokers.items()
        ),
        f"    server none {_NOWHERE} enabled no-agent-check backup",
    ]


def _slave(frontend: SlaveFrontend, options: ProxyOptions) -> list[str]:
    found = f"{_proxy_header(options)} {_lookup(options, _BROKERS)}"
    return [
        *_listen(frontend.broker_name, f"slave_{frontend.broker_id}_of", frontend.addresses),
        *_connections_max(options),
        "    retries 3",
        f"    server broker_{frontend.broker_id} {frontend.broker}{found}",
    ]


def _listen(broker_name: str, kind: str, addresses: Iterable[str]) -> Iterator[str]:
    yield f"# {broker_name}"
    yield f"listen {kind}_{_section_name(broker_name)}"
    for address in addresses:
        yield f"    bind {address}"


def _connections_max(options: ProxyOptions) -> list[str]:
    return [f"    maxconn {options.connections_max}"] if options.connections_max is not None else []


def _proxy_header(options: ProxyOptions) -> str:
    return " send-proxy-v2" if options.sends_proxy_header else ""


def _section_name(broker_name: str) -> str:
    """Return a name that HAProxy takes: names that differ in other characters get digests."""
    readable = _NOT_IN_NAMES.sub("_", broker_name)
    if readable == broker_name:
        return broker_name
    return f"{readable}:{hashlib.sha256(broker_name.encode()).hexdigest()[:_DIGEST_CHARS]}"


def _quoted(text: str, end: str = "") -> str:
    """Return a word of the configuration in double quotes, in which HAProxy replaces variables and escapes."""
    escaped = re.sub(r'(["\\$])', r"\\\1", text)
    return f'"{escaped}{end}"'.replace("\n", "\\n")


def reset_rules(frontends: Frontends) -> str:
    """Return a script for `nft -f -` by which sessions at the role addresses of this host end with a reset.

    HAProxy ends a session of a client in order (FIN), also with `option nolinger`. A Java client 4.9 does not notice
    that: it lets a send wait for its timeout of 3 s, and a pull for 30 s (its NettyRemotingClient handles exceptions of
    a channel, but not its end). After a reset it sends again at once.
    """
    of_masters = (address for each in frontends.masters for address in each.addresses)
    of_slaves = (address for each in frontends.slaves for address in each.addresses)
    chain = [
        "  chain session_ends {",
        "    type filter hook output priority mangle; policy accept;",
        *_rules((*of_masters, *of_slaves)),
        "  }",
    ]
    return "\n".join([_TABLE, f"delete {_TABLE}", f"{_TABLE} {{", *chain, "}"]) + "\n"


def _rules(addresses: Iterable[str]) -> Iterator[str]:
    for address in addresses:
        found = split_address(address)
        assert found is not None, "rules have addresses with ports only"
        ip, port = ip_address(found[0]), found[1]
        family = "ip6" if isinstance(ip, IPv6Address) else "ip"
        yield f"    {family} saddr {ip} tcp sport {port} meta length <= {_BYTES_WITHOUT_DATA[family]} {_RESET}"
