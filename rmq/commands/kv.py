"""`rmq kv`: each NameServer has its own entries, so all of them are read and written."""

from typing import ClassVar

import click
import msgspec

from remoting.admin.name_servers import delete_kv, kv_namespace, kv_value, put_kv
from rmq.cli.options import BlankArgument, ChangeCommand, ListCommand, SiteCommand
from rmq.cli.session import OperatorSession, with_session
from rmq.failures import UnknownName, unknown_sentence
from rmq.output.formats import RowKey
from rmq.site.changes import at_every_name_server
from rmq.site.site import check_complete


class KvRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    row_key: ClassVar[RowKey] = ("key",)

    key: str
    value: str
    #: The NameServers that have it so; None for all that answer.
    only_at: list[str] | None = None


class KvValueRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    address: str
    #: None where it has no such entry.
    value: str | None


@click.command("list", cls=ListCommand)
@click.argument("namespace")
@with_session
async def list_entries(session: OperatorSession, namespace: str) -> None:
    """List the entries of a namespace, such as ORDER_TOPIC_CONFIG, at all NameServers (request 219)."""
    answers = await session.site.at_name_servers(kv_namespace(namespace))
    tables = {each.address: each.result for each in answers if each.error is None}
    if all(table is None for table in tables.values()):
        raise UnknownName(f"no namespace {namespace}")
    pairs = sorted({pair for table in tables.values() for pair in (table or {}).items()})
    rows = []
    for key, value in pairs:
        owners = [address for address, table in tables.items() if table is not None and table.get(key) == value]
        rows.append(KvRow(key=key, value=value, only_at=None if len(owners) == len(tables) else owners))
    session.show(rows, KvRow)
    check_complete(answers, "NameServers")


@click.command("get", cls=SiteCommand)
@click.argument("namespace")
@click.argument("key")
@with_session
async def get_entry(session: OperatorSession, namespace: str, key: str) -> None:
    """Show the value of an entry at every NameServer (request 101)."""
    answers = await session.site.at_name_servers(kv_value(namespace, key))
    rows = [KvValueRow(address=each.address, value=each.result) for each in answers if each.error is None]
    if all(row.value is None for row in rows):
        known = (await session.site.first_answer(kv_namespace(namespace))).result or {}
        raise UnknownName(unknown_sentence(f"entry in {namespace} with key", key, known))
    session.show(rows, KvValueRow)
    check_complete(answers, "NameServers")


@click.command("put", cls=ChangeCommand)
@click.argument("namespace")
@click.argument("key")
@click.argument("value", cls=BlankArgument)
@with_session
async def put_entry(session: OperatorSession, namespace: str, key: str, value: str) -> None:
    """Set an entry at every NameServer (request 100)."""
    what = f"{namespace} {key} = {value}"
    changes = at_every_name_server(session.site, what, put_kv(namespace, key, value))
    await session.change([changes], f"Set {what} at {len(changes)} NameServers?")


@click.command("delete", cls=ChangeCommand)
@click.argument("namespace")
@click.argument("key")
@with_session
async def delete_entry(session: OperatorSession, namespace: str, key: str) -> None:
    """Remove an entry at every NameServer (request 102); a missing entry is no error, as in mqadmin."""
    what = f"{namespace} {key}"
    changes = at_every_name_server(session.site, f"remove {what}", delete_kv(namespace, key))
    await session.change([changes], f"Remove {what} at {len(changes)} NameServers?")
