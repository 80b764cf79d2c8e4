"""The verdict over what was sent and consumed, with each fault that it must find."""

import pytest
from peers.delivery import Acknowledged, Consumed, Inversion, Unacknowledged, by_client, records_in, verdict


def acknowledged(number, key="k"):
    return Acknowledged(1000 + number, "p", f"{key}:{number}", key, number, "broker-a", 0, number)


def consumed(number, *, key="k", group="g", client="c"):
    return Consumed(2000, group, client, f"{key}:{number}", key, number, "broker-a", 0, number, 0)


@pytest.mark.parametrize(
    ("sent", "got", "missing", "repeated", "inversions"),
    [
        ([acknowledged(0), acknowledged(1)], [consumed(0), consumed(1)], (), {}, ()),
        ([acknowledged(0), acknowledged(1)], [consumed(1)], (acknowledged(0),), {}, ()),
        ([acknowledged(0)], [consumed(0, group="other")], (acknowledged(0),), {}, ()),
        ([acknowledged(1), acknowledged(0)], [], (acknowledged(0), acknowledged(1)), {}, ()),
        ([], [consumed(0)], (), {}, ()),
        ([], [consumed(0), consumed(0, client="d"), consumed(1)], (), {"k:0": 2}, ()),
        ([], list(map(consumed, (0, 3, 1, 2, 4))), (), {}, (Inversion("k", 1, 3), Inversion("k", 2, 3))),
        ([], list(map(consumed, (0, 1, 0, 1, 2))), (), {"k:0": 2, "k:1": 2}, ()),
        ([], [consumed(5), consumed(1, key="l")], (), {}, ()),
        ([], [consumed(5, key="-"), consumed(1, key="-")], (), {}, ()),
    ],
    ids=[
        "all in order",
        "acknowledged and not consumed",
        "consumed by another group",
        "nothing consumed",
        "consumed without an acknowledgement",
        "consumed by two clients",
        "earlier after a later one of its key",
        "consumed again in order",
        "keys have no order among each other",
        "messages without a key have no order",
    ],
)
def test_missing_and_repeated_messages_and_inversions_are_found(sent, got, missing, repeated, inversions):
    delivery = verdict(sent, got, ["g"])["g"]
    assert (delivery.missing, delivery.repeated, delivery.inversions) == (missing, repeated, inversions)


def test_each_client_of_a_broadcasting_group_is_judged_alone():
    got = by_client([consumed(0, client="c1"), consumed(1, client="c1"), consumed(1, client="c2")])
    sent = [acknowledged(0), acknowledged(1)]

    deliveries = verdict(sent, got, ["g/c1", "g/c2"])

    assert deliveries["g/c1"].missing == ()
    assert deliveries["g/c2"].missing == (acknowledged(0),)


def test_lines_of_java_clients_are_read():
    lines = [
        "A\t1000\tp\tp:0\tp/1\t0\tbroker-a\t3\t17",
        "F\t1001\tp\tp:1\t-\t1\t29\trequest queueId[9] is illegal",
        "C\t1002\tg\tc\tp:0\tp/1\t0\tbroker-a\t3\t17\t2",
    ]

    assert records_in(lines) == (
        [Acknowledged(1000, "p", "p:0", "p/1", 0, "broker-a", 3, 17)],
        [Unacknowledged(1001, "p", "p:1", "-", 1, "29", "request queueId[9] is illegal")],
        [Consumed(1002, "g", "c", "p:0", "p/1", 0, "broker-a", 3, 17, 2)],
    )
