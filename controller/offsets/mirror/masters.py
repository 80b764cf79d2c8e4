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

    def has_memory_of(self, former: "MasterRun") -> bool:
        """Return whether what this run shows comes from the memory of a former one, or the same.

        So it is too where the same process was elected again and no other broker was master in between.
        """
        if (self.address, self.boot_unix_ms) != (former.address, former.boot_unix_ms):
            return False
        if self.master_epoch is None or former.master_epoch is None:
            return self.master_epoch == former.master_epoch
        return self.master_epoch - former.master_epoch in (0, 1)
