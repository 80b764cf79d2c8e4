"""An event, declared once, is a log line, a count, a row of the history, and a row of the pages."""

import json

import pytest
from fakes.clock import FakeClock
from fakes.lines import Lines

from history.server_rows import lifecycle
from serving.logging.events import Level
from serving.logging.logs import Logs, json_line
from serving.metrics.families import FamilyMaker
from serving.telemetry.events import Count, Counter, Event, Gauge, Observation, Timer, declared_in
from serving.telemetry.telemetry import Telemetry

FAILURES = Counter("failures", "Failures by kind.", ("kind",), known=(("slow",),))
LOOKS_DONE = Counter("looks", "Looks.")
LOOKS = Timer("look_seconds", "How long a look took.")
BROKERS = Gauge("brokers", "Brokers that answer.")


class LookFailed(Event, frozen=True, kw_only=True):
    """A look failed.

    It is repeated.
    """

    level = Level.WARNING
    advice = "Wait."
    broker: str
    error: str | None = None

    def counted(self):
        return (Count(FAILURES, ("slow",)), Count(FAILURES, ("other",), 2))

    def observed(self):
        return (Observation(LOOKS, 0.5),)

    def rows(self):
        return (lifecycle("ready"),)


class Looked(Event, frozen=True, kw_only=True):
    """A look succeeded; only counted."""

    level = None


class Undeclared(Event, frozen=True, kw_only=True):
    """An event of a module that nobody collected."""


DECLARED = declared_in({"LookFailed": LookFailed, "Looked": Looked, "again": LookFailed}, vars())


class Rows(list):
    enqueue = list.append


@pytest.fixture
def told():
    lines, rows = Lines(), Rows()
    declared = DECLARED._replace(events=tuple(event for event in DECLARED.events if event is not Undeclared))
    telemetry = Telemetry(Logs(lines, json_line(), FakeClock(), {}), declared, rows)
    telemetry.lines, telemetry.rows = lines, rows
    return telemetry


def test_one_event_writes_its_line_moves_its_metrics_and_records_its_rows(told):
    told.emit(LookFailed(broker="broker-a"))
    told.emit(Looked())
    (line,) = map(json.loads, told.lines)
    assert (line["event"], line["level"], line["broker"]) == ("look_failed", "warning", "broker-a")
    # What is None is left out.
    assert "error" not in line
    make = FamilyMaker("p_")
    assert dict(told.counts(make)) == {
        FAILURES.family(make): {("slow",): 1, ("other",): 2},
        # Without labels it stands at 0 from the start.
        LOOKS_DONE.family(make): {(): 0},
    }
    ((family, histograms),) = told.durations(make)
    assert (family.name, histograms[()].sum) == ("p_look_seconds", 0.5)
    assert len(told.rows) == 1


def test_an_event_that_is_not_declared_is_a_fault(told):
    with pytest.raises(KeyError):
        told.emit(Undeclared())


def test_the_pages_come_from_the_declaration():
    (event,) = (event for event in DECLARED.log_events() if event.name == "look_failed")
    assert (event.meaning, event.advice, event.keys) == ("A look failed. It is repeated.", "Wait.", ("broker", "error"))
    assert DECLARED.events.count(LookFailed) == 1
    assert [(family.name, family.kind) for family in DECLARED.families(FamilyMaker("p_"))] == [
        ("p_failures_total", "counter"),
        ("p_looks_total", "counter"),
        ("p_look_seconds", "histogram"),
        ("p_brokers", "gauge"),
    ]
