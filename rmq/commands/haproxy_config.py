"""`rmq-controller haproxy-config`: writes the configuration of an HAProxy for all role addresses to standard output."""

import argparse
import hashlib
import ipaddress
import sys
import urllib.parse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

from haproxy_config.configuration import ProxyOptions, configuration
from haproxy_config.frontends import Frontends, NotConfigurable, frontends_of, frontends_of_services
from haproxy_config.known_sets import known_sets
from haproxy_config.reset_rules import reset_rules
from namesrv.core.role_addresses.documents import rules_of_toml
from remoting.protocol.addresses import ip_of, is_address, split_address
from serving.config.service_sets import ServiceSetsRefused, service_sets
from serving.config.table_documents import TablesRefused

PROGRAM: Final = "rmq-controller haproxy-config"
#: As the servers': a bad option, and anything else.
EXIT_BAD_OPTION: Final = 1
EXIT_FAILED: Final = 255

_PORT_MAX: Final = 65_535
_INSTANCES_MAX: Final = 10_000
_CONNECTIONS_MAX: Final = 1_000_000
_DIGEST_CHARS: Final = 12


def main(arguments: Sequence[str]) -> int:
    """Run it; returns the exit code: 0, or 255 with a sentence about what is wrong. Bad options exit with 1."""
    chosen = _chosen(arguments)
    try:
        _write(_text(chosen), chosen.output)
    except TablesRefused as refusal:
        return _fail(f"{chosen.role_addresses}: {refusal}")
    except ServiceSetsRefused as refusal:
        return _fail(f"{chosen.service_sets}: {refusal}")
    except NotConfigurable as error:
        return _fail(str(error))
    return 0


def _text(chosen: argparse.Namespace) -> str:
    """Return what is written."""
    wanted = _of_services(chosen) if chosen.service_sets else _of_rules(chosen)
    if chosen.nft:
        return reset_rules(wanted.frontends)
    options = ProxyOptions(
        role_checks=tuple(chosen.role_checks),
        local_port=chosen.local_port,
        sends_proxy_header=chosen.send_proxy,
        instances=chosen.instances,
        run_folder=chosen.run_folder,
        follows_dns=bool(chosen.service_sets),
        nameservers=tuple(chosen.nameservers),
        health_port=chosen.health_port,
        connections_max=chosen.connections_max,
    )
    return configuration(wanted.frontends, options, wanted.digest)


def _write(text: str, output: str | None) -> None:
    """Write to a file, or to standard output."""
    if not output:
        sys.stdout.write(text)
        return
    try:
        Path(output).write_text(text, encoding="utf-8")
    except OSError as error:
        raise NotConfigurable(f"{output} cannot be written: {error.strerror or error}") from None


class _Wanted(NamedTuple):
    """What is served, and the digest of what names it."""

    frontends: Frontends
    digest: str


def _of_rules(chosen: argparse.Namespace) -> _Wanted:
    rules = rules_of_toml(_bytes_of(Path(chosen.role_addresses)).decode())
    return _Wanted(frontends_of(rules.rules, known_sets(chosen.controllers), chosen.host), rules.digest)


def _of_services(chosen: argparse.Namespace) -> _Wanted:
    text = _bytes_of(Path(chosen.service_sets))
    return _Wanted(frontends_of_services(service_sets(text)), hashlib.sha256(text).hexdigest()[:_DIGEST_CHARS])


def _chosen(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options; exits for those that do not go together."""
    parser = _parser()
    chosen = parser.parse_args(arguments)
    if chosen.role_addresses and not chosen.controllers:
        parser.error("--role-addresses needs --controllers, which know where the brokers are")
    if chosen.service_sets and (chosen.controllers or chosen.host):
        parser.error("--controllers and --host are for --role-addresses: DNS knows where the brokers of services are")
    if chosen.service_sets and chosen.nft:
        parser.error("--nft is for --role-addresses: a pod may not write rules of its host")
    if chosen.nameservers and not chosen.service_sets:
        parser.error("--nameservers is for --service-sets: nothing else is looked up again")
    return chosen


def _fail(problem: str) -> int:
    sys.stderr.write(f"{PROGRAM}: {problem}\n")
    return EXIT_FAILED


def _bytes_of(path: Path) -> bytes:
    try:
        data = path.read_bytes()
        data.decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise NotConfigurable(f"{path} cannot be read: {reason}") from None
    return data


class _CommandParser(argparse.ArgumentParser):
    """Exits with the code of the servers."""

    def error(self, message: str) -> NoReturn:
        self.exit(EXIT_BAD_OPTION, f"{self.prog}: {message}; --help lists all options\n")


def _parser() -> argparse.ArgumentParser:
    parser = _CommandParser(
        prog=PROGRAM,
        description="Write the configuration of an HAProxy that leads the role addresses of all broker sets to their "
        "masters: docs/role-addresses-haproxy.md.",
        allow_abbrev=False,
    )
    _add_sources(parser)
    _add_properties(parser)
    _add_pod_options(parser.add_argument)
    return parser


def _add_sources(parser: argparse.ArgumentParser) -> None:
    """Add what the configuration is made of."""
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--role-addresses", metavar="FILE", help="the roleAddressFile of the NameServers")
    source.add_argument(
        "--service-sets",
        metavar="FILE",
        help="sets whose brokers are names of Services: docs/role-addresses-kubernetes.md",
    )
    add = parser.add_argument
    add(
        "--controllers",
        metavar="URL,...",
        default=[],
        type=_urls,
        help="HTTP addresses of the controllers, such as http://10.0.0.1:9881; the one that leads names the brokers",
    )
    add(
        "--role-checks",
        metavar="HOST:PORT,...",
        required=True,
        type=_addresses,
        help="the roleCheckPort of every controller",
    )
    add(
        "--host",
        metavar="IP",
        action="append",
        default=[],
        type=_ip,
        help="serve only the role addresses of this host; can be given several times (default: all)",
    )


def _add_properties(parser: argparse.ArgumentParser) -> None:
    """Add how HAProxy runs."""
    add = parser.add_argument
    add("--send-proxy", action="store_true", help="send the PROXY protocol to brokers, which 5.1.4 and later take")
    add(
        "--nft",
        action="store_true",
        help="write rules for `nft -f -` instead, by which sessions end with a reset, which clients 4.9 need",
    )
    add(
        "--instances",
        metavar="N",
        default=1,
        type=_number(1, _INSTANCES_MAX),
        help="how many HAProxies run with this configuration: the more, the less often each checks (default: 1)",
    )
    add(
        "--local-port",
        metavar="PORT",
        default=ProxyOptions(role_checks=()).local_port,
        type=_number(1, _PORT_MAX),
        help="a free port at 127.0.0.1 of HAProxy's host, for its own checks (default: %(default)s)",
    )
    add(
        "--run-folder",
        metavar="FOLDER",
        default=ProxyOptions(role_checks=()).run_folder,
        type=_absolute,
        help="where the runtime socket and the server states are (default: %(default)s)",
    )


def _add_pod_options(add: Callable[..., argparse.Action]) -> None:
    """Add what an HAProxy in a pod needs."""
    add("--output", metavar="FILE", help="write the configuration there instead of to standard output")
    add(
        "--nameservers",
        metavar="IP:PORT,...",
        default=[],
        type=_nameservers,
        help="DNS servers that look up services (default: those of /etc/resolv.conf)",
    )
    add(
        "--health-port",
        metavar="PORT",
        type=_number(1, _PORT_MAX),
        help="answer over HTTP there whether HAProxy runs, and at /started whether a controller leads (default: none)",
    )
    add(
        "--connections-max",
        metavar="N",
        type=_number(1, _CONNECTIONS_MAX),
        help="connections to one set at one time; the next ones wait (default: HAProxy's own limit)",
    )


def _urls(text: str) -> list[str]:
    urls = [each.strip() for each in text.split(",") if each.strip()]
    for url in urls:
        try:
            parts = urllib.parse.urlsplit(url)
            is_url = parts.scheme == "http" and bool(parts.hostname) and (parts.port or 1) > 0
        except ValueError:
            is_url = False
        if not is_url:
            raise argparse.ArgumentTypeError(f"{url!r} is no URL such as http://10.0.0.1:9881")
    return _some(urls)


def _addresses(text: str) -> list[str]:
    addresses = [each.strip() for each in text.split(",") if each.strip()]
    for address in addresses:
        if not is_address(address):
            raise argparse.ArgumentTypeError(f"{address!r} is no HOST:PORT")
    return _some(addresses)


def _nameservers(text: str) -> list[str]:
    addresses = _addresses(text)
    for address in addresses:
        found = split_address(address)
        if found is None or ip_of(found[0]) is None:
            raise argparse.ArgumentTypeError(f"{address!r} is no IP:PORT")
    return addresses


def _some(found: list[str]) -> list[str]:
    if not found:
        raise argparse.ArgumentTypeError("at least one is needed")
    return found


def _ip(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text.strip("[]")))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no IP address") from None


def _absolute(text: str) -> str:
    if not text.startswith("/") or any(ord(each) < ord(" ") for each in text):
        raise argparse.ArgumentTypeError(f"{text!r} is no absolute path")
    return text.rstrip("/") or "/"


def _number(least: int, most: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if text.isascii() and text.isdigit() and least <= int(text) <= most:
            return int(text)
        raise argparse.ArgumentTypeError(f"{text!r} is no number from {least} to {most}")

    return read
