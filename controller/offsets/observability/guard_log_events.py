"""Every event that is logged of the guard; part of the catalogue in `log_events.py`."""

from typing import Final

from controller.offsets.guard.rules import Action
from serving.logging.events import Level, LogEvent

OFFSETS_GUARDED: Final = LogEvent(
    name="offsets_guarded",
    level=Level.INFO,
    keys=(
        "broker",
        "addr",
        "epoch",
        "cause",
        "run",
        "result",
        "writes",
        "recent",
        "saved_age_ms",
        "offsets",
        *(action.value for action in Action),
        "stored",
        "unwritten",
        "duration_ms",
    ),
    meaning="The guard has compared what the mirror had read of a broker set with what its new master, or the one that "
    "was started again, shows: so many `offsets` of groups in queues, by what was decided (`push` to `report`), and "
    "how many of those are `stored` now, or were to be written and are not (`unwritten`). Without `writes` (guard "
    "is `report`) nothing was sent. After `ended` not all was: the master has changed again, the set was removed, it "
    "is the process that was master before, or it was not known who is master; a run follows where one is needed.",
    advice="Look at /v1/offsets/guard/{run} if `report` or `unwritten` is not 0.",
)
GUARD_RUN_FAILED: Final = LogEvent(
    name="guard_run_failed",
    level=Level.WARNING,
    keys=("broker", "addr", "cause", "run", "result", "error"),
    meaning="The guard could not look at all offsets of a broker set after its master had changed or was started "
    "again. Up to three more runs follow, 2 s apart, after `failed`; none after `given_up`, and none after "
    "`not_decided`: within ten minutes the broker did not serve, other runs had all turns, or nobody knew that it is "
    "master. Nothing is written later than that, so `given_up` may come before the fourth run. What is not set right "
    "stays as the broker has it: groups read again.",
    advice="Do what `error` says; then compare with /v1/offsets/guard, and restore what is missing.",
)
GROUP_GUARDED: Final = LogEvent(
    name="group_guarded",
    level=Level.INFO,
    keys=(
        "broker",
        "run",
        "group",
        "topic",
        "action",
        "reason",
        "outcome",
        "queues",
        "queue_id",
        "saved",
        "old_offset",
        "new_offset",
    ),
    meaning="What the guard did, or would do, with the offsets of a group in a topic: so many `queues`, of which "
    "`queue_id` is the first, with what the mirror had `saved` and the broker shown (`old_offset`). After `push`, "
    "`set` and `archive` it is `new_offset`; after `report` nothing was written, and where it is known from where on "
    "nothing is skipped, that is `new_offset`. 20 lines of each run at most.",
    advice="After `report` decide by `reason` (docs/offsets.md): reset the group to `new_offset`, or leave it. Never "
    "raise the offset of a group that pops.",
)

MEMBERS_RESET: Final = LogEvent(
    name="members_reset",
    level=Level.INFO,
    keys=("broker", "run", "group", "topics", "members"),
    meaning="The members of a group were sent back to where its offsets were set after a lost tail, or in an empty "
    "store, as they go on from positions in memory otherwise: they read again what they have read since the "
    "promotion. Or they came to a master without an offset of the group, and were sent to the saved one "
    "(`left_absent`). Where the broker resets nothing on its side, each is sent back twice, and so are others that "
    "come within two minutes, or later where the group has many topics. 20 lines of each run at most, with those of "
    "`members_not_reset`.",
    advice="Nothing is to be done.",
)
MEMBERS_NOT_RESET: Final = LogEvent(
    name="members_not_reset",
    level=Level.WARNING,
    keys=("broker", "run", "group", "topics", "error"),
    meaning="Members of a group may go on from positions in a lost tail of these topics, or from the end where it "
    "had no offset, and skip messages: the broker has refused to send them back (it does so where a queue of the "
    "topic has no offset of the group), or they do not follow it, unlike others of the group, or somebody else has "
    "set the topic back meanwhile, which is left, or they were not sent back twice in time, or nobody could look "
    "which members there are, or another broker has the address now: `error` says which.",
    advice="If it was not set back on purpose, reset the group to the time of the promotion.",
)

GUARD: Final = (OFFSETS_GUARDED, GUARD_RUN_FAILED, GROUP_GUARDED, MEMBERS_RESET, MEMBERS_NOT_RESET)
