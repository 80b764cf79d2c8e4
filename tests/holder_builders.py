"""Answers of clients about the queues that they hold, and what brokers list."""

from controller.offsets.locks.group_members import ListedMembers
from controller.offsets.locks.holders import ClientAnswer, Confirmation, GroupMember, QueueHolders
from remoting.admin.clients import HeldQueue, RunningConsumer
from remoting.admin.groups import GroupClient, GroupConnections
from remoting.admin.message_queues import MessageQueue

GROUP = "g1"
BROKER = "broker-a"
#: The clock of the clients, when the clock of the manager is at 0.
CLIENTS_UNIX_MS = 1_700_000_000_000


def a_queue(queue_id=0, *, broker_name=BROKER, topic="TopicTest"):
    return MessageQueue(topic=topic, broker_name=broker_name, queue_id=queue_id)


def a_member(client_id="c1", group=GROUP):
    return GroupMember(group, client_id)


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


def an_answer(at_ms, client_id="c1", *queue_ids, group=GROUP, is_orderly=True, took_ms=10, version="V5_5_0", **held):
    """Return what a client answers, requested at `at_ms`; without `queue_ids` it holds nothing."""
    queues = {a_queue(each): a_held_queue(**held) for each in queue_ids}
    return ClientAnswer(
        member=a_member(client_id, group),
        confirmed=Confirmation(at_ms, at_ms + took_ms),
        consumer=a_consumer(queues, is_orderly=is_orderly, version=version),
    )


def a_table(*answers):
    table = QueueHolders()
    for each in answers:
        table.record(each)
    return table


def connections(*client_ids, model="CLUSTERING", kind="CONSUME_PASSIVELY"):
    clients = tuple(GroupClient(client_id=each, address=None, language=None, version=None) for each in client_ids)
    return GroupConnections(clients=clients, consume_type=kind, message_model=model, subscriptions={})


def members_at(lists, *, at_ms=0, group=GROUP, **kind):
    """Return the members of a group; `lists` has by the address of a broker the client ids that it lists."""
    members = ListedMembers()
    for address, client_ids in lists.items():
        members.record(address, group, connections(*client_ids, **kind), at_ms)
    return members
