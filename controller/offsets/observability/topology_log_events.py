"""Every event that is logged of whom masters are known from; part of the catalogue in `log_events.py`."""

from typing import Final

from serving.logging.events import Level, LogEvent

CONTROLLER_FOLLOWED: Final = LogEvent(
    name="controller_followed",
    level=Level.INFO,
    keys=("url",),
    meaning="The masters of broker sets come from this controller, which leads, from here on.",
)
CONTROLLER_UNUSABLE: Final = LogEvent(
    name="controller_unusable",
    level=Level.WARNING,
    keys=("url", "error"),
    meaning="A controller of controllerHttpAddr does not answer as the one that leads; once a minute for each. Nothing "
    "is read from brokers or written to them until one does.",
    advice="Check that controllerHttpAddr has the httpPort of every controller, and that one of them leads.",
)
MASTERS_OUTDATED: Final = LogEvent(
    name="masters_outdated",
    level=Level.WARNING,
    keys=("url", "sets", "first", "epoch", "known_epoch"),
    meaning="A controller answers an earlier master epoch for `sets` broker sets than was known of them (`first` is "
    "one): its store was put back. It is not followed for these, and nothing is written to their brokers.",
    advice="If the store was put back on purpose, restart this offset manager.",
)
NAMESRV_UNUSABLE: Final = LogEvent(
    name="namesrv_unusable",
    level=Level.WARNING,
    keys=("addr", "error"),
    meaning="A NameServer of namesrvAddr does not answer, or with something else, or with rows that cannot be read "
    "(`error` names some), which are left out; once a minute for each.",
    advice="Check namesrvAddr, that NameServer, and which brokers registered such rows there.",
)
MASTER_CHANGED: Final = LogEvent(
    name="master_changed",
    level=Level.INFO,
    keys=("broker", "kind", "old_addr", "addr", "epoch", "since_unix_ms"),
    meaning="The master of a broker set: `found` the first time, `gained` after none, `moved` to another broker or "
    "epoch, `address_changed`, `restarted`, `lost`, or `removed` with its set.",
)

TOPOLOGY: Final = (CONTROLLER_FOLLOWED, CONTROLLER_UNUSABLE, MASTERS_OUTDATED, NAMESRV_UNUSABLE, MASTER_CHANGED)
