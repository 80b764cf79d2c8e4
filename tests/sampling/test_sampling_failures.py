"""What fails is told when it begins and when it is over, and not in between."""

from sampling.failures import Subject, Troubles
from sampling.samples import Master

BROKER, TOPIC = Subject("broker", "b:1"), Subject("topic", "t")
NOTHING = ({}, [], [])


def routes(**masters):
    """Return a route of topic t: the address of the master by the name of its set."""
    return {"t": [Master("c", name, address) for name, address in masters.items()]}


KNOWN = routes(b="b:1")


def test_a_failure_is_told_once_and_its_end_once():
    troubles = Troubles()
    assert troubles.news({BROKER: "no answer"}, {TOPIC}, KNOWN) == ({BROKER: "no answer"}, [], [])
    assert troubles.news({BROKER: "refused"}, {TOPIC}, KNOWN) == NOTHING
    assert troubles.news({}, {BROKER, TOPIC}, KNOWN) == ({}, [BROKER], [])
    assert troubles.news({}, {BROKER, TOPIC}, KNOWN) == NOTHING
    assert troubles.news({BROKER: "again"}, set(), KNOWN) == ({BROKER: "again"}, [], [])


def test_who_was_not_asked_is_not_back():
    troubles = Troubles()
    troubles.news({BROKER: "no answer"}, {TOPIC}, KNOWN)
    assert troubles.news({TOPIC: "code 17"}, set(), {}) == ({TOPIC: "code 17"}, [], [])
    assert troubles.news({}, {BROKER, TOPIC}, KNOWN) == ({}, [BROKER, TOPIC], [])


def test_who_answered_first_and_failed_then_fails():
    troubles = Troubles()
    troubles.news({BROKER: "no answer"}, set(), KNOWN)
    assert troubles.news({BROKER: "no answer"}, {BROKER}, KNOWN) == NOTHING


def test_a_failed_broker_that_no_route_names_any_more_is_told_once_and_forgotten():
    troubles = Troubles()
    troubles.news({BROKER: "no answer"}, set(), KNOWN | {"u": KNOWN["t"]})
    assert troubles.news({}, set(), routes(d="d:1")) == NOTHING, "topic u has it"
    assert troubles.news({}, {TOPIC}, {"u": []}) == ({}, [], [BROKER])
    assert troubles.news({}, {TOPIC}, routes(d="d:1")) == NOTHING
    assert troubles.news({BROKER: "no answer"}, set(), KNOWN) == ({BROKER: "no answer"}, [], [])


def test_nobody_is_forgotten_because_the_name_servers_are_away():
    troubles = Troubles()
    troubles.news({BROKER: "no answer"}, set(), KNOWN)
    namesrv = Subject("namesrv", "n:1")
    assert troubles.news({namesrv: "no answer"}, set(), {}) == ({namesrv: "no answer"}, [], [])
    assert troubles.news({}, {BROKER, namesrv}, KNOWN) == ({}, [BROKER, namesrv], [])


def test_a_broker_that_failed_is_waited_for_until_its_set_has_another_master():
    troubles = Troubles()
    troubles.news({BROKER: "no answer"}, set(), KNOWN)
    assert troubles.news({}, set(), routes(b=None)) == NOTHING
    assert troubles.news({}, set(), routes(b=None)) == NOTHING
    assert troubles.news({}, {TOPIC}, routes(b="b:2")) == ({}, [], [BROKER])


def test_a_subject_is_told_by_what_it_is_and_its_name():
    assert str(BROKER) == "broker b:1"
