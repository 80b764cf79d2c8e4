"""The events that a sampler logs, besides those of recording."""

from typing import Final

from serving.logging.events import Level, LogEvent

SAMPLER_STARTED: Final = LogEvent(
    name="sampler_started",
    level=Level.INFO,
    keys=("topics", "namesrv", "interval_seconds", "history"),
    meaning="The sampler takes samples from now on.",
)
SAMPLES_MISSING: Final = LogEvent(
    name="samples_missing",
    level=Level.WARNING,
    keys=("failing",),
    meaning="Samples lack these NameServers, brokers or topics from now on, each with the reason.",
    advice="Check the broker; remove a topic that was deleted from --topics.",
)
SAMPLES_RECOVERED: Final = LogEvent(
    name="samples_recovered",
    level=Level.INFO,
    keys=("recovered",),
    meaning="These are sampled again; a topic as soon as all of its broker sets are.",
)
SAMPLES_NOT_NEEDED: Final = LogEvent(
    name="samples_not_needed",
    level=Level.INFO,
    keys=("removed",),
    meaning="Failing brokers that no route names as master any more; samples need them no longer.",
)
SAMPLER_STOPPED: Final = LogEvent(
    name="sampler_stopped", level=Level.INFO, meaning="All samples are written, all files sealed; the process ends."
)
