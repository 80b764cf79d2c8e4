"""Requests about single clients: the queues that a consumer holds, and the producers of a broker. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from remoting.admin.admin_request import AdminRequest, check_body_bytes, command, decode_broker_body, reading
from remoting.admin.message_queues import MessageQueue, by_queue
from remoting.protocol.codec import decode_fields
from remoting.protocol.codes import BrokerRequestCode
from remoting.protocol.command import RemotingCommand
from remoting.protocol.shapes.broker_clients import (
    AllProducersBody,
    ConsumerRunningInfoHeader,
    PoppedQueueView,
    ProducerInfoBody,
    RunningConsumerBody,
    RunningProperties,
    RunningQueueView,
)

#: The longest answer of a client that is read: some 10,000 queues. Whoever sends heartbeats to a broker can answer.
RUNNING_BYTES_MAX: Final = 4 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldQueue:
    """A queue that a consumer holds now; None is what its client does not report."""

    #: The client's own position, which the broker gets up to 5 s later; None before the first pull too.
    commit_offset: int | None
    #: Messages that it has pulled and not consumed.
    cached_messages: int | None
    #: Messages of an orderly consumer that it consumes now.
    messages_in_work: int | None
    #: Whether an orderly consumer has the broker's lock. Other consumers report True too: `is_orderly` tells.
    is_locked: bool | None
    #: The queue is not its own any more, and the last messages are being consumed.
    is_dropped: bool | None
    #: Unix ms by the client's clock; None for never.
    last_lock_unix_ms: int | None
    last_pull_unix_ms: int | None
    last_consume_unix_ms: int | None
    #: Up to where it has pulled, if it has messages that it has not consumed.
    pulled_until: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningConsumer:
    """What one consumer does now, over all topics and brokers."""

    queues: Mapping[MessageQueue, HeldQueue]
    #: A queue id of -1 is all queues of a broker set.
    pop_queues: Mapping[MessageQueue, PoppedQueueView]
    topics: frozenset[str]
    is_orderly: bool | None
    #: CONSUME_PASSIVELY of push consumers, CONSUME_ACTIVELY of pull consumers, CONSUME_POP.
    consume_type: str | None
    #: As Java names it: V5_5_0.
    client_version: str | None
    #: Unix ms by the client's clock.
    started_unix_ms: int | None


def running_consumer(group: str, client_id: str) -> AdminRequest[RunningConsumer]:
    """Request what a consumer does (307); the broker passes the request on and waits up to 10 s.

    Raises Refused with code 1 if the client is not connected to this broker, with 207 if it does not answer, and
    BodyError for an answer of more than RUNNING_BYTES_MAX. A plain pull consumer holds no queues. Source:
    docs/protocol/broker-admin.md 18.
    """
    header = ConsumerRunningInfoHeader(consumer_group=group, client_id=client_id)
    return AdminRequest(command(BrokerRequestCode.GET_CONSUMER_RUNNING_INFO, header), _read_running)


def producers() -> AdminRequest[Mapping[str, list[ProducerInfoBody]]]:
    """Request the producers that are connected to this broker (328, 4.9.4+), by group; heartbeats go only to masters.

    Which topics they write to is not known. Source: docs/protocol/broker-admin.md 19.
    """
    request = command(BrokerRequestCode.GET_ALL_PRODUCER_INFO)
    return AdminRequest(request, reading(AllProducersBody)).mapped(lambda found: found.data)


def _read_running(answer: RemotingCommand) -> RunningConsumer:
    check_body_bytes(answer.body, RUNNING_BYTES_MAX)
    body = decode_broker_body(RunningConsumerBody, answer.body)
    properties = decode_fields(RunningProperties, body.properties)
    return RunningConsumer(
        queues={queue: _held(each) for queue, each in by_queue(body.mq_table).items()},
        pop_queues=by_queue(body.mq_pop_table),
        topics=frozenset(each.topic for each in body.subscription_set if each.topic is not None),
        is_orderly=properties.is_orderly,
        consume_type=properties.consume_type,
        client_version=properties.client_version,
        started_unix_ms=_time(properties.start_timestamp),
    )


def _held(body: RunningQueueView) -> HeldQueue:
    return HeldQueue(
        commit_offset=body.commit_offset if body.commit_offset is not None and body.commit_offset >= 0 else None,
        cached_messages=body.cached_msg_count,
        messages_in_work=body.transaction_msg_count,
        is_locked=body.locked,
        is_dropped=body.is_dropped,
        last_lock_unix_ms=_time(body.last_lock_timestamp),
        last_pull_unix_ms=_time(body.last_pull_timestamp),
        last_consume_unix_ms=_time(body.last_consume_timestamp),
        pulled_until=body.cached_msg_max_offset + 1 if body.cached_msg_max_offset and body.cached_msg_count else None,
    )


def _time(unix_ms: int | None) -> int | None:
    """Return a time; clients write 0 for never."""
    return unix_ms if unix_ms is not None and unix_ms > 0 else None
