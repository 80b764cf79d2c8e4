"""`rmq broker forget`, by the HTTP API of our NameServers: a set that is away does not come back."""

from typing import Literal

import click
import msgspec

from rmq.cli.options import ChangeCommand
from rmq.cli.session import OperatorSession, with_session
from rmq.failures import CommandFailed, PartlyDone, UnknownName
from rmq.site.brokers import away_sentence
from rmq.site.changes import ChangeRow
from rmq.site.http_api import ApiRequest, HttpServers, call, path_of
from rmq.site.nearest import unknown_sentence


class AnyAnswer(msgspec.Struct, frozen=True):
    """That a NameServer has done it is all that matters of its answer."""


@click.command("forget", cls=ChangeCommand)
@click.argument("broker")
@with_session
async def forget_set(session: OperatorSession, broker: str) -> None:
    """Let every NameServer forget a broker set that was decommissioned: it is shown as away no more.

    Needs --namesrv-http and the admin token. What controllers have stored of it is removed by `rmq controller clean`.
    """
    known = await session.site.cluster()
    away = known.away.get(broker)
    if broker in known.broker_sets:
        raise CommandFailed(f"{broker} is registered: there is nothing to forget")
    if away is None:
        raise UnknownName(unknown_sentence("broker set that is away named", broker, known.away))
    settings, what = session.site.settings, f"forget {broker}"
    if session.is_dry_run:
        request = ApiRequest(path_of("broker-sets", "away"), AnyAnswer, {"limit": "1"})
    else:
        session.confirm(f"Forget {broker}, {away_sentence(away)}?")
        request = ApiRequest(path_of("broker-sets", "away", broker), AnyAnswer, method="DELETE")
    state: Literal["planned", "done"] = "planned" if session.is_dry_run else "done"
    rows: list[ChangeRow] = []
    failures: list[CommandFailed] = []
    for url in settings.namesrv_http:
        try:
            await call(settings, HttpServers((url,), "NameServer", "--namesrv-http"), request)
            rows.append(ChangeRow(address=url, change=what, state=state))
        except UnknownName:
            rows.append(ChangeRow(address=url, change=what, state=state, detail="it knew nothing of it"))
        except CommandFailed as failure:
            failures.append(failure)
            rows.append(ChangeRow(address=url, change=what, state="failed", detail=str(failure)))
    session.show(rows, ChangeRow)
    if failures:
        raise failures[0] if len(failures) == len(rows) else PartlyDone("; ".join(map(str, failures)))
