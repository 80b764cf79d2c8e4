"""Which client gets which queue: the cases of docs/protocol/queue-locks.md 6, which Java's classes have answered."""

from functools import partial

import pytest

from remoting.admin.allocation import (
    as_allocate_mq,
    by_average,
    by_circle,
    by_consistent_hash,
    by_machine_room,
    by_nearby_room,
)
from remoting.admin.message_queues import MessageQueue

CLIENTS = ["c1", "c2", "c3"]


def queues(topic="orders", **counts):
    """Return queues by the broker's name and how many it has; from the last one on, as nobody promises an order."""
    return [
        MessageQueue(topic=topic, broker_name=name, queue_id=queue)
        for name, count in reversed(counts.items())
        for queue in reversed(range(count))
    ]


def shares(allocation):
    """Return the shares in the order of clients, as texts."""
    return [" ".join(f"{each.broker_name}{each.queue_id}" for each in allocation[client]) for client in allocation]


@pytest.mark.parametrize(
    ("counts", "clients", "expected"),
    [
        ({"a": 8}, 3, ["a0 a1 a2", "a3 a4 a5", "a6 a7"]),
        ({"a": 4}, 5, ["a0", "a1", "a2", "a3", ""]),
        ({"a": 4, "b": 4}, 3, ["a0 a1 a2", "a3 b0 b1", "b2 b3"]),
        ({"a": 12}, 3, ["a0 a1 a2 a3", "a4 a5 a6 a7", "a8 a9 a10 a11"]),
    ],
)
def test_average_gives_each_client_one_piece(counts, clients, expected):
    assert shares(by_average(queues(**counts), [f"c{n}" for n in reversed(range(clients))])) == expected


def test_growing_from_8_to_12_queues_moves_three_of_the_old_ones():
    before, after = (by_average(queues(a=count), CLIENTS) for count in (8, 12))
    owners = {queue: client for client, share in after.items() for queue in share}
    moved = [queue for client, share in before.items() for queue in share if owners[queue] != client]
    assert len(moved) == 3


def test_circle_deals_queues_out():
    assert shares(by_circle(queues(a=8), CLIENTS)) == ["a0 a3 a6", "a1 a4 a7", "a2 a5"]


def test_consistent_hash_gives_queues_to_the_next_virtual_node():
    clients = ["10.0.0.1@100", "10.0.0.2@200", "10.0.0.3@300"]
    allocation = by_consistent_hash(queues("TopicTest", **{"broker-a": 8}), clients)
    assert [[each.queue_id for each in allocation[client]] for client in clients] == [[0, 2], [1, 5, 6, 7], [3, 4]]


def test_queues_of_other_rooms_belong_to_nobody():
    found = by_machine_room(queues(**{"r1@a": 3, "r2@b": 3, "r3@c": 3}), ["c1", "c2", "c3", "c4"], {"r1", "r2"})
    assert shares(found) == ["r1@a0 r2@b1", "r1@a1 r2@b2", "r1@a2", "r2@b0"]


def test_queues_of_a_room_without_clients_are_shared_by_all():
    first_part = lambda name: name.split("-")[0]  # noqa: E731
    found = by_nearby_room(
        queues(**{"r1-a": 4, "r2-b": 4, "r3-c": 4}),
        ["r1-c1", "r1-c2", "r2-c3"],
        by_average,
        room_of_queue=lambda queue: first_part(queue.broker_name),
        room_of_client=first_part,
    )
    assert shares(found) == [
        "r1-a0 r1-a1 r3-c0 r3-c1",
        "r1-a2 r1-a3 r3-c2",
        "r2-b0 r2-b1 r2-b2 r2-b3 r3-c3",
    ]


def test_the_second_share_of_a_client_that_is_listed_twice_belongs_to_nobody():
    assert shares(by_average(queues(a=6), ["c1", "c1", "c2"])) == ["a0 a1", "a4 a5"]


@pytest.mark.parametrize(
    "strategy", [by_average, by_circle, by_consistent_hash, partial(by_machine_room, rooms={"r1"}), as_allocate_mq]
)
def test_a_group_without_clients_has_no_shares_and_a_topic_without_queues_gives_nothing(strategy):
    assert strategy(queues(**{"r1@a": 4}), []) == {}
    assert strategy([], CLIENTS) == {client: [] for client in CLIENTS}


def test_allocate_mq_prints_queues_in_the_order_of_a_java_hash_set():
    names = ["10.0.0.3", "10.0.0.2", "10.0.0.1"]
    found = as_allocate_mq(sorted(queues("TopicTest", **{"broker-a": 8})), list(reversed(names)))
    assert {name: [each.queue_id for each in found[name]] for name in names} == {
        "10.0.0.1": [7, 6, 3],
        "10.0.0.2": [2, 5, 4],
        "10.0.0.3": [1, 0],
    }
