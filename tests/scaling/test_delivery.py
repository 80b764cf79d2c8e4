"""The verdict over what was sent and consumed, with each fault that it must find."""

from peers.delivery import Acknowledged, Consumed, Inversion, Unacknowledged, by_client, records_in, verdict


def acknowledged(number, key="k"):
    return Acknowledged(1000 + number, "p", f"{key}:{number}", key, number, "broker-a", 0, number)


def consumed(number, *, key="k", group="g", client="c"):
    return Consumed(2000, group, client, f"{key}:{number}", key, number, "broker-a", 0, number, 0)


def test_all_messages_in_order_leave_nothing_to_report():
    delivery = verdict([acknowledged(0), acknowledged(1)], [consumed(0), consumed(1)], ["g"])["g"]

    assert (delivery.missing, delivery.repeated, delivery.inversions) == ((), {}, ())


def test_acknowledged_message_that_nobody_consumed_is_missing():
    assert verdict([acknowledged(0), acknowledged(1)], [consumed(1)], ["g"])["g"].missing == (acknowledged(0),)


def test_message_that_another_group_consumed_is_missing():
    assert verdict([acknowledged(0)], [consumed(0, group="other")], ["g"])["g"].missing == (acknowledged(0),)


def test_group_without_any_message_misses_all():
    assert verdict([acknowledged(1), acknowledged(0)], [], ["g"])["g"].missing == (acknowledged(0), acknowledged(1))


def test_consumed_message_without_acknowledgement_is_no_fault():
    assert verdict([], [consumed(0)], ["g"])["g"].missing == ()


def test_message_consumed_by_two_clients_is_repeated():
    got = [consumed(0), consumed(0, client="d"), consumed(1)]

    assert verdict([], got, ["g"])["g"].repeated == {"k:0": 2}


def test_earlier_message_after_a_later_one_of_its_key_is_an_inversion():
    got = [consumed(0), consumed(3), consumed(1), consumed(2), consumed(4)]

    assert verdict([], got, ["g"])["g"].inversions == (Inversion("k", 1, 3), Inversion("k", 2, 3))


def test_messages_consumed_again_in_order_are_no_inversion():
    got = [consumed(0), consumed(1), consumed(0), consumed(1), consumed(2)]

    assert verdict([], got, ["g"])["g"].inversions == ()


def test_keys_have_no_order_among_each_other():
    assert verdict([], [consumed(5), consumed(1, key="l")], ["g"])["g"].inversions == ()


def test_messages_without_a_key_have_no_order():
    assert verdict([], [consumed(5, key="-"), consumed(1, key="-")], ["g"])["g"].inversions == ()


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
