"""Moments as operators write them. Pure."""

import re
from datetime import UTC, datetime
from typing import Final

from rmq.failures import WrongUse

#: mqadmin's own form, in the time zone of this machine.
_MQADMIN: Final = re.compile(r"\d{4}-\d\d-\d\d#\d\d:\d\d:\d\d(:\d{3})?")
_MQADMIN_FORM: Final = "%Y-%m-%d#%H:%M:%S:%f"


def unix_ms_of(text: str, option: str) -> int:
    """Return a moment as Unix ms: ISO 8601, in UTC unless it says otherwise, or mqadmin's form; raises WrongUse."""
    try:
        if _MQADMIN.fullmatch(text):
            whole = text if text.count(":") > 2 else f"{text}:000"  # noqa: PLR2004  # hours, minutes, seconds, ms
            moment = datetime.strptime(whole, _MQADMIN_FORM).astimezone()
        else:
            moment = datetime.fromisoformat(text)
            moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        unix_ms = round(moment.timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        unix_ms = -1
    if unix_ms < 0:
        raise WrongUse(f"{option}: {text} is not a time such as 2026-11-27T10:00:00Z")
    return unix_ms
