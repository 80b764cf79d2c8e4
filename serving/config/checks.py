"""What is wrong with a configuration, in sentences that an operator can act on.

Java drops values it cannot convert and starts with the rest; here a start ends, and a request is refused as a whole.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from serving.config.options import Fixed, Option, OptionValue, text_of
from serving.config.server_config import Config, ServerConfig
from serving.config.server_kind import ServerKind

#: Longest part of a bad value that is repeated in a sentence.
_SHOWN_CHARS_MAX: Final = 80

#: Registrations need no password: without this list, keys would sign requests to any registered address.
_FOR_WHOM: Final = (
    "set as well, because keys are set: addresses or networks of the brokers whose requests are signed, such as "
    "10.0.0.0/16;broker-a.example.org:10911 (or verify brokers: tls.enable=true, tls.client.authServer=true, "
    "tls.client.trustCertPath and tls.test.mode.enable=false)"
)

_ANY_ADDRESS: Final = frozenset({"0.0.0.0", "::", "[::]"})


class BadOption(msgspec.Struct, frozen=True):
    key: str
    #: As it may be shown: masked if it is a secret.
    value: str
    #: Where it was given: `line 3 of /etc/rocketmq/namesrv.conf`, `option --listen-port`.
    source: str
    #: What it must be.
    allowed: str

    def __str__(self) -> str:
        given = f"not {shortened(self.value)!r}" if self.value else "and is blank"
        return f"{self.source}: {self.key} must be {self.allowed}, {given}"


class ConfigError(Exception):
    """The server cannot start with the configuration it was given; the text has one line for each bad value."""

    def __init__(self, bad: tuple[BadOption, ...]) -> None:
        self.bad = bad
        super().__init__("\n".join(map(str, bad)))


def bad_option(option: Option, value: OptionValue, source: str, allowed: str = "") -> BadOption:
    """Return what is wrong with the value of an option; `allowed` defaults to what its kind allows."""
    return BadOption(option.key, option.shown(text_of(value)), source, allowed or option.kind.allowed)


def read_values(
    kind: ServerKind[Config], given: Iterable[tuple[str, str, str]]
) -> tuple[dict[str, Any], list[BadOption]]:
    """Return the values of fields that are given as texts from sources, the last of each, and those that are wrong."""
    values: dict[str, Any] = {}
    bad: list[BadOption] = []
    for name, text, source in given:
        option = kind.options[name]
        value = option.kind.value_of(text)
        if value is None:
            bad.append(bad_option(option, text.strip(), source))
        else:
            values[name] = value
    return values, bad


def conflicts(kind: ServerKind[Config], config: Config) -> Iterator[tuple[str, str]]:
    """Yield each field whose value does not go with that of another one, and what it must be."""
    yield from _common_conflicts(kind, config)
    yield from kind.conflicts(config)


def _common_conflicts(kind: ServerKind[Config], config: ServerConfig) -> Iterator[tuple[str, str]]:
    low, high = config.write_buffer_low_water_mark_bytes, config.write_buffer_high_water_mark_bytes
    if low > high > 0:
        yield "write_buffer_low_water_mark_bytes", f"at most writeBufferHighWaterMark, which is {high}"
    yield from _half_pair(kind, config, "tls_server_cert_path", "tls_server_key_path")
    yield from _half_pair(kind, config, "tls_client_cert_path", "tls_client_key_path")
    if config.config_white_list and not config.has_others_properties:
        yield from _not_to_be_opened(kind, config)
    yield from _broker_keys(config)
    if config.http_port == config.listen_port != 0 and _overlap(config.http_bind_address, config.bind_address):
        yield "http_port", "another port than listenPort"


def _not_to_be_opened(kind: ServerKind[Config], config: ServerConfig) -> Iterator[tuple[str, str]]:
    for key in sorted(listed_keys(config.config_white_list)):
        name = kind.field_of_key.get(key)
        if name is None or isinstance(kind.options[name].by_request, Fixed):
            why = "which this server does not have" if name is None else "which no request may change"
            yield "config_white_list", f"a list without {shortened(key)}, {why}"
            return


def listed_keys(text: str) -> set[str]:
    return {key for each in text.split(";") if (key := each.strip())}


def _half_pair(kind: ServerKind[Config], config: ServerConfig, first: str, second: str) -> Iterator[tuple[str, str]]:
    for given, missing in ((first, second), (second, first)):
        if getattr(config, given) and not getattr(config, missing):
            yield missing, f"set as well, because {kind.options[given].key} is"


def _broker_keys(config: ServerConfig) -> Iterator[tuple[str, str]]:
    if config.broker_access_key and config.broker_access_key_path:
        yield "broker_access_key_path", "blank, because brokerAccessKey is set"
    if config.broker_secret_key and config.broker_secret_key_path:
        yield "broker_secret_key_path", "blank, because brokerSecretKey is set"
    has_user = config.broker_access_key or config.broker_access_key_path
    has_password = config.broker_secret_key or config.broker_secret_key_path
    if has_user and not has_password:
        yield "broker_secret_key", "set as well, or brokerSecretKeyPath, because there is an access key"
    if has_password and not has_user:
        yield "broker_access_key", "set as well, or brokerAccessKeyPath, because there is a secret key"
    if has_user and has_password and not config.broker_access_addresses and not config.verifies_brokers:
        yield "broker_access_addresses", _FOR_WHOM


def _overlap(address: str, other: str) -> bool:
    return address == other or not _ANY_ADDRESS.isdisjoint((address, other))


def shortened(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARS_MAX else text[:_SHOWN_CHARS_MAX] + "..."
