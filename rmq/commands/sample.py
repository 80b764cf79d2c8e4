"""`rmq sample`: samples how far topics and consumer groups are, until it is stopped. Needs the extra `server`."""

import asyncio
import os
import re
import socket
from pathlib import Path
from typing import Final

import click

from history.landing import file_name
from remoting.protocol.addresses import named_addresses
from remoting.protocol.signing import Credentials, Signer
from rmq.cli.options import SiteCommand
from rmq.cli.profiles import settings_in
from rmq.failures import NotSupportedThere, WrongUse
from rmq.sampling import service
from serving.config.options import NamedAddressList
from serving.process.broker_access import key_in
from serving.process.start import StartFailed

#: Each costs every broker that has it some requests in every interval.
TOPICS_MAX: Final = 200
INTERVAL_S: Final = 60
_INTERVAL_S_MAX: Final = 3600
#: What stands in file names and in columns alike.
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")
_PREFIX: Final = "RMQ_SAMPLER_BROKER"


def _topics(text: str) -> tuple[str, ...]:
    topics = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not topics:
        raise click.BadParameter("give the topics to sample, separated by commas")
    if wrong := next((topic for topic in topics if ";" in topic), None):
        raise click.BadParameter(f"{wrong} is not a topic: separate topics by commas")
    if len(topics) > TOPICS_MAX:
        raise click.BadParameter(
            f"{len(topics)} topics are more than {TOPICS_MAX}: name those whose queues matter most, or start a second "
            "sampler with another --name for the rest"
        )
    return topics


def _name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise click.BadParameter(f"{text} must consist of at most 100 letters, digits, dots, dashes and underscores")
    return text


@click.command("sample", cls=SiteCommand)
@click.option("--topics", metavar="A,B,...", required=True, type=_topics, help=f"at most {TOPICS_MAX} topics")
@click.option(
    "--interval",
    "interval_s",
    metavar="SECONDS",
    default=INTERVAL_S,
    type=click.IntRange(1, _INTERVAL_S_MAX),
    help="time between samples (60, which the analyses expect)",
)
@click.option(
    "--name",
    default=lambda: file_name(f"sampler_{socket.gethostname()}"),
    show_default="sampler_ and the host",
    type=_name,
    help="name of this sampler in its rows; two on one machine need different ones",
)
@click.option(
    "--broker-access-key-path",
    envvar=f"{_PREFIX}_ACCESS_KEY_PATH",
    metavar="FILE",
    help=f"file with the user of brokers with ACL; or {_PREFIX}_ACCESS_KEY in the environment",
)
@click.option(
    "--broker-secret-key-path",
    envvar=f"{_PREFIX}_SECRET_KEY_PATH",
    metavar="FILE",
    help=f"file with that user's password; or {_PREFIX}_SECRET_KEY in the environment",
)
@click.option(
    "--broker-access-addresses",
    envvar=f"{_PREFIX}_ACCESS_ADDRESSES",
    default="",
    metavar=NamedAddressList.placeholder,
    help="brokers whose requests are signed; all others get unsigned ones: IP addresses, networks (10.0.0.0/16) "
    "or host names as brokers register them, with or without :port",
)
@click.pass_context
def sample(
    context: click.Context,
    *,
    topics: tuple[str, ...],
    interval_s: int,
    name: str,
    broker_access_key_path: str | None,
    broker_secret_key_path: str | None,
    broker_access_addresses: str,
) -> None:
    """Record offsets and lags of topics and groups in the history at intervals, until a signal ends it.

    The analyses of queue scaling (A9) and balance (A8) use these samples.
    """
    settings = settings_in(context)
    if settings.uses_tls:
        raise NotSupportedThere("rmq sample does not support TLS")
    if not settings.history:
        raise WrongUse("give the folder of the history with --history: the historyDir of the servers, or another one")
    if "://" in settings.history:
        raise WrongUse(f"{settings.history} is a URI: samples can only be written to a local or mounted folder")
    try:
        access_key = _key("ACCESS", broker_access_key_path)
        secret_key = _key("SECRET", broker_secret_key_path)
    except StartFailed as error:
        raise WrongUse(str(error)) from None
    options = service.Options(
        name_servers=settings.namesrv,
        topics=topics,
        history=Path(settings.history).expanduser(),
        interval_s=interval_s,
        name=name,
        signer=_signer(access_key, secret_key, broker_access_addresses),
    )
    asyncio.run(service.serve(options))


def _key(which: str, path: str | None) -> str:
    return os.environ.get(f"{_PREFIX}_{which}_KEY", "") or key_in(path or "", f"--broker-{which.lower()}-key-path")


def _signer(access_key: str, secret_key: str, addresses: str) -> Signer | None:
    named = named_addresses(addresses)
    if named is None:
        raise WrongUse(f"{service.ADDRESSES} must be {NamedAddressList.allowed}")
    if bool(access_key) != bool(secret_key):
        raise WrongUse(f"brokers with ACL need both a user and its password: {service.KEYS}")
    if not access_key:
        return None
    if not named:
        raise WrongUse(
            f"keys need the addresses or networks of their brokers, such as 10.0.0.0/16: {service.ADDRESSES}"
        )
    return Signer(credentials=Credentials(access_key, secret_key), named=named)
