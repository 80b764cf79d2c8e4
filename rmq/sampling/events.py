"""The events that a sampler logs, besides those of recording."""

from typing import Final

from serving.logging.events import Level, LogEvent

SAMPLER_STARTED: Final = LogEvent(
    name="sampler_started",
    level=Level.INFO,
    keys=("topics", "namesrv", "interval_seconds", "history"),
    meaning="The sampler has started to take samples.",
)
SAMPLES_MISSING: Final = LogEvent(
    name="samples_missing",
    level=Level.WARNING,
    keys=("failing",),
    meaning="Samples of these NameServers, brokers or topics fail; `failing` gives the reason of each.",
    advice="Check the broker; remove a deleted topic from `--topics`.",
)
SAMPLES_RECOVERED: Final = LogEvent(
    name="samples_recovered",
    level=Level.INFO,
    keys=("recovered",),
    meaning="Samples of these succeed again: of a topic, once all of its broker sets answer.",
)
SAMPLES_NOT_NEEDED: Final = LogEvent(
    name="samples_not_needed",
    level=Level.INFO,
    keys=("removed",),
    meaning="No route names these failing brokers as master any more: they are no longer sampled.",
)
SAMPLER_STOPPED: Final = LogEvent(
    name="sampler_stopped", level=Level.INFO, meaning="All samples are written and all files sealed; the process ends."
)
