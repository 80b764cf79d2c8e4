"""`rmq haproxy-config`: writes the configuration of an HAProxy for all role addresses."""

import hashlib
import ipaddress
import urllib.parse
from pathlib import Path
from typing import Any, Final

import click

from namesrv.core.role_addresses.documents import rules_of_toml
from remoting.protocol.addresses import ip_of, is_address, split_address
from rmq.failures import CommandFailed, WrongUse
from rmq.haproxy_config.configuration import ProxyOptions, configuration, reset_rules
from rmq.haproxy_config.frontends import Frontends, NotConfigurable, frontends_of, frontends_of_services
from rmq.haproxy_config.known_sets import known_sets
from serving.config.service_sets import ServiceSetsRefused, service_sets
from serving.config.table_documents import TablesRefused

_DEFAULTS: Final = ProxyOptions(role_checks=())
_PORT: Final = click.IntRange(1, 65_535)
_INSTANCES_MAX: Final = 10_000
_CONNECTIONS_MAX: Final = 1_000_000
_DIGEST_CHARS: Final = 12


def _urls(text: str) -> tuple[str, ...]:
    urls = _parts(text)
    for url in urls:
        try:
            parts = urllib.parse.urlsplit(url)
            is_url = parts.scheme == "http" and bool(parts.hostname) and (parts.port or 1) > 0
        except ValueError:
            is_url = False
        if not is_url:
            raise click.BadParameter(f"{url!r} is not a URL such as http://10.0.0.1:9881")
    return urls


def _addresses(text: str) -> tuple[str, ...]:
    addresses = _parts(text)
    for address in addresses:
        if not is_address(address):
            raise click.BadParameter(f"{address!r} is not HOST:PORT")
    return addresses


def _nameservers(text: str) -> tuple[str, ...]:
    addresses = _addresses(text)
    for address in addresses:
        found = split_address(address)
        if found is None or ip_of(found[0]) is None:
            raise click.BadParameter(f"{address!r} is not IP:PORT")
    return addresses


def _parts(text: str) -> tuple[str, ...]:
    found = tuple(part.strip() for part in text.split(",") if part.strip())
    if not found:
        raise click.BadParameter("at least one is needed")
    return found


def _ip(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text.strip("[]")))
    except ValueError:
        raise click.BadParameter(f"{text!r} is not an IP address") from None


def _folder(text: str) -> str:
    if not text.startswith("/") or any(ord(char) < ord(" ") for char in text):
        raise click.BadParameter(f"{text!r} is not an absolute path")
    return text.rstrip("/") or "/"


@click.command("haproxy-config")
@click.option("--role-addresses", metavar="FILE", help="roleAddressFile of the NameServers")
@click.option(
    "--service-sets",
    "sets_file",
    metavar="FILE",
    help="file with the broker sets that are Services: docs/role-addresses-kubernetes.md",
)
@click.option(
    "--controllers",
    metavar="URL,...",
    type=_urls,
    help="HTTP addresses of the controllers, such as http://10.0.0.1:9881; the leader names the brokers",
)
@click.option(
    "--role-checks",
    metavar="HOST:PORT,...",
    required=True,
    type=_addresses,
    help="roleCheckPort addresses of all controllers",
)
@click.option(
    "--host",
    "hosts",
    metavar="IP",
    multiple=True,
    type=_ip,
    help="serve only the role addresses of this host; repeatable (default: all)",
)
@click.option(
    "--send-proxy",
    "sends_proxy_header",
    is_flag=True,
    help="send the PROXY protocol to brokers (5.1.4 and later)",
)
@click.option(
    "--nft",
    is_flag=True,
    help="write rules for `nft -f -` instead, which end sessions with a reset (for clients 4.9)",
)
@click.option(
    "--instances",
    default=1,
    type=click.IntRange(1, _INSTANCES_MAX),
    help="number of HAProxies with this configuration; the more, the less often each checks (default: 1)",
)
@click.option(
    "--local-port",
    default=_DEFAULTS.local_port,
    show_default=True,
    type=_PORT,
    help="free port on 127.0.0.1 of HAProxy's host, for its own checks",
)
@click.option(
    "--run-folder",
    metavar="FOLDER",
    default=_DEFAULTS.run_folder,
    show_default=True,
    type=_folder,
    help="folder of the runtime socket and the server states",
)
@click.option("--output", metavar="FILE", help="write to this file, not to standard output")
@click.option(
    "--nameservers",
    metavar="IP:PORT,...",
    type=_nameservers,
    help="DNS servers that look up services (default: those of /etc/resolv.conf)",
)
@click.option(
    "--health-port",
    type=_PORT,
    help="HTTP port that reports whether HAProxy runs, and at /started whether a controller leads (default: none)",
)
@click.option(
    "--connections-max",
    type=click.IntRange(1, _CONNECTIONS_MAX),
    help="connections to one set at a time; further ones wait (default: HAProxy's own limit)",
)
def write_haproxy_config(
    *,
    role_addresses: str | None,
    sets_file: str | None,
    controllers: tuple[str, ...] | None,
    hosts: tuple[str, ...],
    nft: bool,
    output: str | None,
    nameservers: tuple[str, ...] | None,
    **chosen: Any,
) -> None:
    """Write the configuration of an HAProxy that connects role addresses to the masters of their broker sets.

    See docs/role-addresses-haproxy.md.
    """
    try:
        if sets_file is not None and role_addresses is None:
            if controllers or hosts:
                raise WrongUse(
                    "--controllers and --host are only for --role-addresses: brokers of Services are found by DNS"
                )
            if nft:
                raise WrongUse("--nft is only for --role-addresses: a pod may not change rules of its host")
            frontends, digest = _of_services(sets_file)
        elif role_addresses is not None and sets_file is None:
            if not controllers:
                raise WrongUse("--role-addresses needs --controllers, which know the addresses of brokers")
            if nameservers:
                raise WrongUse("--nameservers is only for --service-sets")
            frontends, digest = _of_rules(role_addresses, controllers, hosts)
        else:
            raise WrongUse("give either --role-addresses or --service-sets")
        options = ProxyOptions(follows_dns=sets_file is not None, nameservers=nameservers or (), **chosen)
        text = reset_rules(frontends) if nft else configuration(frontends, options, digest)
    except NotConfigurable as error:
        raise CommandFailed(str(error)) from None
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        Path(output).write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandFailed(f"{output} cannot be written: {error.strerror or error}") from None


def _of_rules(file: str, controllers: tuple[str, ...], hosts: tuple[str, ...]) -> tuple[Frontends, str]:
    """Return what is served, and the digest of the rules that name it."""
    try:
        rules = rules_of_toml(_bytes_of(file).decode())
    except TablesRefused as refusal:
        raise WrongUse(f"{file}: {refusal}") from None
    return frontends_of(rules.rules, known_sets(controllers), hosts), rules.digest


def _of_services(file: str) -> tuple[Frontends, str]:
    """Return what is served, and the digest of the file that names it."""
    text = _bytes_of(file)
    try:
        return frontends_of_services(service_sets(text)), hashlib.sha256(text).hexdigest()[:_DIGEST_CHARS]
    except ServiceSetsRefused as refusal:
        raise WrongUse(f"{file}: {refusal}") from None


def _bytes_of(file: str) -> bytes:
    try:
        data = Path(file).read_bytes()
        data.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise WrongUse(f"{file} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    return data
