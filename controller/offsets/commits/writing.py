"""Who changes offsets on behalf of an operator or of another part of the control plane. Pure."""

from typing import Final

import msgspec

from controller.offsets.commits.entry_batch import BatchOptions
from controller.offsets.values import DELETED, NO_TOKEN, OffsetSource, StoredOffset

#: Leads whose epochs differ in any case: the number of the lead takes three digits of an epoch.
LEADS: Final = 1000


class OffsetWriter(msgspec.Struct, frozen=True, kw_only=True):
    """Who changes offsets, and when."""

    #: The operator, or the part of the control plane.
    writer: str
    source: OffsetSource = OffsetSource.OPERATOR
    #: The operation whose freeze lets it pass; blank if it has none.
    operation: str = ""
    #: Monotonic ms.
    now_ms: int
    #: Unix ms.
    unix_ms: int

    @property
    def batch_options(self) -> BatchOptions:
        """Return who makes the request, and what the freezes are compared with."""
        return BatchOptions(self.writer, self.now_ms, self.operation)

    def begin_epoch(self, offset: int, before: StoredOffset | None, lead: int) -> StoredOffset:
        """Return an offset that begins a new reset epoch: nothing committed or cached before it counts any more.

        Who has read that there was none commits in epoch 0, from where its policy for new groups has sent it. The
        highest token stays: a lock is not lost by a reset. An epoch has the time in it, so that none is given again
        where an older copy of the store was put back, and the number of the `lead` in its last digits: managers that
        reset one offset, the one unseen by the other, give different epochs.
        """
        epoch, token = (0, NO_TOKEN) if before is None else (before.reset_epoch, before.token)
        least = max(epoch + 1, self.unix_ms * LEADS)
        epoch = least + (lead - least) % LEADS
        return StoredOffset(offset, epoch, self.source, self.writer, token, self.unix_ms)

    def delete(self, before: StoredOffset, lead: int) -> StoredOffset:
        """Return what stands for a deleted offset: in a new epoch, so that nothing from before comes again."""
        return self.begin_epoch(DELETED, before, lead)
