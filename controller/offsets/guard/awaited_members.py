"""Which members of one group have to be sent back yet, at which topics, and until when they are awaited. Pure."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from controller.offsets.guard.unreset import UnresetGroup, UnresetQueue

#: By then members have come: they poll routes each 30 s, and send their next heartbeat up to 30 s after that.
WITHIN_MS: Final = 120_000
#: A group is looked at for so long after its members have gone back: others may have come meanwhile.
LAST_LOOK_MS: Final = 30_000
#: No group is awaited for longer, however many topics it has.
WITHIN_MAX_MS: Final = 900_000
#: How often each member is sent back.
TIMES: Final = 2
#: A member waits so long before it goes to where it is sent, for one topic after another.
GOES_BACK_MS: Final = 10_000
#: And so much longer until its offset is committed.
SETTLES_MS: Final = 5_000


@dataclass(slots=True)
class AwaitedTopic:
    """One topic of a group, and what became of the group's members there."""

    queues: Mapping[int, UnresetQueue]
    #: How often each was sent back, by client id; TIMES for those that need not be.
    times: Counter[str] = field(default_factory=Counter)
    #: Whoever has started later began at what others had read after they were sent back; Unix ms. None: not yet.
    settled_unix_ms: int | None = None
    #: Nobody has to be sent any more: the broker resets it by itself, or somebody else has set it back.
    is_over: bool = False
    is_reported: bool = False

    def coming(self, client_ids: set[str], times: int = TIMES) -> set[str]:
        """Return those that were sent back fewer times, and have to be."""
        return set() if self.is_over else {each for each in client_ids if self.times[each] < times}


@dataclass(slots=True)
class AwaitedMembers:
    """The members of one group."""

    group: UnresetGroup
    topics: Mapping[str, AwaitedTopic]
    #: Nobody is awaited any longer, monotonic ms; `end_max_ms` however often members are sent back.
    end_ms: int
    end_max_ms: int
    #: Nothing is sent before, monotonic ms.
    not_before_ms: int = 0
    #: Client ids of those that were there at the last look, if they pull, and follow what the broker sends them.
    present: set[str] = field(default_factory=set)
    #: Why nobody knows which members there are; "" once they were looked at.
    why_unseen: str = "they were not looked at in time"
    #: Clients that do not follow the broker are reported once.
    is_other_form_reported: bool = False

    def coming(self, client_ids: set[str], times: int = TIMES) -> dict[str, AwaitedTopic]:
        """Return the topics at which some of them have to be sent back."""
        return {name: each for name, each in self.topics.items() if each.coming(client_ids, times)}

    @property
    def left(self) -> list[str]:
        """The topics that are not over."""
        return [name for name, each in self.topics.items() if not each.is_over]

    @property
    def not_sent(self) -> Collection[str]:
        """The topics at which a member that was there has to be sent back yet; all that are left if nobody was seen."""
        return self.left if self.why_unseen else self.coming(self.present)

    def unseen(self, why: str) -> None:
        """Take why a look has failed, or there was none."""
        if self.why_unseen:
            self.why_unseen = why

    def wait_until(self, now_ms: int) -> None:
        """Send nothing before that, and look who has come once more then."""
        self.not_before_ms = now_ms
        self.end_ms = min(max(self.end_ms, now_ms + LAST_LOOK_MS), self.end_max_ms)


def awaited_members(group: UnresetGroup, now_ms: int) -> AwaitedMembers:
    """Return the members of a group that are awaited from now on, monotonic ms."""
    most_ms = WITHIN_MS + TIMES * needed_ms(group.topics) + LAST_LOOK_MS
    return AwaitedMembers(
        group,
        {name: AwaitedTopic(queues) for name, queues in group.topics.items()},
        end_ms=now_ms + WITHIN_MS,
        end_max_ms=now_ms + min(most_ms, WITHIN_MAX_MS),
    )


def needed_ms(topics: Collection[str]) -> int:
    """Return how long members need that are sent back at so many topics."""
    return GOES_BACK_MS * len(topics) + SETTLES_MS
