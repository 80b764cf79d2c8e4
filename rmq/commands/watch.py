"""`rmq watch`: the routes of topics, and each change of them."""

from collections.abc import Sequence
from typing import Final

import click

from remoting.admin.routes import route_of
from rmq.cli.options import WatchCommand
from rmq.cli.session import OperatorSession, with_session
from rmq.commands.live_names import topic_names
from rmq.commands.route_rows import RouteRow, is_unknown_topic, route_rows
from rmq.failures import PartlyDone, WrongUse, failure_of_all

#: `routeWatchTopicsMax` of a NameServer.
TOPICS_MAX: Final = 100


@click.command("watch", cls=WatchCommand)
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC…", shell_complete=topic_names)
@with_session
async def watch_routes(session: OperatorSession, topics: Sequence[str]) -> None:
    """Show the routes of topics, and each change of them, also of topics that do not exist yet.

    Our NameServers notify of changes; those of Java are read every 2 s. -o jsonl and csv write a line for each change.
    """
    names = list(dict.fromkeys(topics))
    if len(names) > TOPICS_MAX:
        raise WrongUse(f"{len(names)} topics are more than {TOPICS_MAX}: watch the others by another command")
    session.changes_with_routes(names)
    servers = session.site.settings.namesrv
    answers = await session.site.answers_to((server, route_of(name)) for name in names for server in servers)
    failed = [each for each in answers if each.error is not None and not is_unknown_topic(each)]
    if len(failed) == len(answers):
        raise failure_of_all([(each.address, each.error) for each in failed[: len(servers)] if each.error is not None])
    rows = [
        row
        for number, name in enumerate(names)
        for row in route_rows(name, answers[number * len(servers) : (number + 1) * len(servers)])
    ]
    session.show(rows, RouteRow)
    if away := sorted({each.address for each in failed}):
        raise PartlyDone(f"no answer of {', '.join(away)}")
