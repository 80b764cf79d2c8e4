"""The command line of `rmq-namesrv`: that of Java's `mqnamesrv`, and an option for each property.

Answers to `ServerUtil.buildCommandlineOptions` and `NamesrvStartup.buildCommandlineOptions`. Values are taken as text
here and checked with those of all other sources in `config_sources.py`.
"""

import argparse
from collections.abc import Mapping, Sequence
from typing import Final, NoReturn

import msgspec

from namesrv import __version__
from namesrv.config import OPTIONS, NameServerConfig
from namesrv.options import AlwaysFalse, Flag, Option, text_of

#: Names the configuration file where `--config-file` does not.
CONFIG_FILE_VARIABLE: Final = "RMQ_NAMESRV_CONFIG_FILE"

#: As with Java, where the command line is parsed before anything else.
EXIT_BAD_OPTION: Final = 1

_DEFAULTS: Final = NameServerConfig()

_EPILOG: Final = """\
Every property can be given on the command line (--listen-port 9876), in the environment (RMQ_NAMESRV_LISTEN_PORT=9876)
and in the configuration file (listenPort=9876); the first of these that has it wins. Passwords are better not given on
the command line, where every user of the machine can read them.
"""


class Arguments(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line asks for."""

    #: Path of the configuration file; blank for none.
    config_file: str = ""
    #: Whether to print the configuration and leave.
    prints_config: bool = False
    #: Property -> text.
    options: Mapping[str, str]


def parse(argv: Sequence[str], environment: Mapping[str, str]) -> Arguments:
    """Return what is asked for; leaves the process after `--help` and `--version` (0) and bad options (1)."""
    parsed = vars(_parser().parse_args(argv))
    keys = {option.key for option in OPTIONS.values()}
    return Arguments(
        config_file=parsed["config_file"] or environment.get(CONFIG_FILE_VARIABLE, "").strip(),
        prints_config=parsed["print_config"],
        options={key: text for key, text in parsed.items() if key in keys},
    )


class _Parser(argparse.ArgumentParser):
    """Leaves with the code that Java leaves with."""

    def error(self, message: str) -> NoReturn:
        self.exit(EXIT_BAD_OPTION, f"{self.prog}: {message}; --help tells what there is\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="rmq-namesrv",
        usage="rmq-namesrv [-c FILE] [-p] [--PROPERTY VALUE ...]",
        description="The NameServer of Apache RocketMQ.",
        epilog=_EPILOG,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "-c",
        "--config-file",
        "--configFile",
        metavar="FILE",
        default="",
        help=f"properties file, as of the Java NameServer; also {CONFIG_FILE_VARIABLE}",
    )
    parser.add_argument(
        "-p",
        "--print-config-item",
        "--printConfigItem",
        action="store_true",
        dest="print_config",
        help="print the configuration and leave",
    )
    parser.add_argument("-n", "--namesrv-addr", "--namesrvAddr", metavar="ADDRESS", help="taken, without effect")
    parser.add_argument(
        "--version", action="version", version=f"%(prog)s {__version__}", help="print the version and leave"
    )
    ours = parser.add_argument_group("properties")
    idle = parser.add_argument_group("properties that only mean something to the Java NameServer, without effect here")
    for name, option in OPTIONS.items():
        _add(ours if option.has_effect else idle, option, text_of(getattr(_DEFAULTS, name)))
    return parser


def _add(group: argparse._ArgumentGroup, option: Option, default: str) -> None:
    is_switch = isinstance(option.kind, Flag | AlwaysFalse)
    group.add_argument(
        option.argument,
        dest=option.key,
        metavar=option.kind.placeholder,
        # A switch alone means that it is on.
        nargs="?" if is_switch else None,
        const="true" if is_switch else None,
        default=argparse.SUPPRESS,
        help=option.explanation + (f" [{default}]" if default else ""),
    )
