"""`rmq group reset`, as mqadmin's resetOffsetByTime, but shown before it is done."""

from collections.abc import Sequence
from typing import Final, TypedDict, Unpack

import click

from rmq.cli.options import ChangeCommand
from rmq.cli.session import OperatorSession, with_session
from rmq.commands.groups.reset_facts import masters_in, plan_reset
from rmq.commands.groups.reset_plan import ResetRow, WantedReset, target_of
from rmq.commands.groups.reset_run import carry_out_all, failure_in
from rmq.commands.live_names import broker_names, group_names, topic_names
from rmq.commands.topic_views import route_at_first
from rmq.failures import WrongUse
from rmq.site.brokers import check_gaps, not_reached
from rmq.site.groups import check_group

_NOT_RESET: Final = "the group is not reset there"


class ResetOptions(TypedDict):
    """What `reset` takes beside the group."""

    topic: str
    target: str
    broker: str | None
    queue: int | None


@click.command("reset", cls=ChangeCommand)
@click.argument("group", shell_complete=group_names)
@click.option("--topic", metavar="NAME", required=True, shell_complete=topic_names, help="in this topic")
@click.option("--to", "target", metavar="earliest|latest|TIME|OFFSET", required=True, help="where it goes on")
@click.option("--broker", metavar="BROKER", shell_complete=broker_names, help="only on this broker set")
@click.option("--queue", metavar="ID", type=click.IntRange(0), help="only this queue; with --broker")
@with_session
async def reset_group(session: OperatorSession, group: str, **chosen: Unpack[ResetOptions]) -> None:
    """Let a group go on at another place of a topic: messages are read again, or skipped.

    TIME is 2026-11-27T10:00:00Z, or mqadmin's 2026-11-27#10:00:00:000 in the zone of this machine; a number is an
    offset. Brokers from 5.1 on send members there (15, 222). Older ones send those that are online to a time (222),
    which takes up to 15 s; without members the offsets are committed (15).
    """
    if chosen["queue"] is not None and chosen["broker"] is None:
        raise WrongUse("--queue needs --broker: each broker set has queues with this id")
    wanted = WantedReset(group, chosen["topic"], target_of(chosen["target"]), chosen["queue"])
    route, beside = await route_at_first(session.site, wanted.topic)
    found = masters_in(route, chosen["broker"])
    gaps = beside if chosen["broker"] is None else []
    await check_group(session.site, group, found, gaps)
    planned = await plan_reset(session.site, wanted, found, route)
    rows = [row for each in planned for row in each.rows]
    if session.is_dry_run:
        session.show(rows, ResetRow)
        check_gaps(gaps, _NOT_RESET)
        return
    session.preview(rows, ResetRow)
    session.confirm(f"{_question(wanted, rows)}{not_reached(gaps)}")
    outcomes = await carry_out_all(session.site, wanted, planned)
    session.show([each.row for each in outcomes], ResetRow)
    if (failure := failure_in(outcomes)) is not None:
        raise failure
    check_gaps(gaps, _NOT_RESET)


def _question(wanted: WantedReset, rows: Sequence[ResetRow]) -> str:
    again = sum(row.messages_again or 0 for row in rows)
    skipped = sum(row.messages_skipped or 0 for row in rows)
    without = sum(row.old is None for row in rows)
    unknown = f", and {without} queues have no offset yet" if without else ""
    return (
        f"Reset group {wanted.group} in {len(rows)} queues of topic {wanted.topic}: "
        f"{again} messages are read again, {skipped} are skipped{unknown}?"
    )
