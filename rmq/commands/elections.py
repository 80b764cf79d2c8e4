"""`rmq controller elections`: who was elected when, why, and what gives a set without master one."""

from typing import ClassVar, Final

import click
import msgspec

from rmq.cli.options import ListCommand
from rmq.cli.session import OperatorSession, with_session
from rmq.commands.controller_changes import stored_set
from rmq.commands.live_names import broker_names
from rmq.output.rows import RowKey
from rmq.site.http_api import ApiRequest, call, controllers

#: As many as a controller keeps.
_ELECTIONS_MAX: Final = 1_000


class ElectionRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One election, or several in a row that ended alike, as our controllers answer it by HTTP."""

    row_key: ClassVar[RowKey] = ("unix_ms", "broker_name")

    unix_ms: int
    broker_name: str
    result: str
    old_master: int | None
    new_master: int | None
    master_epoch: int
    times: int = 1
    cause: str
    reason: str
    #: What to start, where there is no master; blank from older controllers.
    advice: str = ""
    #: Command that forces a master, and what it needs.
    force: str = ""


class ElectionPage(msgspec.Struct, frozen=True, kw_only=True):
    """The last elections, the newest first."""

    elections: list[ElectionRow]


@click.command("elections", cls=ListCommand)
@click.argument("broker", required=False, shell_complete=broker_names)
@with_session
async def list_elections(session: OperatorSession, broker: str | None) -> None:
    """List the last elections of a broker set, or of all, the newest first (HTTP, our controllers).

    Where nobody was elected, advice says what to start, and force what forces a master at the cost of messages.
    """
    parameters = {"limit": str(_ELECTIONS_MAX)} | ({"prefix": broker} if broker is not None else {})
    settings = session.site.settings
    page = await call(settings, controllers(settings), ApiRequest("/v1/elections", ElectionPage, parameters))
    rows = [each for each in page.elections if broker in (None, each.broker_name)]
    if broker is not None and not rows:
        await stored_set(session.site, broker)
    session.show(rows, ElectionRow)
