"""consumerStatus: what the consumers of a group do; of each one a file is written, as mqadmin writes it."""

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from remoting.admin.group_views import running_view
from remoting.admin.message_queues import by_queue
from remoting.clock import SystemClock
from remoting.protocol.shapes.broker_clients import RunningConsumerView, RunningQueueView
from rmq.failures import CommandFailed
from rmq.mqadmin.admin import Admin, command
from rmq.mqadmin.java.hash_order import concurrent_order
from rmq.mqadmin.java.options import CommandLine, switch, value
from rmq.mqadmin.java.texts import java_format, java_text, version_text
from rmq.mqadmin.progress import consumers_of, retry_address

_START: Final = "PROP_CONSUMER_START_TIMESTAMP"
_UNIX_MS: Final = re.compile(r"\d{1,18}", re.ASCII)
_TYPE: Final = "PROP_CONSUME_TYPE"
_ORDERLY: Final = "PROP_CONSUMEORDERLY"
_TIMES: Final = ("last_lock_timestamp", "last_pull_timestamp", "last_consume_timestamp")
_PUSH: Final = "CONSUME_PASSIVELY"
#: A consumer that has run so long has its subscriptions.
_SETTLED_MS: Final = 2 * 60 * 1000
_BLOCKED_MS: Final = 60 * 1000


@command(
    "consumerStatus",
    value("g", "consumerGroup", "consumer group name", required=True),
    value("i", "clientId", "The consumer's client id"),
    value("b", "brokerAddr", "broker address"),
    switch("s", "jstack", "Run jstack command in the consumer progress"),
)
async def _consumer_status(admin: Admin, line: CommandLine) -> None:
    group, with_stacks = line.needed("g"), line.has("s")
    consumers = await consumers_of(admin, group, line.text("b"))
    client_id = line.text("i")
    if client_id is not None:
        admin.write(running_text(await _running(admin, group, client_id, with_stacks=with_stacks)))
        return
    admin.print_heads("%-10s %-40s %-20s %s%n", "#Index|#ClientId|#Version|#ConsumerRunningInfoFile")
    unix_ms = SystemClock().unix_ms()
    found: dict[str, RunningConsumerView] = {}
    files: dict[str, str] = {}
    for client in consumers.clients:
        name = client.client_id
        try:
            found[name] = await _running(admin, group, name, with_stacks=with_stacks)
            file = _written(found[name], _file_name(name, files), unix_ms)
        except CommandFailed as failure:
            admin.note_failure(failure)
            continue
        admin.printf("%-10d %-40s %-20s %s%n", len(found), name, version_text(client.version or 0), file)
    if found:
        _print_summary(admin, found, unix_ms)


async def _running(admin: Admin, group: str, client_id: str, *, with_stacks: bool) -> RunningConsumerView:
    address = await retry_address(admin, group) or ""
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


def running_text(found: RunningConsumerView) -> str:
    return "".join(_parts(found))


def _parts(found: RunningConsumerView) -> Iterator[str]:
    yield "#Consumer Properties#\n"
    for name in concurrent_order(found.properties):
        yield java_format("%-40s: %s%n", name, found.properties[name])
    yield "\n\n#Consumer Subscription#\n"
    for number, each in enumerate(sorted(found.subscription_set, key=lambda taken: taken.topic or ""), start=1):
        yield java_format(
            "%03d Topic: %-40s ClassFilter: %-8s SubExpression: %s%n",
            number,
            each.topic,
            each.class_filter_mode,
            each.sub_string,
        )
    yield from _queues(found)
    yield from _rates(found)
    yield "\n\n#User Consume Info#\n"
    for name in sorted(found.user_consumer_info):
        yield java_format("%-40s: %s%n", name, found.user_consumer_info[name])
    if found.jstack is not None:
        yield "\n\n#Consumer jstack#\n"
        yield "\n".join(java_format("%s", each) for each in found.jstack.split("\n"))


def _queues(found: RunningConsumerView) -> Iterator[str]:
    held, popped = by_queue(found.mq_table), by_queue(found.mq_pop_table)
    yield "\n\n#Consumer Offset#\n"
    yield java_format("%-64s  %-32s  %-4s  %-20s%n", "#Topic", "#Broker Name", "#QID", "#Consumer Offset")
    for queue in sorted(held):
        place = (queue.topic, queue.broker_name, queue.queue_id)
        yield java_format("%-32s  %-32s  %-4d  %-20d%n", *place, held[queue].commit_offset or 0)
    yield "\n\n#Consumer MQ Detail#\n"
    yield java_format("%-64s  %-32s  %-4s  %-20s%n", "#Topic", "#Broker Name", "#QID", "#ProcessQueueInfo")
    for queue in sorted(held):
        place = (queue.topic, queue.broker_name, queue.queue_id)
        yield java_format("%-64s  %-32s  %-4d  %s%n", *place, _held_text(held[queue]))
    yield "\n\n#Consumer Pop Detail#\n"
    yield java_format("%-32s  %-32s  %-4s  %-20s%n", "#Topic", "#Broker Name", "#QID", "#ProcessQueueInfo")
    for queue in sorted(popped):
        each = popped[queue]
        yield java_format(
            "%-32s  %-32s  %-4d  PopProcessQueueInfo [waitAckCount:%d, droped:%s, lastPopTimestamp:%d]%n",
            queue.topic,
            queue.broker_name,
            queue.queue_id,
            each.wait_ack_count or 0,
            each.is_dropped or False,
            each.last_pop_timestamp or 0,
        )


def _rates(found: RunningConsumerView) -> Iterator[str]:
    yield "\n\n#Consumer RT&TPS#\n"
    yield java_format(
        "%-64s  %14s %14s %14s %14s %18s %25s%n",
        "#Topic",
        "#Pull RT",
        "#Pull TPS",
        "#Consume RT",
        "#ConsumeOK TPS",
        "#ConsumeFailed TPS",
        "#ConsumeFailedMsgsInHour",
    )
    for topic in sorted(found.status_table):
        each = found.status_table[topic]
        yield java_format(
            "%-32s  %14.2f %14.2f %14.2f %14.2f %18.2f %25d%n",
            topic,
            each.pull_rt,
            each.pull_tps,
            each.consume_rt,
            each.consume_ok_tps,
            each.consume_failed_tps,
            each.consume_failed_msgs,
        )


def _held_text(found: RunningQueueView) -> str:
    """Return `ProcessQueueInfo.toString`."""
    texts = []
    for field in msgspec.structs.fields(RunningQueueView):
        value = getattr(found, field.name)
        is_switch = field.encode_name in ("locked", "droped")
        text = java_text(bool(value)) if is_switch else str(value or 0)
        texts.append(f"{field.encode_name}={_short_time(value or 0) if field.name in _TIMES else text}")
    return f"ProcessQueueInfo [{', '.join(texts)}]"


def _short_time(unix_ms: int) -> str:
    return f"{time.strftime('%Y%m%d%H%M%S', time.localtime(unix_ms // 1000))}{unix_ms % 1000:03d}"


def have_same_subscriptions(consumers: list[RunningConsumerView], unix_ms: int) -> bool:
    """Return whether all consumers of a group take the same; young ones and pull consumers are taken to."""
    first = consumers[0]
    started = first.properties.get(_START, "")
    # A member may report anything; without a start it is taken as an old one.
    started_unix_ms = int(started) if _UNIX_MS.fullmatch(started) else 0
    if first.properties.get(_TYPE) != _PUSH or unix_ms - started_unix_ms <= _SETTLED_MS:
        return True
    taken = [
        {(each.topic, each.sub_string, each.expression_type) for each in one.subscription_set} for one in consumers
    ]
    return all(each == taken[0] for each in taken)


def stuck_queues_text(client_id: str, found: RunningConsumerView, unix_ms: int) -> str:
    """Return the lines about queues of a push consumer that it cannot lock, unlock or consume."""
    if found.properties.get(_TYPE) != _PUSH:
        return ""
    is_orderly = found.properties.get(_ORDERLY, "").lower() == "true"
    lines = []
    held = by_queue(found.mq_table)
    for queue in sorted(held):
        trouble = _lock_trouble(held[queue], unix_ms) if is_orderly else _delay(held[queue], unix_ms)
        if trouble:
            place = java_format(
                "%s MessageQueue [topic=%s, brokerName=%s, queueId=%d]",
                client_id,
                queue.topic,
                queue.broker_name,
                queue.queue_id,
            )
            lines.append(f"{place} {trouble}\n")
    return "".join(lines)


def _lock_trouble(found: RunningQueueView, unix_ms: int) -> str:
    if not found.locked:
        return f"can't lock for a while, {unix_ms - (found.last_lock_timestamp or 0)}ms"
    if found.is_dropped and (found.try_unlock_times or 0) > 0:
        return f"unlock {found.try_unlock_times} times, still failed"
    return ""


def _delay(found: RunningQueueView, unix_ms: int) -> str:
    late_ms = unix_ms - (found.last_consume_timestamp or 0)
    is_late = late_ms > _BLOCKED_MS and (found.cached_msg_count or 0) > 0
    return f"can't consume for a while, maybe blocked, {late_ms}ms" if is_late else ""
