"""`rmq broker drain-write` and `restore-write`: what every NameServer lets producers do with a broker set.

Nothing changes at the broker. It lasts until the broker registers with another data version, as after a change of a
topic, or leaves (docs/protocol/namesrv.md 2.12).
"""

from collections.abc import Callable

import click

from remoting.admin.admin_request import AdminRequest
from remoting.admin.name_servers import add_write_perm, wipe_write_perm
from rmq.cli.options import ChangeCommand
from rmq.cli.session import OperatorSession, with_session
from rmq.commands.live_names import broker_names
from rmq.site.brokers import set_of
from rmq.site.changes import at_every_name_server


@click.command("drain-write", cls=ChangeCommand)
@click.argument("broker", shell_complete=broker_names)
@with_session
async def drain_write(session: OperatorSession, broker: str) -> None:
    """Take the write permission of a broker set from all its topics, at every NameServer (request 205).

    Producers stop to send to it with their next route, within 30 s; consumers read on. It ends when the broker
    registers with another data version.
    """
    await _at_all(session, broker, "drain-write", wipe_write_perm)


@click.command("restore-write", cls=ChangeCommand)
@click.argument("broker", shell_complete=broker_names)
@with_session
async def restore_write(session: OperatorSession, broker: str) -> None:
    """Give all topics of a broker set read and write permission, at every NameServer (request 327).

    Also those that were never to be written to: until the broker registers again, every topic has permission 6.
    """
    await _at_all(session, broker, "restore-write", add_write_perm)


async def _at_all(
    session: OperatorSession, broker: str, verb: str, request: Callable[[str], AdminRequest[int]]
) -> None:
    # An unknown broker would be answered with 0 topics.
    set_of(await session.site.cluster(), broker)
    wanted = request(broker).mapped(lambda topics: f"{topics} topics")
    changes = at_every_name_server(session.site, f"{verb} {broker}", wanted)
    await session.change([changes], f"{verb} {broker} at {len(changes)} NameServers?")
