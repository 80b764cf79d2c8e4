"""Histories of NameServers that are written by hand."""

from datetime import UTC, datetime, timedelta

from history.landing import Landing
from history.rows import BrokerRef, Moment, RowMaker, encoded
from history.schemas import BROKER_STATE, NS_LIFECYCLE, ROUTE_CHANGE, ROUTE_SNAPSHOT
from history.server_rows import lifecycle, tick
from remoting.clock import SystemClock

SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)
SETTINGS = '{"supportActingMaster":false,"orderMessageEnable":true}'


def now():
    return datetime.fromtimestamp(SystemClock().unix_us() // 1_000_000, UTC)


#: Long enough ago that all of it was to be written by now.
THEN = now() - timedelta(days=2)


#: Of the servers of one test: their files grow until its end.
_landings = []


def seal_all():
    """Seal what the servers of a test have written."""
    while _landings:
        _landings.pop().seal_all()


class Server:
    """A NameServer whose history is written by hand."""

    def __init__(self, folder, name="host:9876", *, boot=1_700_000_000_000):
        self._landing = Landing(folder, f"{name}-{boot}")
        _landings.append(self._landing)
        self._maker = RowMaker(name.replace(":", "_"), boot, "namesrv")
        self._mono_us = 0

    def note(self, at, *happenings, mono=None):
        self._mono_us = int(at.timestamp() * 1e6) if mono is None else mono
        moment = Moment(int(at.timestamp() * 1e6), self._mono_us)
        for each in happenings:
            for row in each.rows(self._maker, moment):
                self._landing.append(row.family.name, encoded(row), row.unix_us)

    def row(self, at, family, event_type, who=None, **columns):
        moment = Moment(int(at.timestamp() * 1e6), int(at.timestamp() * 1e6))
        row = self._maker.row(family, event_type, moment, who or BrokerRef(), **columns)
        self._landing.append(family.name, encoded(row), row.unix_us)

    def starts(self, at):
        self.row(at, NS_LIFECYCLE, "started", reason="namesrv")
        self.note(at, lifecycle("configured", detail=SETTINGS))

    def registers(self, at, broker, **topics):
        self.row(
            at,
            BROKER_STATE,
            "registered_first",
            BrokerRef("C", broker, 0, f"{broker}:1"),
            role="master",
            topics=len(topics),
            set_ids=(0,),
            set_addrs=(f"{broker}:1",),
            set_clusters=("C",),
            set_cluster="C",
            enable_acting_master=False,
        )
        for topic, queues in topics.items():
            self.has(at, broker, topic, queues)

    def has(self, at, broker, topic, queues, flag=0):
        values = {"new_read": queues, "new_write": queues, "new_perm": 6, "topic_sys_flag": flag}
        known = values if queues else {}
        self.row(at, ROUTE_CHANGE, "topic_changed", BrokerRef("C", broker), topic=topic, kind="queues", **known)

    def shows(self, at, broker, topic, queues, *, rows=1):
        """Write a snapshot of one topic on one set, which says of itself that it has so many rows."""
        snapshot_id = f"{at.timestamp()}"
        self.note(at, lifecycle("configured", detail=SETTINGS))
        self.row(at, ROUTE_CHANGE, "snapshot", topic=topic, kind="order", detail=f"{broker}:{queues}")
        self.row(
            at,
            BROKER_STATE,
            "snapshot",
            BrokerRef("C", broker),
            reason=snapshot_id,
            set_ids=(0,),
            set_addrs=(f"{broker}:1",),
            set_clusters=("C",),
            set_cluster="C",
        )
        values = {"read": queues, "write": queues, "perm": 6, "topic_sys_flag": 0}
        self.row(
            at,
            ROUTE_SNAPSHOT,
            "queues",
            snapshot_id=snapshot_id,
            scope="all",
            broker_names=(broker,),
            topics=(topic,),
            **values,
        )
        self.row(at, ROUTE_SNAPSHOT, "finished", snapshot_id=snapshot_id, scope="all", rows=rows)

    def ticks(self, first, last):
        while first <= last:
            self.note(first, tick({"interval_ms": 10_000}))
            first += 10 * SECOND

    def resumes(self, at, since, reason):
        columns = {"unobserved_from": int(since.timestamp() * 1e6), "dropped": 1}
        self.row(at, NS_LIFECYCLE, "recording_resumed", reason=reason, **columns)

    def seal(self):
        self._landing.seal_all()
