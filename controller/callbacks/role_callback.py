"""What a callback says: the change of a set's master, as JSON and as variables of the environment. Pure.

Names and addresses come from brokers, and anybody who reaches a controller can register as one: receivers quote them.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple

import msgspec

from controller.roles.changes import RoleChange, RoleHolder
from history.times import time_text

#: Prefix of the variables.
VARIABLE_PREFIX: Final = "ROLE_CHANGE_"
#: Characters of a reason: the whole of a callback fits into a pipe of 64 KiB.
WHY_CHARS_MAX: Final = 1_000


class RoleCallback(msgspec.Struct, frozen=True, kw_only=True):
    """One call: a change, and what the receiver has missed before it."""

    change: RoleChange
    #: The master that was delivered last; None if there was none, or nothing was delivered.
    old: RoleHolder | None
    #: One sentence.
    why: str
    #: The first and the last of the epochs before it that were not delivered; None if none is known to be missing.
    skipped: tuple[int, int] | None
    #: From 1 on.
    attempt: int
    #: Who calls.
    controller_id: str

    @property
    def key(self) -> str:
        """The same for every attempt of a change."""
        change = self.change
        return f"{change.cluster}/{change.broker_name}/{change.master_epoch}"

    def body(self) -> bytes:
        change = self.change
        fields: dict[str, Any] = {
            "event": "roleChange",
            "cluster": change.cluster,
            "brokerName": change.broker_name,
            "masterEpoch": change.master_epoch,
            "oldMaster": _master_fields(self.old),
            "newMaster": _master_fields(change.new),
            "why": self.why[:WHY_CHARS_MAX],
            "time": time_text(change.unix_ms * 1000),
            "timeUnixMs": change.unix_ms,
            "skippedEpochs": None if self.skipped is None else dict(zip(("first", "last"), self.skipped, strict=True)),
            "attempt": self.attempt,
            "controllerId": self.controller_id,
        }
        return msgspec.json.encode(fields) + b"\n"

    def variables(self) -> Mapping[str, str]:
        """Return it as variables; blank where there is no master, or no epoch was skipped."""
        change = self.change
        first, last = self.skipped or ("", "")
        values: dict[str, object] = {
            "CLUSTER": change.cluster,
            "BROKER_NAME": change.broker_name,
            "MASTER_EPOCH": change.master_epoch,
            "OLD_BROKER_ID": "" if self.old is None else self.old.broker_id,
            "OLD_ADDRESS": "" if self.old is None else self.old.address,
            "NEW_BROKER_ID": "" if change.new is None else change.new.broker_id,
            "NEW_ADDRESS": "" if change.new is None else change.new.address,
            "WHY": self.why[:WHY_CHARS_MAX],
            "TIME": time_text(change.unix_ms * 1000),
            "SKIPPED_FIRST": first,
            "SKIPPED_LAST": last,
            "ATTEMPT": self.attempt,
            "CONTROLLER_ID": self.controller_id,
        }
        return {VARIABLE_PREFIX + name: _variable_text(value) for name, value in values.items()}


def _master_fields(master: RoleHolder | None) -> dict[str, Any] | None:
    return None if master is None else {"brokerId": master.broker_id, "address": master.address}


def _variable_text(value: object) -> str:
    """Return a value as a variable can have it: no operating system takes a NUL, nor half of a surrogate pair."""
    return str(value).replace("\0", "\ufffd").encode(errors="replace").decode()


#: Bytes of what a program prints, or a server answers, that are kept; the rest is read and dropped.
OUTPUT_BYTES_MAX: Final = 2_048


class CallResult(StrEnum):
    """How a call ended; the values label metrics."""

    DELIVERED = "delivered"
    #: A program ended with another status than 0, a server did not answer 2xx, or neither was reached.
    FAILED = "failed"
    #: The time limit ended it.
    TIMEOUT = "timeout"


class CallOutcome(NamedTuple):
    result: CallResult
    #: Why it was not delivered, in words; blank if it was.
    error: str = ""
    #: What the program printed, or the server answered: the first OUTPUT_BYTES_MAX bytes.
    output: str = ""


def output_text(data: bytes) -> str:
    """Return the beginning of an output as text, without what is no UTF-8 and without blanks around it."""
    return data[:OUTPUT_BYTES_MAX].decode(errors="replace").strip()
