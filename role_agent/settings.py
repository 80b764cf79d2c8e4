"""The file of an agent: TOML, read once at the start."""

import re
import tomllib
from collections.abc import Callable
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_interface
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from role_agent.network.frames import Ip
from role_agent.network.kernel import RoleAddress

ADDRESSES_MAX: Final = 8
CONTROLLERS_MAX: Final = 16
PEERS_MAX: Final = 16
#: Shorter leases lapse when one packet is lost, and the kernel counts in seconds.
LEASE_MS: Final = range(2000, 30_001)
INTERVAL_MS: Final = range(50, 1001)
FILE_BYTES_MAX: Final = 65_536

_DURATION: Final = re.compile(r"([0-9]{1,5})(ms|s)")
_BRACKETED: Final = re.compile(r"\[([^\]]*)\]")
_NAME: Final = re.compile(r"[^\s/]{1,127}")
_INTERFACE: Final = re.compile(r"[^\s/]{1,15}")
_PORTS: Final = range(1, 65_536)
_BROKER_IDS: Final = range(1, 1_000_000_000)

Value = TypeVar("Value")


class InvalidSettings(Exception):
    """A file cannot be used; the text names the file, the property, and what is allowed."""


class HostPort(msgspec.Struct, frozen=True):
    ip: Ip
    port: int

    def __str__(self) -> str:
        return f"[{self.ip}]:{self.port}" if isinstance(self.ip, IPv6Address) else f"{self.ip}:{self.port}"


class AgentSettings(msgspec.Struct, frozen=True, kw_only=True):
    set_name: str
    broker_id: int
    #: The addresses that move, with the length of their network.
    addresses: tuple[RoleAddress, ...]
    interface: str
    #: Role check ports of all controllers.
    controllers: tuple[HostPort, ...]
    #: Where this agent answers the others; its address is also that from which it queries them.
    listen: HostPort
    #: Agents of all other hosts that may have the addresses.
    peers: tuple[HostPort, ...]
    #: `haListenPort` of the broker, to which its slaves are connected.
    ha_port: int | None = None
    lease_ms: int = 3000
    interval_ms: int = 200


class _AgentFile(msgspec.Struct, forbid_unknown_fields=True, rename="camel", kw_only=True):
    set_name: str = msgspec.field(name="set")
    broker_id: int
    addresses: list[str]
    interface: str
    controllers: list[str]
    listen: str
    peers: list[str]
    ha_port: int | None = None
    lease: str = "3s"
    interval: str = "200ms"


def read_settings(path: Path) -> AgentSettings:
    """Return what the file says; raises InvalidSettings."""
    try:
        with path.open("rb") as file:
            text = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise InvalidSettings(f"{path} cannot be read: {error.strerror}") from None
    if len(text) > FILE_BYTES_MAX:
        raise InvalidSettings(f"{path} has more than {FILE_BYTES_MAX} bytes: it is no file of an agent")
    try:
        return settings_of(text.decode())
    except UnicodeDecodeError:
        raise InvalidSettings(f"{path} is no UTF-8 text") from None
    except ValueError as error:
        raise InvalidSettings(f"{path}: {error}") from None


def settings_of(text: str) -> AgentSettings:
    """Return what a text says; raises ValueError with the property and what is allowed."""
    file = msgspec.convert(tomllib.loads(text), _AgentFile)
    settings = AgentSettings(
        set_name=_matched(
            "set", file.set_name, _NAME, "the brokerName: 1 to 127 characters without blanks and slashes"
        ),
        broker_id=file.broker_id,
        addresses=_listed("addresses", file.addresses, ADDRESSES_MAX, _role_address),
        interface=_matched("interface", file.interface, _INTERFACE, "the name of a network interface, such as eth0"),
        controllers=_listed("controllers", file.controllers, CONTROLLERS_MAX, _host_port),
        listen=_host_port("listen", file.listen),
        peers=_listed("peers", file.peers, PEERS_MAX, _host_port),
        ha_port=_ha_port(file.ha_port),
        lease_ms=_duration_ms("lease", file.lease, LEASE_MS, "2s to 30s"),
        interval_ms=_duration_ms("interval", file.interval, INTERVAL_MS, "50ms to 1s"),
    )
    _check_together(settings)
    return settings


def _check_together(settings: AgentSettings) -> None:
    if settings.broker_id not in _BROKER_IDS:
        raise ValueError(
            f"brokerId {settings.broker_id} must be the id that the controller gave the broker, 1 or higher: "
            "see `mqadmin getSyncStateSet`"
        )
    for key, count in (("addresses", settings.addresses), ("controllers", settings.controllers)):
        if not count:
            raise ValueError(f"{key} must have at least one entry")
    if settings.listen in settings.peers:
        raise ValueError(f"peers must not have {settings.listen}, which is this agent's own `listen`")
    hosts = {settings.listen.ip, *(each.ip for each in (*settings.controllers, *settings.peers))}
    for address in settings.addresses:
        if address.ip in hosts:
            raise ValueError(f"addresses: {address.ip} moves, so that no controller or agent can be reached at it")
    if settings.lease_ms < 4 * settings.interval_ms:
        raise ValueError("lease must be at least four times interval: one lost answer must not release the address")


def _matched(key: str, value: str, pattern: re.Pattern[str], allowed: str) -> str:
    if not pattern.fullmatch(value):
        raise ValueError(f"{key} must be {allowed}; it is {value!r}")
    return value


def _listed(key: str, texts: list[str], most: int, read: Callable[[str, str], Value]) -> tuple[Value, ...]:
    if len(texts) > most:
        raise ValueError(f"{key} has {len(texts)} entries; {most} are allowed")
    values = tuple(read(key, text) for text in texts)
    if len(set(values)) < len(values):
        raise ValueError(f"{key} has an entry twice")
    return values


def _role_address(key: str, text: str) -> RoleAddress:
    try:
        address = ip_interface(text)
    except ValueError:
        address = None
    if address is None or "/" not in text:
        raise ValueError(f"{key}: {text!r} must be an IP address with the length of its network, such as 10.9.0.5/24")
    if address.is_loopback or address.is_multicast or address.is_unspecified or address.is_link_local:
        raise ValueError(f"{key}: {text!r} must be an address that clients reach over the network")
    return address


def _host_port(key: str, text: str) -> HostPort:
    host, _, port = text.rpartition(":")
    bracketed = _BRACKETED.fullmatch(host)
    ip: Ip | None = None
    with suppress(ValueError):
        ip = IPv6Address(bracketed[1]) if bracketed else IPv4Address(host)
    if ip is None or not port.isdecimal() or int(port) not in _PORTS:
        raise ValueError(f"{key}: {text!r} must be an IP address with a port, such as 10.0.0.11:9879")
    if ip.is_unspecified or ip.is_multicast:
        raise ValueError(f"{key}: {text!r} must be the address of one host")
    return HostPort(ip, int(port))


def _ha_port(port: int | None) -> int | None:
    if port is not None and port not in _PORTS:
        raise ValueError(f"haPort must be the `haListenPort` of the broker, 1 to 65535; it is {port}")
    return port


def _duration_ms(key: str, text: str, allowed: range, words: str) -> int:
    found = _DURATION.fullmatch(text)
    value = int(found[1]) * (1000 if found[2] == "s" else 1) if found else -1
    if value not in allowed:
        raise ValueError(f"{key} must be {words}; it is {text!r}")
    return value
