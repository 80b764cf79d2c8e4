"""Requests about a broker itself: its state, its options and its replication. Pure."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from remoting.admin.admin_request import AdminRequest, command, decode_broker_body, read_nothing, reading
from remoting.protocol.codec import decode_fields
from remoting.protocol.codes import BrokerRequestCode, RequestCode
from remoting.protocol.command import RemotingCommand
from remoting.protocol.shapes.broker_clients import SCHEDULE_OFFSET_PREFIX, BrokerRuntimeFields
from remoting.protocol.shapes.broker_views import (
    BrokerStatsHeader,
    BrokerStatsView,
    EpochsView,
    HaStatusView,
)
from remoting.protocol.shapes.namesrv import KvTable

#: The option of which `has_all_ack` reads the value.
ALL_ACK: Final = "allAckInSyncStateSet"

#: The option of which `broker_name` reads the value.
_BROKER_NAME: Final = "brokerName"
_PAIR: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayLevel:
    """How far a delay level is delivered."""

    delivered_offset: int
    max_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRuntime:
    """What a broker reports about itself; None is what it does not report."""

    #: As Java names it: V5_5_0.
    version: str | None
    #: When it started, Unix ms by its own clock.
    boot_unix_ms: int | None
    commit_log_min_offset: int | None
    commit_log_max_offset: int | None
    #: Bytes of the log whose messages are not in their queues yet.
    dispatch_behind_bytes: int | None
    #: Messages a second over the last 10 s; None until the broker has run so long.
    put_tps: float | None
    #: By delay level, from 1. One that has messages is absent until the first of them was delivered (4.9).
    delay_levels: Mapping[int, DelayLevel]
    #: How long the first request to send has waited for a thread.
    send_queue_wait_ms: int | None = None
    #: How long the append that is under way has held the log.
    page_cache_lock_ms: int | None = None


def broker_runtime() -> AdminRequest[BrokerRuntime]:
    """Request what a broker reports about itself (28); one of 4.9 refuses with code 1 in its first second.

    Source: docs/protocol/broker-admin.md 25.
    """
    return AdminRequest(command(BrokerRequestCode.GET_BROKER_RUNTIME_INFO), _read_runtime)


def broker_facts() -> AdminRequest[Mapping[str, str]]:
    """Request the same (28), all that a broker reports, by its own names: other releases report more or less.

    Source: docs/protocol/broker-admin.md 25.
    """
    request = command(BrokerRequestCode.GET_BROKER_RUNTIME_INFO)
    return AdminRequest(request, lambda answer: decode_broker_body(KvTable, answer.body).table)


def broker_options(names: Collection[str]) -> AdminRequest[Mapping[str, str]]:
    """Request the values of some of a broker's options (26); one that its release does not have is absent.

    Source: docs/protocol/broker-admin.md 26.
    """

    def read(answer: RemotingCommand) -> dict[str, str]:
        pairs = (line.partition("=") for line in answer.body.decode(errors="replace").splitlines())
        return {name: value for name, _, value in pairs if name in names}

    return AdminRequest(command(RequestCode.GET_BROKER_CONFIG), read)


def broker_name() -> AdminRequest[str | None]:
    """Request the name of a broker (26); None for one that does not tell it.

    Source: docs/protocol/broker-admin.md 26.
    """
    return broker_options([_BROKER_NAME]).mapped(lambda options: options.get(_BROKER_NAME, "").strip() or None)


def has_all_ack(options: Mapping[str, str]) -> bool:
    """Return whether a broker with these options (26) acknowledges a message only once everybody in sync has it."""
    return options.get(ALL_ACK, "").strip().lower() == "true"


def ha_status() -> AdminRequest[HaStatusView]:
    """Request the replication of a broker (907, 5.0+); raises Refused with code 1 where DLedger replicates.

    Source: docs/protocol/broker-admin.md 27.
    """
    return AdminRequest(command(BrokerRequestCode.GET_BROKER_HA_STATUS), reading(HaStatusView))


def _read_runtime(answer: RemotingCommand) -> BrokerRuntime:
    table = decode_broker_body(KvTable, answer.body).table
    fields = decode_fields(BrokerRuntimeFields, table)
    levels = {
        name.removeprefix(SCHEDULE_OFFSET_PREFIX): _delay_level(value)
        for name, value in table.items()
        if name.startswith(SCHEDULE_OFFSET_PREFIX)
    }
    return BrokerRuntime(
        version=fields.broker_version_desc,
        boot_unix_ms=fields.boot_timestamp,
        commit_log_min_offset=fields.commit_log_min_offset,
        commit_log_max_offset=fields.commit_log_max_offset,
        dispatch_behind_bytes=fields.dispatch_behind_bytes,
        put_tps=_first_number(fields.put_tps or ""),
        send_queue_wait_ms=fields.send_thread_pool_queue_head_wait_time_mills,
        page_cache_lock_ms=fields.page_cache_lock_time_mills,
        delay_levels={int(level): found for level, found in levels.items() if level.isdecimal() and found is not None},
    )


def _delay_level(text: str) -> DelayLevel | None:
    numbers = text.split(",")
    if len(numbers) != _PAIR or not all(number.isdecimal() for number in numbers):
        return None
    delivered, last = map(int, numbers)
    return DelayLevel(delivered_offset=delivered, max_offset=last)


def _first_number(text: str) -> float | None:
    try:
        return float(text.split(maxsplit=1)[0])
    except (IndexError, ValueError):
        return None


def epochs_view() -> AdminRequest[EpochsView]:
    """Request the epochs of a broker's log (1007, 5.0+). Source: docs/protocol/broker-admin.md 33."""
    return AdminRequest(command(RequestCode.GET_BROKER_EPOCH_CACHE), reading(EpochsView))


def broker_stats(name: str, key: str) -> AdminRequest[BrokerStatsView]:
    """Request one of a broker's statistics (315): TOPIC_PUT_NUMS of a topic, GROUP_GET_NUMS of `topic@group`.

    Raises Refused with code 1 where nothing was counted. Source: docs/protocol/broker-admin.md 39.
    """
    request = command(BrokerRequestCode.VIEW_BROKER_STATS_DATA, BrokerStatsHeader(stats_name=name, stats_key=key))
    return AdminRequest(request, reading(BrokerStatsView))


def clean_expired_queues() -> AdminRequest[None]:
    """Remove queues whose messages have all expired (306). Source: docs/protocol/broker-admin.md 37."""
    return AdminRequest(command(BrokerRequestCode.CLEAN_EXPIRED_CONSUMEQUEUE), read_nothing)


def clean_unused_topics() -> AdminRequest[None]:
    """Remove queues of topics that a broker does not have (316). Source: docs/protocol/broker-admin.md 37."""
    return AdminRequest(command(BrokerRequestCode.CLEAN_UNUSED_TOPIC), read_nothing)


def delete_expired_commit_logs() -> AdminRequest[None]:
    """Remove files of the log that have expired, at once (329, 4.9.4+). Source: docs/protocol/broker-admin.md 37."""
    return AdminRequest(command(BrokerRequestCode.DELETE_EXPIRED_COMMITLOG), read_nothing)
