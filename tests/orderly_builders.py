"""Answers of clients of orderly groups, and what brokers list of these."""

from fakes.orderly_broker import BROKER, GROUP

from offsets.order.holders import Confirmation, GroupQueue, Holders, Member, OrderlyGroup
from offsets.values import SetName
from remoting.admin.clients import HeldQueue, RunningConsumer
from remoting.admin.groups import GroupClient, GroupConnections
from remoting.admin.message_queues import MessageQueue

CLUSTER = "DefaultCluster"
ORDERLY = OrderlyGroup(CLUSTER, GROUP)
SET = SetName(CLUSTER, BROKER)
FIRST, SECOND = "10.0.0.1:10911", "10.0.0.2:10911"
#: The clock of the clients, when the clock of the manager is at 0.
CLIENTS_UNIX_MS = 1_700_000_000_000


def a_queue(queue_id=0, *, broker_name=BROKER, topic="TopicTest"):
    return MessageQueue(topic=topic, broker_name=broker_name, queue_id=queue_id)


def a_group_queue(queue_id=0):
    return GroupQueue(ORDERLY, a_queue(queue_id))


def a_member(client_id="c1", of=ORDERLY):
    return Member(of, client_id)


def a_held_queue(*, locked_at_ms=0, is_locked=True, is_dropped=False, in_work=0, pulled_at_ms=None):
    """Return a held queue; `locked_at_ms` is by the clock of the manager, None for a client without such a time."""
    return HeldQueue(
        commit_offset=None,
        cached_messages=0,
        messages_in_work=in_work,
        is_locked=is_locked,
        is_dropped=is_dropped,
        last_lock_unix_ms=None if locked_at_ms is None else CLIENTS_UNIX_MS + locked_at_ms,
        last_pull_unix_ms=None if pulled_at_ms is None else CLIENTS_UNIX_MS + pulled_at_ms,
        last_consume_unix_ms=None,
    )


def a_consumer(queues, *, is_orderly=True, version="V5_5_0"):
    return RunningConsumer(
        queues=queues,
        pop_queues={},
        topics=frozenset(),
        is_orderly=is_orderly,
        consume_type="CONSUME_PASSIVELY",
        client_version=version,
        started_unix_ms=None,
    )


def connections(*client_ids, model="CLUSTERING", kind="CONSUME_PASSIVELY"):
    clients = tuple(GroupClient(client_id=name, address=None, language=None, version=None) for name in client_ids)
    return GroupConnections(clients=clients, consume_type=kind, message_model=model, subscriptions={})


def listed(lists, *, at_ms=0, of=ORDERLY, **kind):
    """Return holders of whom only lists are known; `lists` has the client ids by the address of a broker."""
    holders = Holders()
    for address, client_ids in lists.items():
        holders.record_list(address, of, connections(*client_ids, **kind), at_ms)
    return holders


def answer(holders, at_ms, client_id, *queue_ids, of=ORDERLY, took_ms=10, is_orderly=True, version="V5_5_0", **held):
    """Let a client answer a request of `at_ms`, and return the queues that changed; a new one is listed first."""
    member = a_member(client_id, of)
    if member not in set(holders.members()):
        known = [name for _, name in holders.members_of(of)]
        holders.record_list(FIRST, of, connections(*known, client_id), 0)
    consumer = a_consumer(
        {a_queue(queue_id): a_held_queue(**held) for queue_id in queue_ids}, is_orderly=is_orderly, version=version
    )
    return holders.record_answer(member, consumer, Confirmation(at_ms, at_ms + took_ms))


def held_by(*rows):
    """Return holders with some answers: (at_ms, client id, queue ids...)."""
    holders = Holders()
    for at_ms, client_id, *queue_ids in rows:
        answer(holders, at_ms, client_id, *queue_ids)
    return holders
