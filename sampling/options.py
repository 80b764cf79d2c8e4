"""The options of `rmq-sampler`."""

import argparse
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from history.landing import file_name
from remoting.protocol.addresses import is_address, named_addresses
from remoting.protocol.signing import Credentials, Signer
from serving.config.options import NamedAddressList
from serving.process.broker_access import key_in
from serving.process.start import StartFailed

_DESCRIPTION: Final = """Samples at intervals how far topics and consumer groups are, into the history: the analyses of
queue scaling (A9) and balance (A8) are made of it."""

#: Each costs every broker that has it some requests in every interval.
TOPICS_MAX: Final = 200
INTERVAL_S: Final = 60
INTERVALS_S: Final = range(1, 3601)
#: What stands in file names and in columns alike.
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")

VARIABLE_PREFIX: Final = "RMQ_SAMPLER_"
#: What a sampler is to be given.
KEYS: Final = (
    "RMQ_SAMPLER_BROKER_ACCESS_KEY and RMQ_SAMPLER_BROKER_SECRET_KEY "
    "(or --broker-access-key-path and --broker-secret-key-path)"
)
#: For whom it signs.
ADDRESSES: Final = "RMQ_SAMPLER_BROKER_ACCESS_ADDRESSES (or --broker-access-addresses)"

Value = TypeVar("Value")


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a sampler."""

    name_servers: tuple[str, ...]
    topics: tuple[str, ...]
    history: Path
    interval_s: int
    #: Its ns_id in the rows.
    name: str
    #: What signs requests, and for which brokers; None signs none.
    signer: Signer | None = None


def parse_options(arguments: Sequence[str] | None, host: str, environment: Mapping[str, str] = os.environ) -> Options:
    """Return the options of the command line; invalid ones end the process with a message."""
    parser = _parser(host, environment)
    options = parser.parse_args(arguments)
    try:
        signer = _signer(options, environment)
    except (ValueError, StartFailed) as error:
        parser.error(str(error))
    return Options(
        signer=signer,
        name_servers=options.namesrv,
        topics=options.topics,
        history=options.history,
        interval_s=options.interval,
        name=options.name,
    )


def _parser(host: str, environment: Mapping[str, str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="rmq-sampler", description=_DESCRIPTION)
    add = parser.add_argument
    add("--namesrv", required=True, type=_checked(_addresses), metavar="HOST:PORT;...", help="the NameServers")
    add("--topics", required=True, type=_checked(_topics), metavar="A,B,...", help=f"at most {TOPICS_MAX} topics")
    add(
        "--history",
        required=True,
        type=_checked(_folder),
        metavar="FOLDER",
        help="historyDir of the servers, or another folder",
    )
    add(
        "--interval",
        type=_checked(_interval),
        default=INTERVAL_S,
        metavar="SECONDS",
        help="between two samples (60; the analyses count minutes)",
    )
    add(
        "--name",
        type=_checked(_name),
        default=file_name(f"sampler_{host}"),
        help="who took the samples (%(default)s); of two on one machine each needs its own",
    )
    for key, what in (("access", "the user of brokers with ACL"), ("secret", "that user's password")):
        add(
            f"--broker-{key}-key-path",
            default=environment.get(f"{VARIABLE_PREFIX}BROKER_{key.upper()}_KEY_PATH", ""),
            metavar="FILE",
            help=f"file with {what}; or {VARIABLE_PREFIX}BROKER_{key.upper()}_KEY in the environment",
        )
    add(
        "--broker-access-addresses",
        default=environment.get(f"{VARIABLE_PREFIX}BROKER_ACCESS_ADDRESSES", ""),
        metavar=NamedAddressList.placeholder,
        help="brokers that requests are signed for, all others get them unsigned: IP addresses, networks (10.0.0.0/16) "
        "or names of hosts as brokers register them, each with :port or without",
    )
    return parser


def _signer(options: argparse.Namespace, environment: Mapping[str, str]) -> Signer | None:
    """Return what signs requests; raises ValueError for keys without the addresses that they are for."""
    named = named_addresses(options.broker_access_addresses)
    if named is None:
        raise ValueError(f"{ADDRESSES} must be {NamedAddressList.allowed}")
    credentials = _credentials(options, environment)
    if credentials is None:
        return None
    if not named:
        raise ValueError(
            f"keys need the addresses or networks of the brokers that they are for, such as 10.0.0.0/16: {ADDRESSES}"
        )
    return Signer(credentials=credentials, named=named)


def _credentials(options: argparse.Namespace, environment: Mapping[str, str]) -> Credentials | None:
    """Return the keys of the environment or of files; raises ValueError if there is one without the other."""
    access_key = _key("access", options.broker_access_key_path, environment)
    secret_key = _key("secret", options.broker_secret_key_path, environment)
    if bool(access_key) != bool(secret_key):
        raise ValueError(f"requests to brokers with ACL need both, a user and its password: {KEYS}")
    return Credentials(access_key, secret_key) if access_key else None


def _key(which: str, path: str, environment: Mapping[str, str]) -> str:
    return environment.get(f"{VARIABLE_PREFIX}BROKER_{which.upper()}_KEY", "") or key_in(
        path, f"--broker-{which}-key-path"
    )


def _checked(read: Callable[[str], Value]) -> Callable[[str], Value]:
    """Return a type for argparse that shows the sentence of a ValueError."""

    def checked(text: str) -> Value:
        try:
            return read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return checked


def _parts(text: str, separator: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(part.strip() for part in text.split(separator) if part.strip()))


def _addresses(text: str) -> tuple[str, ...]:
    addresses = _parts(text, ";")
    wrong = next((each for each in addresses if not is_address(each)), None)
    if wrong is not None or not addresses:
        raise ValueError(f"{wrong or 'it'} is no host:port; several are separated by semicolons: ns1:9876;ns2:9876")
    return addresses


def _topics(text: str) -> tuple[str, ...]:
    topics = _parts(text, ",")
    if not topics:
        raise ValueError("name the topics to be sampled, separated by commas")
    if wrong := next((each for each in topics if ";" in each), None):
        raise ValueError(f"{wrong} is no topic: several are separated by commas")
    if len(topics) > TOPICS_MAX:
        raise ValueError(
            f"{len(topics)} topics are more than {TOPICS_MAX}: name those whose queues matter most, or start a second "
            "sampler with another --name for the rest"
        )
    return topics


def _folder(text: str) -> Path:
    if "://" in text:
        raise ValueError(f"{text} is a URI: samples are written to folders of this machine, mounted ones too")
    return Path(text).expanduser()


def _interval(text: str) -> int:
    if not text.isdecimal() or int(text) not in INTERVALS_S:
        raise ValueError(f"{text} is no number of seconds from {INTERVALS_S.start} to {INTERVALS_S.stop - 1}")
    return int(text)


def _name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise ValueError(f"{text} may have letters, digits, dots, dashes and underscores only, 100 of them at most")
    return text
