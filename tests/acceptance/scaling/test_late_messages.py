"""Delayed messages for queues that a shrink closes; they come when the test sets the clock of their broker."""

import pytest
from peers import clocks
from peers.programs import cannot_run
from resize_site import described, evidence_of, phases_of

pytestmark = [pytest.mark.java, pytest.mark.soak]

#: A delay that is over once the clock was set, however long a shrink takes.
DELAY_S = 3600


@pytest.fixture(autouse=True)
def _settable_clock():
    if reason := clocks.why_not():
        cannot_run(reason)


def delayed(site, topic, name):
    """Make a topic on a broker of its own, with delayed messages for queue 7; return the clock of that broker."""
    folder = site.lab.folder / f"clock-{name}"
    folder.mkdir()
    clock = clocks.WallClock(folder)
    site.start_other_broker(name, messageDelayLevel=f"6s {DELAY_S}s", environment=clock.environment)
    site.make_topic(topic, 8, brokers=[name])
    group = site.consume(topic, "push", from_="FIRST_OFFSET")
    site.traffic.send(topic, topic=topic, queue=7, broker=name, delay_level=2, count=3)
    site.traffic.finish(topic)
    return clock, group


def test_delayed_message_of_a_closed_queue_is_consumed_since_it_is_opened_again(site):
    topic, name, traffic = "LateAccepted", "broker-accepted", site.traffic
    clock, group = delayed(site, topic, name)

    operation_id = site.start(topic, 4, options={"acceptLate": True})
    site.wait_for_phase(operation_id, "WATCH")
    clock.jump_to(DELAY_S)
    operation = site.wait_until_done(operation_id)
    traffic.wait_until_consumed([group], seconds=1)

    assert operation["reopened"] == 1
    assert "REOPEN" in phases_of(operation)
    accepted = evidence_of(operation, "LATE")
    assert any(each.startswith(f"accepted by the operator: {name} has") for each in accepted), accepted
    assert evidence_of(operation, "WATCH")[0].startswith(f"queue {name}/7 ended at 0 and ends at ")
    assert site.counts(topic, name) == {name: (4, 4)}
    assert traffic.verdict([group])[group].missing == ()


def test_shrink_waits_for_delayed_messages(site):
    topic, name, traffic = "LateAwaited", "broker-awaited", site.traffic
    clock, group = delayed(site, topic, name)

    operation_id = site.start(topic, 4)
    late = site.wait_for_waiting(operation_id, "LATE")
    clock.jump_to(DELAY_S)
    operation = site.wait_until_done(operation_id)
    traffic.wait_until_consumed([group], seconds=1)

    assert any("delayed messages of level 2 to deliver" in each for each in late["waitsFor"]), described(late)
    assert operation["reopened"] == 0
    assert traffic.verdict([group])[group].missing == ()
