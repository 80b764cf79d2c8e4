"""`rmq history` about a server whose wall clock was set while it ran: what counts is what happened before."""

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import pytest

from history.past.moments import Moments
from history.past.rows import History
from history.recorder import Recorder, RecorderIdentity
from history.rows import BrokerRef
from history.schemas import BROKER_STATE, ROUTE_CHANGE
from history.server_rows import lifecycle, tick
from remoting.clock import SystemClock
from serving.config.options import LONG_MAX

SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)
SETTINGS = '{"supportActingMaster":false,"orderMessageEnable":false}'


class Clock:
    """A clock that moves when it is told to, and is ahead as somebody has set it."""

    def __init__(self):
        self.us = (SystemClock().unix_us() // 3_600_000_000 - 48) * 3_600_000_000
        self.began = self.time
        self.ahead_us = 0

    @property
    def time(self):
        return datetime.fromtimestamp(self.us / 1e6, UTC)

    def unix_us(self):
        return self.us + self.ahead_us

    def mono_us(self):
        return self.us - 1_600_000_000_000_000


class Recording:
    def recording_stopped(self, error):
        raise AssertionError(error)

    def recording_resumed(self):
        pass

    def history_deleted(self, deleted):
        pass


class Happened(NamedTuple):
    family: object
    event_type: str
    columns: dict

    def rows(self, maker, moment):
        yield maker.row(self.family, self.event_type, moment, BrokerRef("C", "b", 0, "b:1"), **self.columns)


class Recorded:
    """A NameServer that a broker has registered with, recorded by the recorder."""

    def __init__(self, folder):
        self.folder, self.clock = folder, Clock()
        identity = RecorderIdentity("host:9876", "namesrv", "1.0", "x:1")
        self.recorder = Recorder(folder, identity, self.clock, Recording(), LONG_MAX)
        self.recorder.start()
        self.recorder.enqueue(lifecycle("configured", detail=SETTINGS))
        members = {"set_ids": (0,), "set_addrs": ("b:1",), "set_clusters": ("C",), "set_cluster": "C"}
        self.recorder.enqueue(Happened(BROKER_STATE, "registered_first", members | {"role": "master", "topics": 1}))
        self.has(6)

    def has(self, perm):
        """Give the topic a permission."""
        values = {"topic": "T", "kind": "queues", "new_read": 8, "new_write": 8, "topic_sys_flag": 0}
        self.recorder.enqueue(Happened(ROUTE_CHANGE, "topic_changed", values | {"new_perm": perm}))

    def passes(self, seconds):
        """Let time pass, with a tick each 10 s."""
        for second in range(1, seconds + 1):
            self.clock.us += 1_000_000
            if second % 10 == 0:
                self.recorder.enqueue(tick({"interval_ms": 10_000}))

    def is_set(self, ahead):
        self.clock.ahead_us = ahead // timedelta(microseconds=1)

    def perm_at(self, at):
        """Return the permission that is told of a moment, and the doubt."""
        (seen,) = Moments(History(self.folder), self.clock.began + 48 * HOUR).seen("T", at)
        return seen.route and seen.route.queue_datas[0].perm, seen.doubt


@pytest.fixture
def recorded(tmp_path):
    recorded = Recorded(tmp_path)
    yield recorded
    recorded.recorder.close()


@pytest.mark.parametrize("ahead", [HOUR, 30 * HOUR, 5 * SECOND, -HOUR], ids=str)
def test_changes_while_the_clock_was_wrong_are_in_the_route_afterwards(recorded, ahead):
    recorded.passes(105)
    recorded.is_set(ahead)
    recorded.has(4)
    recorded.passes(1)
    recorded.is_set(0 * SECOND)
    recorded.passes(60)
    recorded.recorder.close()
    began = recorded.clock.began
    assert recorded.perm_at(began + 50 * SECOND) == (6, "")
    assert recorded.perm_at(began + 140 * SECOND)[0] == 4
    if abs(ahead) > 60 * SECOND:
        assert recorded.perm_at(began + 140 * SECOND)[1] == ""


def test_answer_about_a_time_shown_twice_carries_a_warning(recorded):
    recorded.passes(105)
    recorded.is_set(-60 * SECOND)
    recorded.has(4)
    recorded.passes(200)
    recorded.recorder.close()
    perm, doubt = recorded.perm_at(recorded.clock.began + 80 * SECOND)
    assert perm == 4
    assert "twice" in doubt


def test_answer_about_a_time_never_shown_carries_a_warning(recorded):
    recorded.passes(100)
    recorded.is_set(HOUR)
    recorded.has(4)
    recorded.passes(100)
    recorded.recorder.close()
    perm, doubt = recorded.perm_at(recorded.clock.began + HOUR / 2)
    assert perm == 6
    assert "never showed this time" in doubt
    assert recorded.perm_at(recorded.clock.began + HOUR + 150 * SECOND) == (4, "")
