"""The command line of a server: that of the Java server, and an option for each property.

Answers to `ServerUtil.buildCommandlineOptions`, and to `buildCommandlineOptions` of `NamesrvStartup` and
`ControllerStartup`. Values stay text here; `sources.py` checks them
with those of all other sources.
"""

import argparse
from collections.abc import Mapping, Sequence
from typing import Final, NoReturn

import msgspec

from serving import __version__
from serving.config.options import AlwaysFalse, Flag, Option, text_of
from serving.config.server_config import Config
from serving.config.server_kind import ServerKind

#: Names the configuration file where `--config-file` does not; the prefix of the server's variables comes before it.
_CONFIG_FILE_VARIABLE: Final = "CONFIG_FILE"

#: As with Java, where the command line is parsed before anything else.
EXIT_BAD_OPTION: Final = 1

_EPILOG: Final = """\
Set a property on the command line ({argument} {port}), in the environment
({variable}={port}) or in the configuration file ({key}={port}); the first of
these wins. Every user of the machine can read the command line: give no passwords there.
"""
_LEGEND: Final = """
Marks show what a request (rmq config set, mqadmin) may change:
  (fixed) nothing; (white list) only with configWhiteList; (request) any value;
  (request: VALUES) these values, others only with configWhiteList.
Changes take effect at once, those marked "restart" at the next start.
"""


#: What every program of RocketMQ takes, whether it has a use for it or not.
_NAMESRV_ADDR: Final = "namesrvAddr"
_NAMESRV_ADDR_ARGUMENTS: Final = ("-n", "--namesrv-addr", "--namesrvAddr")


class Arguments(msgspec.Struct, frozen=True, kw_only=True):
    #: Path of the configuration file; blank for none.
    config_file: str = ""
    #: Whether to print the configuration and exit.
    prints_config: bool = False
    #: Property -> text.
    options: Mapping[str, str]


def parse(kind: ServerKind[Config], argv: Sequence[str], environment: Mapping[str, str]) -> Arguments:
    """Return the parsed command line; exits after `--help` and `--version` (0) and bad options (1)."""
    parsed = vars(_parser(kind).parse_args(argv))
    keys = {option.key for option in kind.options.values()}
    return Arguments(
        config_file=parsed["config_file"] or environment.get(kind.variable_prefix + _CONFIG_FILE_VARIABLE, "").strip(),
        prints_config=parsed["print_config"],
        options={key: text for key, text in parsed.items() if key in keys},
    )


class _Parser(argparse.ArgumentParser):
    """Exits with the code of the Java server."""

    def error(self, message: str) -> NoReturn:
        self.exit(EXIT_BAD_OPTION, f"{self.prog}: {message}; --help lists all options\n")


def _parser(kind: ServerKind[Config]) -> argparse.ArgumentParser:
    example = "listen_port" if "listen_port" in kind.options else "http_port"
    port = kind.options[example]
    as_of_java = f" in the format of the Java {kind.name}" if kind.is_changed_by_requests else ""
    parser = _Parser(
        prog=kind.program,
        usage=f"{kind.program} [-c FILE] [-p] [--PROPERTY VALUE ...]",
        description=f"The {kind.name} of Apache RocketMQ.",
        epilog=_EPILOG.format(
            argument=port.argument,
            variable=kind.variable(port),
            key=port.key,
            port=getattr(kind.defaults, example),
        )
        + (_LEGEND if kind.is_changed_by_requests else ""),
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add(
        "-c",
        "--config-file",
        "--configFile",
        metavar="FILE",
        default="",
        help=f"properties file{as_of_java}; also {kind.variable_prefix}{_CONFIG_FILE_VARIABLE}",
    )
    add(
        "-p",
        "--print-config-item",
        "--printConfigItem",
        action="store_true",
        dest="print_config",
        help="print the configuration and exit",
    )
    if _NAMESRV_ADDR not in kind.field_of_key and kind.is_changed_by_requests:
        add(*_NAMESRV_ADDR_ARGUMENTS, metavar="ADDRESS", help="accepted, without effect")
    add("--version", action="version", version=f"%(prog)s {__version__}", help="print the version and exit")
    ours = parser.add_argument_group("properties")
    idle = parser.add_argument_group(f"properties that have an effect in the Java {kind.name} only")
    for name, option in kind.options.items():
        changed = f" ({option.mark})" if kind.is_changed_by_requests else ""
        _add(ours if option.has_effect else idle, option, text_of(getattr(kind.defaults, name)), changed)
    return parser


def _add(group: argparse._ArgumentGroup, option: Option, default: str, changed: str) -> None:
    is_switch = isinstance(option.kind, Flag | AlwaysFalse)
    arguments = _NAMESRV_ADDR_ARGUMENTS if option.key == _NAMESRV_ADDR else (option.argument,)
    group.add_argument(
        *arguments,
        dest=option.key,
        metavar=option.kind.placeholder,
        # A switch alone means that it is on.
        nargs="?" if is_switch else None,
        const="true" if is_switch else None,
        default=argparse.SUPPRESS,
        help=option.explanation + (f" [{default}]" if default else "") + changed,
    )
