"""`rmq controller elections`: who was elected when, why, and what gives a set without master one."""

from typing import ClassVar, Final

import click
import msgspec

from rmq.cli.options import ListCommand
from rmq.cli.session import OperatorSession, with_session
from rmq.commands.live_names import broker_names
from rmq.output.rows import RowKey
from rmq.site.http_api import ApiRequest, call, controllers

#: As many as a controller keeps.
_ELECTIONS_MAX: Final = 1_000


class ElectionDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An election, as our controllers answer it by HTTP."""

    unix_ms: int
    broker_name: str
    cause: str
    result: str
    old_master: int | None
    new_master: int | None
    master_epoch: int
    times: int
    reason: str
    advice: str
    force: str


class ElectionPage(msgspec.Struct, frozen=True, kw_only=True):
    """The last elections, the newest first."""

    elections: list[ElectionDocument]


class ElectionRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One election, or several in a row that ended alike."""

    row_key: ClassVar[RowKey] = ("held_unix_ms", "broker_name")

    held_unix_ms: int
    broker_name: str
    result: str
    old_master: int | None
    new_master: int | None
    master_epoch: int
    times: int
    cause: str
    reason: str
    advice: str | None
    #: What forces a master, and what it needs.
    command: str | None


@click.command("elections", cls=ListCommand)
@click.argument("broker", required=False, shell_complete=broker_names)
@with_session
async def list_elections(session: OperatorSession, broker: str | None) -> None:
    """List the last elections of a broker set, or of all, the newest first (HTTP, our controllers).

    Where nobody was elected, advice says what to start, and command what forces a master at the cost of messages.
    """
    parameters = {"limit": str(_ELECTIONS_MAX)} | ({"prefix": broker} if broker is not None else {})
    settings = session.site.settings
    page = await call(settings, controllers(settings), ApiRequest("/v1/elections", ElectionPage, parameters))
    session.show([_row(each) for each in page.elections if broker in (None, each.broker_name)], ElectionRow)


def _row(found: ElectionDocument) -> ElectionRow:
    return ElectionRow(
        held_unix_ms=found.unix_ms,
        broker_name=found.broker_name,
        result=found.result,
        old_master=found.old_master,
        new_master=found.new_master,
        master_epoch=found.master_epoch,
        times=found.times,
        cause=found.cause,
        reason=found.reason,
        advice=found.advice or None,
        command=found.force or None,
    )
