"""What an operator wants of a switchover, and with which limits. Pure."""

from typing import Annotated, Final

import msgspec

from serving.shapes.scaling import Remark

#: A broker id as controllers assign them.
BrokerId = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]

#: The longest wait for a small backlog, in ms.
CATCH_UP_MS_MAX: Final = 600_000
#: The longest time that clients are held before the election, in ms; the hold itself ends after 10 s, whatever happens.
HOLD_MS_MAX: Final = 5_000


class SwitchoverRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """A wanted switchover."""

    #: The next master; without it the one in sync with the lowest electionPriority, then the longest log.
    broker_id: BrokerId | None = None
    #: Clients are held once the log of the next master is at most so many bytes behind.
    backlog_bytes_max: Annotated[int, msgspec.Meta(ge=0, le=2**40)] = 4 * 1024 * 1024
    #: How long that may take, in ms.
    catch_up_ms_max: Annotated[int, msgspec.Meta(ge=0, le=CATCH_UP_MS_MAX)] = 30_000
    #: How long clients are held, at most, until the next master has all messages, in ms.
    hold_ms_max: Annotated[int, msgspec.Meta(ge=100, le=HOLD_MS_MAX)] = 1_000
    #: Messages that the old master alone has may be lost: where it does not wait for its slaves, and nothing holds
    #: clients.
    accept_loss: bool = False
    requested_by: Remark = ""
    reason: Remark = ""
