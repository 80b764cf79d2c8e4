"""What fails is told when it begins and when it is over, and not in between."""

from rmq.sampling.samples import FailureTracker, Master, Subject

BROKER, TOPIC = Subject("broker", "b:1"), Subject("topic", "t")
NOTHING = ({}, [], [])


def routes(**masters):
    """Return a route of topic t: the address of the master by the name of its set."""
    return {"t": [Master("c", name, address) for name, address in masters.items()]}


KNOWN = routes(b="b:1")


def test_failure_and_recovery_are_reported_once_each():
    tracker = FailureTracker()
    assert tracker.update({BROKER: "no answer"}, {TOPIC}, KNOWN) == ({BROKER: "no answer"}, [], [])
    assert tracker.update({BROKER: "refused"}, {TOPIC}, KNOWN) == NOTHING
    assert tracker.update({}, {BROKER, TOPIC}, KNOWN) == ({}, [BROKER], [])
    assert tracker.update({}, {BROKER, TOPIC}, KNOWN) == NOTHING
    assert tracker.update({BROKER: "again"}, set(), KNOWN) == ({BROKER: "again"}, [], [])


def test_subject_without_a_request_does_not_recover():
    tracker = FailureTracker()
    tracker.update({BROKER: "no answer"}, {TOPIC}, KNOWN)
    assert tracker.update({TOPIC: "code 17"}, set(), {}) == ({TOPIC: "code 17"}, [], [])
    assert tracker.update({}, {BROKER, TOPIC}, KNOWN) == ({}, [BROKER, TOPIC], [])


def test_subject_that_fails_after_a_response_is_failing():
    tracker = FailureTracker()
    tracker.update({BROKER: "no answer"}, set(), KNOWN)
    assert tracker.update({BROKER: "no answer"}, {BROKER}, KNOWN) == NOTHING


def test_failing_broker_without_a_route_is_removed_once():
    tracker = FailureTracker()
    tracker.update({BROKER: "no answer"}, set(), KNOWN | {"u": KNOWN["t"]})
    assert tracker.update({}, set(), routes(d="d:1")) == NOTHING, "topic u has it"
    assert tracker.update({}, {TOPIC}, {"u": []}) == ({}, [], [BROKER])
    assert tracker.update({}, {TOPIC}, routes(d="d:1")) == NOTHING
    assert tracker.update({BROKER: "no answer"}, set(), KNOWN) == ({BROKER: "no answer"}, [], [])


def test_no_broker_is_removed_while_name_servers_are_down():
    tracker = FailureTracker()
    tracker.update({BROKER: "no answer"}, set(), KNOWN)
    namesrv = Subject("namesrv", "n:1")
    assert tracker.update({namesrv: "no answer"}, set(), {}) == ({namesrv: "no answer"}, [], [])
    assert tracker.update({}, {BROKER, namesrv}, KNOWN) == ({}, [BROKER, namesrv], [])


def test_failing_broker_is_kept_until_its_set_has_another_master():
    tracker = FailureTracker()
    tracker.update({BROKER: "no answer"}, set(), KNOWN)
    assert tracker.update({}, set(), routes(b=None)) == NOTHING
    assert tracker.update({}, set(), routes(b=None)) == NOTHING
    assert tracker.update({}, {TOPIC}, routes(b="b:2")) == ({}, [], [BROKER])


def test_subject_is_printed_with_its_kind_and_name():
    assert str(BROKER) == "broker b:1"
