"""Options that every command takes, before or after its name; the later one counts."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import click

from rmq.failures import WrongUse

#: Where the context of click keeps what was given.
_META: Final = "rmq.options"
#: The setting of --watch.
WATCH_OPTION: Final = "watch"
_CHOICES: Final = {"output": ("table", "json", "jsonl", "csv"), "color": ("auto", "always", "never")}


class _Common(NamedTuple):
    flags: tuple[str, ...]
    metavar: str
    summary: str


#: By the name of the setting.
_COMMON: Final = {
    "profile": _Common(("--profile",), "NAME", "a profile of ~/.config/rmq/config.toml [RMQ_PROFILE]"),
    "namesrv": _Common(("--namesrv", "-n"), "HOST:PORT;…", "NameServers (127.0.0.1:9876) [NAMESRV_ADDR]"),
    "controller": _Common(("--controller",), "HOST:PORT;…", "controllers (127.0.0.1:9878) [RMQ_CONTROLLER]"),
    "controller_http": _Common(
        ("--controller-http",),
        "URL;…",
        "HTTP addresses of our controllers (port 9881 of each controller's host) [RMQ_CONTROLLER_HTTP]",
    ),
    "namesrv_http": _Common(
        ("--namesrv-http",),
        "URL;…",
        "HTTP addresses of our NameServers, for --watch (port 9880 of each NameServer's host) [RMQ_NAMESRV_HTTP]",
    ),
    "history": _Common(
        ("--history",), "FOLDER", "historyDir of our servers, local or mounted (~/rocketmq-history) [RMQ_HISTORY]"
    ),
    "offset_manager": _Common(
        ("--offset-manager",), "URL;…", "offset managers (http://127.0.0.1:9883) [RMQ_OFFSET_MANAGER]"
    ),
    "admin_token_file": _Common(
        ("--admin-token-file",), "FILE", "file with the admin token, for changes over HTTP [RMQ_ADMIN_TOKEN_FILE]"
    ),
    "access_key_file": _Common(
        ("--access-key-file",),
        "FILE",
        "file with accessKey and secretKey for ACL, like mqadmin's tools.yml [RMQ_ACCESS_KEY_FILE]",
    ),
    "tls_ca": _Common(("--tls-ca",), "FILE", "TLS; certificates of servers are verified with this CA [RMQ_TLS_CA]"),
    "tls_cert": _Common(("--tls-cert",), "FILE", "TLS with this client certificate [RMQ_TLS_CERT]"),
    "tls_key": _Common(("--tls-key",), "FILE", "key of --tls-cert [RMQ_TLS_KEY]"),
    "timeout": _Common(("--timeout",), "SECONDS", "time limit of each request (3) [RMQ_TIMEOUT]"),
    "output": _Common(("--output", "-o"), "table|json|jsonl|csv", "output format (table)"),
    "color": _Common(("--color",), "auto|always|never", "colours (auto: in a terminal, unless NO_COLOR is set)"),
}
#: Those without a value.
_SWITCHES: Final = {
    "tls": _Common(("--tls",), "", "TLS; certificates are verified only with --tls-ca [RMQ_TLS=true]"),
    "no_header": _Common(("--no-header",), "", "omit the line with column names"),
}
_CHANGING: Final = {
    "yes": _Common(("--yes", "-y"), "", "do not ask for confirmation"),
    "dry_run": _Common(("--dry-run",), "", "check and show the changes, but make none"),
}
_WATCHING: Final = {
    WATCH_OPTION: _Common(("--watch", "-w"), "", "keep watching: redraw in a terminal, otherwise print each change"),
}


def given_options(context: click.Context) -> dict[str, str]:
    """Return what was given, by the name of the setting; "true" for a switch."""
    options: dict[str, str] = context.meta.setdefault(_META, {})
    return options


def common_options(*, is_hidden: bool) -> list[click.Parameter]:
    return [*_parameters(_COMMON, is_hidden=is_hidden), *_parameters(_SWITCHES, is_hidden=is_hidden)]


class BlankArgument(click.Argument):
    """An argument that may be blank: it is a value, and names nothing."""


class SiteCommand(click.Command):
    """A command that takes the options of every command; its help names only its own."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        settings["params"] = [*(settings.get("params") or ()), *self._added(), *common_options(is_hidden=True)]
        settings["epilog"] = "Options of every command, such as --namesrv and --output: rmq --help"
        super().__init__(*args, **settings)

    def invoke(self, ctx: click.Context) -> Any:
        """Run it; raises WrongUse for a blank value: an unset variable of a script must not stand for all."""
        for each in self.params:
            given = ctx.params.get(each.name or "")
            if isinstance(each, BlankArgument) or not (given == "" or (isinstance(given, tuple) and "" in given)):
                continue
            if isinstance(each, click.Argument):
                raise WrongUse(f"{each.make_metavar(ctx)} is blank: give it a value")
            # Those whose default is blank may be.
            if each.default != "":
                raise WrongUse(f"{each.opts[0]} is blank: give it a value, or leave it out")
        return super().invoke(ctx)

    def _added(self) -> list[click.Parameter]:
        return []


class ListCommand(SiteCommand):
    """A command whose rows may be watched: it has --watch.

    Fields of a row that say which thing it is are named in `row_key` of its type (rmq/cli/watch.py).
    """

    def _added(self) -> list[click.Parameter]:
        return _parameters(_WATCHING, is_hidden=False)


class WatchCommand(SiteCommand):
    def invoke(self, ctx: click.Context) -> Any:
        given_options(ctx)[WATCH_OPTION] = "true"
        return super().invoke(ctx)


class ChangeCommand(SiteCommand):
    """A command that changes something: it has --yes and --dry-run."""

    def _added(self) -> list[click.Parameter]:
        return _parameters(_CHANGING, is_hidden=False)


def _parameters(table: Mapping[str, _Common], *, is_hidden: bool) -> list[click.Parameter]:
    return [_parameter(name, each, is_hidden=is_hidden) for name, each in table.items()]


def _parameter(name: str, common: _Common, *, is_hidden: bool) -> click.Parameter:
    def keep(context: click.Context, _: click.Parameter, value: Any) -> None:
        if value or value == "":
            given_options(context)[name] = "true" if value is True else value

    return click.Option(
        [*common.flags, name],
        type=click.Choice(_CHOICES[name]) if name in _CHOICES else None,
        is_flag=not common.metavar,
        metavar=common.metavar or None,
        help=common.summary,
        hidden=is_hidden,
        expose_value=False,
        callback=keep,
    )
