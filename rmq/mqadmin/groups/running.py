"""consumerStatus: what the consumers of a group do; of each one a file is written, as mqadmin writes it."""

from pathlib import Path
from typing import Final

from remoting.admin.group_views import running_view
from remoting.clock import SystemClock
from remoting.protocol.shapes.group_views import RunningConsumerView
from rmq.failures import CommandFailed
from rmq.mqadmin.admin import Admin, MqadminCommand, addresses_in
from rmq.mqadmin.consume_stats import consumers_of
from rmq.mqadmin.groups.running_texts import have_same_subscriptions, running_text, stuck_queues_text
from rmq.mqadmin.java.command_line import CommandLine
from rmq.mqadmin.java.options import options_of, switch, value
from rmq.mqadmin.java.versions import version_text

_RETRY: Final = "%RETRY%"


async def _show(admin: Admin, line: CommandLine) -> None:
    group, with_stacks = line.needed("g"), line.has("s")
    consumers = await consumers_of(admin, group, line.text("b"))
    client_id = line.text("i")
    if client_id is not None:
        admin.write(running_text(await _running(admin, group, client_id, with_stacks=with_stacks)))
        return
    admin.printf("%-10s %-40s %-20s %s%n", "#Index", "#ClientId", "#Version", "#ConsumerRunningInfoFile")
    unix_ms = SystemClock().unix_ms()
    found: dict[str, RunningConsumerView] = {}
    files: dict[str, str] = {}
    for client in consumers.connection_set:
        name = client.client_id or ""
        try:
            found[name] = await _running(admin, group, name, with_stacks=with_stacks)
            file = _written(found[name], _file_name(name, files), unix_ms)
        except CommandFailed as failure:
            admin.note_failure(failure)
            continue
        admin.printf("%-10d %-40s %-20s %s%n", len(found), name, version_text(client.version), file)
    if found:
        _print_summary(admin, found, unix_ms)


async def _running(admin: Admin, group: str, client_id: str, *, with_stacks: bool) -> RunningConsumerView:
    brokers = (await admin.route(f"{_RETRY}{group}")).broker_datas
    address = next(iter(addresses_in(brokers)), "")
    return await admin.call(address, running_view(group, client_id, with_stacks=with_stacks))


def _file_name(client_id: str, files: dict[str, str]) -> str:
    """Return the name of a client's file, and note it in `files`, client ids by name. A client chooses its own id."""
    plain = client_id.replace("/", "_").replace("\x00", "_")
    plain = plain if plain.strip(".") else "_"
    name, number = plain, 1
    while files.setdefault(name, client_id) != client_id:
        number += 1
        name = f"{plain}-{number}"
    return name


def _written(found: RunningConsumerView, name: str, unix_ms: int) -> str:
    """Write the file of a consumer below the folder of now; raises CommandFailed."""
    file = Path(str(unix_ms), name)
    try:
        file.parent.mkdir(exist_ok=True)
        file.write_text(running_text(found))
    except OSError as error:
        raise CommandFailed(f"{file} cannot be written: {error.strerror or error}") from None
    return str(file)


def _print_summary(admin: Admin, found: dict[str, RunningConsumerView], unix_ms: int) -> None:
    names = sorted(found)
    if not have_same_subscriptions([found[name] for name in names], unix_ms):
        admin.printf("%n%nWARN: Different subscription in the same group of consumer!!!")
        return
    admin.printf("%n%nSame subscription in the same group of consumer%n%nRebalance %s%n", "OK")
    for name in names:
        admin.write(stuck_queues_text(name, found[name], unix_ms))


CONSUMER_STATUS: Final = MqadminCommand(
    options_of(
        value("g", "consumerGroup", "consumer group name", required=True),
        value("i", "clientId", "The consumer's client id"),
        value("b", "brokerAddr", "broker address"),
        switch("s", "jstack", "Run jstack command in the consumer progress"),
    ),
    _show,
)
