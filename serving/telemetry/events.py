"""An event, declared once: one struct is its log line, what it counts, its row of the history and its documentation.

    class BrokerSilent(Event, frozen=True, kw_only=True):
        \"\"\"A broker does not answer; logged once until it does.\"\"\"

        level = Level.WARNING
        advice = "Check that the broker runs."
        broker: str
        failures: int

        def counted(self) -> Iterator[Count]:
            yield Count(FAILED_QUERIES, (self.broker,))

    telemetry.emit(BrokerSilent(broker="broker-a", failures=3))

The log event is named after the class (`broker_silent`), its keys are the fields, its meaning is the docstring. A field
that is None is left out of the line. One that is made of other values has `keys` and `line`.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

import msgspec

from serving.logging.events import Level, LogEvent
from serving.metrics.counters import Labels
from serving.metrics.families import FamilyMaker, MetricFamily
from serving.metrics.server_counters import LATENCY_S

if TYPE_CHECKING:
    from history.rows import Recordable

_CAPITAL: Final = re.compile(r"(?<!^)(?=[A-Z])")


class Counter(msgspec.Struct, frozen=True, cache_hash=True):
    """A metric that events count in, `<prefix><name>_total`."""

    name: str
    meaning: str
    labels: tuple[str, ...] = ()
    #: Label sets that stand at 0 from the start, so that a rate sees their first time.
    known: tuple[Labels, ...] = ()
    #: The first so many labels are named by peers, so that only `label_sets_max` label sets have series of their own.
    peer_labels: int = 0
    label_sets_max: int = 1
    #: Values of the last label: all of them start at 0 as soon as one is counted.
    each: tuple[str, ...] = ()

    def family(self, make: FamilyMaker) -> MetricFamily:
        return make.counter(self.name, self.meaning, *self.labels)


class Timer(msgspec.Struct, frozen=True, cache_hash=True):
    """A metric of durations in seconds, or of sizes, that events observe: a histogram `<prefix><name>`."""

    name: str
    meaning: str
    labels: tuple[str, ...] = ()
    #: Label sets that are there from the start.
    known: tuple[Labels, ...] = ()
    bounds: tuple[float, ...] = LATENCY_S
    #: As of a counter.
    peer_labels: int = 0
    label_sets_max: int = 1

    def family(self, make: FamilyMaker) -> MetricFamily:
        return make.histogram(self.name, self.meaning, *self.labels)


class Gauge(msgspec.Struct, frozen=True, cache_hash=True):
    """A metric that is read at a scrape, `<prefix><name>`; whoever knows its value yields a `Measure`."""

    name: str
    meaning: str
    labels: tuple[str, ...] = ()
    #: Label sets that are 0 where nobody yields them; None: the only one of a gauge without labels.
    known: tuple[Labels, ...] | None = None
    #: As of a counter; what is beyond the limit is combined.
    peer_labels: int = 0
    label_sets_max: int = 1
    combine: Callable[[float, float], float] = max

    def family(self, make: FamilyMaker) -> MetricFamily:
        return make.gauge(self.name, self.meaning, *self.labels)


class Total(Gauge, frozen=True, cache_hash=True):
    """A gauge that only grows, `<prefix><name>_total`."""

    def family(self, make: FamilyMaker) -> MetricFamily:
        return make.counter(self.name, self.meaning, *self.labels)


class Measure(NamedTuple):
    """The value of a gauge at a scrape, for one label set."""

    gauge: Gauge
    value: float
    labels: Labels = ()


class Count(NamedTuple):
    """One event adds `amount` to a counter."""

    counter: Counter
    labels: Labels = ()
    amount: int = 1


class Observation(NamedTuple):
    """One event took so long."""

    timer: Timer
    seconds: float
    labels: Labels = ()


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """A fact that the server tells."""

    #: None writes no line: the event is only counted or recorded.
    level: ClassVar[Level | None] = Level.INFO
    #: What an operator does about it.
    advice: ClassVar[str] = "Nothing."
    #: A change by request: its line is written at every log level.
    audit: ClassVar[bool] = False
    #: Counts each of its kind.
    counter: ClassVar[Counter | None] = None
    #: Keys of its line; empty: its fields, `exception` for `exc_info`.
    keys: ClassVar[tuple[str, ...]] = ()

    def counted(self) -> Iterable[Count]:
        """Return what it counts."""
        return () if self.counter is None else (Count(self.counter),)

    def observed(self) -> Iterable[Observation]:
        """Return how long it took."""
        return ()

    def line(self) -> Mapping[str, object]:
        """Return what its line says; `exc_info` is an exception whose traceback it shows."""
        values = ((name, getattr(self, name)) for name in self.__struct_fields__)
        return {name: value for name, value in values if value is not None}

    def rows(self) -> "Iterable[Recordable]":
        """Return its rows of the history."""
        return ()

    @classmethod
    def log_event(cls) -> LogEvent | None:
        """Return the event as the log catalogue has it; None for one without a line."""
        if cls.level is None:
            return None
        return LogEvent(
            name=_CAPITAL.sub("_", cls.__name__).lower(),
            level=cls.level,
            keys=cls.keys or tuple("exception" if name == "exc_info" else name for name in cls.__struct_fields__),
            meaning=" ".join((cls.__doc__ or "").split()),
            advice=cls.advice,
            audit=cls.audit,
        )


class Counted(Event, frozen=True, kw_only=True):
    """Something that is only counted."""

    level = None
    count: Count

    def counted(self) -> tuple[Count]:
        return (self.count,)


class Observed(Event, frozen=True, kw_only=True):
    """Something of which only its duration counts."""

    level = None
    observation: Observation

    def observed(self) -> tuple[Observation]:
        return (self.observation,)


Emit = Callable[[Event], None]
Metric = Counter | Timer | Gauge


class Declared(NamedTuple):
    """What some modules declare, in the order of their definition."""

    events: tuple[type[Event], ...]
    metrics: tuple[Metric, ...]

    @property
    def gauges(self) -> Iterator[Gauge]:
        return (metric for metric in self.metrics if isinstance(metric, Gauge))

    def log_events(self) -> Iterator[LogEvent]:
        """Yield every event that writes a line."""
        yield from filter(None, (event.log_event() for event in self.events))

    def families(self, make: FamilyMaker) -> Iterator[MetricFamily]:
        """Yield every metric as the catalogue has it."""
        yield from (metric.family(make) for metric in self.metrics)


def declared_in(*modules: Mapping[str, object]) -> Declared:
    """Return the events and metrics that modules (their `vars`) define, and the general ones; imported ones count once.

    An event whose name begins with an underscore has only what others share.
    """
    every = (*modules, {"Counted": Counted, "Observed": Observed})
    values = list({id(value): value for module in every for value in module.values()}.values())
    events = (value for value in values if isinstance(value, type) and issubclass(value, Event) and value is not Event)
    return Declared(
        tuple(event for event in events if not event.__name__.startswith("_")),
        tuple(value for value in values if isinstance(value, Metric)),
    )
