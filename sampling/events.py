"""The events that a sampler logs, beside those of recording."""

from typing import Final

from serving.logging.events import Level, LogEvent

SAMPLER_STARTED: Final = LogEvent(
    name="sampler_started",
    level=Level.INFO,
    keys=("topics", "namesrv", "interval_seconds", "history"),
    meaning="The sampler asks from now on.",
)
SAMPLES_MISSING: Final = LogEvent(
    name="samples_missing",
    level=Level.WARNING,
    keys=("failing",),
    meaning="NameServers, brokers or topics that samples lack from now on, each with the reason.",
    advice="See what is wrong with the broker; a topic that is gone for good is left out of --topics.",
)
SAMPLES_BACK: Final = LogEvent(
    name="samples_back",
    level=Level.INFO,
    keys=("working",),
    meaning="These are sampled again; a topic once all of its sets are.",
)
SAMPLES_NOT_NEEDED: Final = LogEvent(
    name="samples_not_needed",
    level=Level.INFO,
    keys=("gone",),
    meaning="Brokers that failed and that no route names as master any more: samples lack them no longer.",
)
SAMPLER_STOPPED: Final = LogEvent(
    name="sampler_stopped",
    level=Level.INFO,
    meaning="All samples are written and their files sealed; the process ends.",
)
