"""Whose offsets are mirrored: masters, and from when to when each of them was one. Pure."""

from dataclasses import dataclass
from typing import NamedTuple


class SetName(NamedTuple):
    """A broker set, whose members all keep the same offsets."""

    cluster: str
    broker_name: str

    def __str__(self) -> str:
        return f"{self.cluster}/{self.broker_name}"


class MirroredMaster(NamedTuple):
    """The broker that is master of a set now."""

    set_name: SetName
    #: "host:port".
    address: str
    #: None where no controller elects masters.
    master_epoch: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MasterRun:
    """One broker as master, from an election or its start to the next one: what it shows comes from one memory.

    Within one run an offset goes back only because somebody has committed a smaller one.
    """

    address: str
    #: None where no controller elects masters.
    master_epoch: int | None
    #: When the broker started, Unix ms by its own clock.
    boot_unix_ms: int
