"""The events that a sampler logs, besides those of recording."""

from typing import Final

from serving.logging.events import info, warning

SAMPLER_STARTED: Final = info(
    "sampler_started", ("topics", "namesrv", "interval_seconds", "history"), "The sampler has started to take samples."
)
SAMPLES_MISSING: Final = warning(
    "samples_missing",
    ("failing",),
    "Samples of these NameServers, brokers or topics fail; `failing` gives the reason of each.",
    "Check the broker; remove a deleted topic from `--topics`.",
)
SAMPLES_RECOVERED: Final = info(
    "samples_recovered",
    ("recovered",),
    "Samples of these succeed again: of a topic, once all of its broker sets answer.",
)
SAMPLES_NOT_NEEDED: Final = info(
    "samples_not_needed",
    ("removed",),
    "No route names these failing brokers as master any more: they are no longer sampled.",
)
SAMPLER_STOPPED: Final = info("sampler_stopped", (), "All samples are written and all files sealed; the process ends.")
