"""`rmq config get` and `rmq config set`.

Java servers accept options that they do not have, and ignore them, so the values are read back.
"""

from collections.abc import Mapping, Sequence
from typing import Final, get_args

import click
import msgspec

from remoting.admin.configuration import Options, ServerKind, server_config, update_config
from rmq.cli.options import ChangeCommand, SiteCommand
from rmq.cli.session import OperatorSession, with_session
from rmq.commands.completion import broker_names, cluster_names
from rmq.failures import CommandFailed, NotReachable, UnknownName, WrongUse, unknown_sentence
from rmq.site.brokers import Gap, check_gaps, gap_names, gaps_in, members_at, members_of_cluster, not_reached
from rmq.site.changes import SiteChange
from rmq.site.site import Answered, check_complete

#: Values of options with these in their names are never shown; the servers mask by the same ones.
SECRET_WORDS: Final = ("accesskey", "authenticationuser", "credential", "pass", "pwd", "secret", "token")
#: How names of options end that hold no secret, but say where it is.
_PLACES: Final = ("path", "file")
_HIDDEN: Final = "******"


class OptionRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    address: str
    name: str
    value: str


_SERVER: Final = click.argument("server", type=click.Choice(get_args(ServerKind)))
_AT: Final = click.option(
    "--at", metavar="BROKER|HOST:PORT", shell_complete=broker_names, help="a broker set, or one server by its address"
)
_CLUSTER: Final = click.option(
    "--cluster", metavar="NAME", shell_complete=cluster_names, help="all brokers of this cluster, slaves too"
)


@click.command("get", cls=SiteCommand)
@_SERVER
@click.argument("names", nargs=-1, metavar="[NAME]…")
@_AT
@_CLUSTER
@with_session
async def get_config(
    session: OperatorSession, server: ServerKind, names: Sequence[str], at: str | None, cluster: str | None
) -> None:
    """Show all or some options of servers (requests 26, 319, 1010). Secrets are hidden.

    Brokers need --at or --cluster. Without --at, all NameServers or controllers of the site are read.
    """
    addresses, gaps = await _places(session, server, at, cluster)
    answers = await session.site.answers(addresses, server_config(server))
    tables = {each.address: each.result for each in answers if each.error is None}
    _check_known(names, tables)
    rows = [
        OptionRow(address=address, name=name, value=_shown(name, value))
        for address, table in tables.items()
        for name, value in sorted(table.items())
        if not names or name in names
    ]
    if rows:
        session.show(rows, OptionRow)
    check_complete(answers, "servers")
    check_gaps(gaps, "options there are not shown")


@click.command("set", cls=ChangeCommand)
@_SERVER
@click.argument("assignments", nargs=-1, required=True, metavar="NAME=VALUE…")
@_AT
@_CLUSTER
@with_session
async def set_config(
    session: OperatorSession, server: ServerKind, assignments: Sequence[str], at: str | None, cluster: str | None
) -> None:
    """Change options of running servers (requests 25, 318, 1009), which store them, and read them back."""
    wanted = _assigned(assignments)
    addresses, gaps = await _places(session, server, at, cluster)
    before = await session.site.answers(addresses, server_config(server))
    check_complete(before, "servers")
    tables = {each.address: each.result for each in before}
    _check_known(tuple(wanted), tables)
    request = update_config(server, wanted)
    changes = [
        SiteChange(
            address,
            ", ".join(_change(name, tables[address].get(name, ""), wanted[name]) for name in wanted),
            request,
            server_config(server, wanted),
        )
        for address in tables
    ]
    black_listed = (
        f"{name} is in configBlackList of {address}"
        for address, table in tables.items()
        for name in wanted
        if name in table.get("configBlackList", "").split(";")
    )
    question = f"Set {', '.join(wanted)} at {', '.join(tables)}?{not_reached(gaps)}"
    await session.change([changes], question, black_listed)
    if not session.is_dry_run:
        _check_taken(wanted, await session.site.answers(tables, server_config(server)))
    check_gaps(gaps, "not set there: repeat this when all sets are back")


async def _places(
    session: OperatorSession, server: ServerKind, at: str | None, cluster: str | None
) -> tuple[list[str], list[Gap]]:
    """Return where the servers are, and the sets of a cluster that lack brokers; raises CommandFailed."""
    if server == "broker":
        if (at is None) == (cluster is None):
            raise WrongUse("give either --at or --cluster for brokers")
        brokers = await session.site.cluster()
        found = members_of_cluster(brokers, cluster) if cluster else members_at(brokers, at or "")
        gaps = gaps_in(brokers, cluster) if cluster else []
        if not found:
            raise NotReachable(f"no broker of {cluster} is registered: {gap_names(gaps)}")
        return [each.address for each in found], gaps
    if cluster:
        raise WrongUse("--cluster is only for brokers")
    site = session.site
    return [at] if at else list(site.settings.namesrv if server == "namesrv" else site.controllers), []


def _assigned(assignments: Sequence[str]) -> dict[str, str]:
    wanted = {}
    for each in assignments:
        name, equals, value = each.partition("=")
        if not (name and equals):
            raise WrongUse(f"{each} is not NAME=VALUE")
        wanted[name] = value
    return wanted


def _check_known(names: Sequence[str], tables: Mapping[str, Options]) -> None:
    """Raise UnknownName for an option that none of the servers has."""
    known = {name for table in tables.values() for name in table}
    unknown = next((each for each in names if each not in known), None)
    if unknown is not None and tables:
        raise UnknownName(unknown_sentence("option", unknown, known))


def _check_taken(wanted: Options, answers: Sequence[Answered[Options]]) -> None:
    """Raise CommandFailed for an option that a server does not have as it was set."""
    check_complete(answers, "servers")
    differing = [
        f"{each.address} has {name}={_shown(name, each.result.get(name, ''))}"
        for each in answers
        for name, value in wanted.items()
        # Java writes numbers and booleans in its own way: TRUE becomes true.
        if each.result.get(name, "").lower() != value.strip().lower()
    ]
    if differing:
        raise CommandFailed(f"accepted, but not in force: {'; '.join(differing)}")


def _change(name: str, before: str, after: str) -> str:
    return f"{name}: {_shown(name, before)} -> {_shown(name, after)}"


def _shown(name: str, value: str) -> str:
    lower = name.lower()
    is_secret = value and any(each in lower for each in SECRET_WORDS) and not lower.endswith(_PLACES)
    return _HIDDEN if is_secret else value
