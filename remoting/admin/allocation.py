"""Which client of a group consumes which queue of a topic, by the strategies of Java's clients. Pure.

Each client computes its own share alone, from the readable queues of a topic and the client ids that a broker lists
(38), both sorted. A client that is listed twice counts twice; what falls to its second place belongs to nobody.
Source: docs/protocol/queue-locks.md 6. Answers to AllocateMessageQueueAveragely, AllocateMessageQueueAveragelyByCircle,
AllocateMessageQueueConsistentHash, AllocateMessageQueueByMachineRoom, AllocateMachineRoomNearby, AllocateMQSubCommand.
"""

import hashlib
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Final, TypeAlias

from remoting.admin.message_queues import MessageQueue

#: Queues by client id; every client is there.
Allocation: TypeAlias = dict[str, list[MessageQueue]]
Strategy: TypeAlias = Callable[[Collection[MessageQueue], Collection[str]], Allocation]

_VIRTUAL_NODES: Final = 10
_BITS: Final = 0xFFFFFFFF
_CAPACITY_MIN: Final = 16


def by_average(queues: Collection[MessageQueue], clients: Collection[str]) -> Allocation:
    """Give each client one piece of the sorted queues (AVG, the default)."""
    return _averages(sorted(queues), sorted(clients))


def by_circle(queues: Collection[MessageQueue], clients: Collection[str]) -> Allocation:
    """Deal the sorted queues out one by one (AVG_BY_CIRCLE)."""
    dealt, places = sorted(queues), sorted(clients)
    return {client: dealt[index :: len(places)] for client, index in _first_places(places).items()}


def by_consistent_hash(queues: Collection[MessageQueue], clients: Collection[str]) -> Allocation:
    """Give each queue to the client whose virtual node follows on the circle of hashes (CONSISTENT_HASH)."""
    nodes = {
        _md5(f"{client}-{node}"): client
        for client, times in Counter(clients).items()
        for node in range(times * _VIRTUAL_NODES)
    }
    circle = sorted(nodes)
    shares: Allocation = {client: [] for client in sorted(clients)}
    if not circle:
        return shares
    for queue in sorted(queues):
        hashed = _md5(f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, queueId={queue.queue_id}]")
        shares[nodes[circle[bisect_left(circle, hashed) % len(circle)]]].append(queue)
    return shares


def by_machine_room(queues: Collection[MessageQueue], clients: Collection[str], rooms: Collection[str]) -> Allocation:
    """Share out the queues of brokers `ROOM@NAME` in some rooms; nobody has those of others (MACHINE_ROOM)."""
    kept = [queue for queue in sorted(queues) if _room_before_at(queue.broker_name) in rooms]
    places = sorted(clients)
    size, more = divmod(len(kept), len(places)) if places else (0, 0)
    return {
        client: kept[index * size : (index + 1) * size] + ([kept[size * len(places) + index]] if index < more else [])
        for client, index in _first_places(places).items()
    }


def by_nearby_room(
    queues: Collection[MessageQueue],
    clients: Collection[str],
    strategy: Strategy,
    room_of_queue: Callable[[MessageQueue], str],
    room_of_client: Callable[[str], str],
) -> Allocation:
    """Share out the queues of each room among its own clients, or among all if it has none (MACHINE_ROOM_NEARBY)."""
    shares: Allocation = {client: [] for client in sorted(clients)}
    inhabited = {room_of_client(client) for client in clients}
    # A client has the queues of its own room first, then those of rooms without clients.
    for room in sorted({room_of_queue(queue) for queue in queues}, key=lambda room: (room not in inhabited, room)):
        near = [client for client in clients if room_of_client(client) == room]
        found = strategy([queue for queue in queues if room_of_queue(queue) == room], near or clients)
        for client, share in found.items():
            shares[client] += share
    return shares


def as_allocate_mq(queues: Sequence[MessageQueue], addresses: Sequence[str]) -> Allocation:
    """Return what `mqadmin allocateMQ` prints, which is no client's assignment: AVG of what it does not sort.

    `queues` are in the order of the route. Up to 8 queues in a bucket of Java's hash set are in the right order.
    """
    capacity = _CAPACITY_MIN
    while 4 * len(queues) > 3 * capacity:
        capacity *= 2
    return _averages(sorted(queues, key=lambda queue: _bucket(queue, capacity)), addresses)


def _averages(queues: Sequence[MessageQueue], clients: Sequence[str]) -> Allocation:
    shares: Allocation = {}
    size, more = divmod(len(queues), len(clients)) if clients else (0, 0)
    for client, index in _first_places(clients).items():
        start = index * size + min(index, more)
        shares[client] = list(queues[start : start + size + (index < more)])
    return shares


def _first_places(clients: Sequence[str]) -> dict[str, int]:
    places: dict[str, int] = {}
    for index, client in enumerate(clients):
        places.setdefault(client, index)
    return places


def _md5(text: str) -> int:
    return int.from_bytes(hashlib.md5(text.encode(), usedforsecurity=False).digest()[:4], "big")


def _room_before_at(broker_name: str) -> str | None:
    """Return the room of `ROOM@NAME`; None for other names. Java's split leaves out what is blank at the end."""
    match broker_name.rstrip("@").split("@"):
        case [room, _]:
            return room
        case _:
            return None


def _bucket(queue: MessageQueue, capacity: int) -> int:
    hashed = 31 * (31 * (31 + _java_hash(queue.broker_name)) + queue.queue_id) + _java_hash(queue.topic) & _BITS
    return (hashed ^ hashed >> 16) & capacity - 1


def _java_hash(text: str) -> int:
    hashed = 0
    for character in text:
        hashed = 31 * hashed + ord(character) & _BITS
    return hashed
