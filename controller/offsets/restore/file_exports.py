"""Collects the offsets that are exported: of this manager, or of the mirror's last reading. The edge."""

import asyncio
from typing import Final, NamedTuple

from controller.offsets.commits.scopes import OffsetScope
from controller.offsets.entry_keys import EntryKey
from controller.offsets.mirror.masters import SetName
from controller.offsets.mirror.mirrored_offsets import MirroredOffsets
from controller.offsets.mirror.regressions import SetQueue
from controller.offsets.restore.file_imports import UnusableFile
from controller.offsets.service.offset_service import OffsetService

#: Offsets of one file.
EXPORTED_MAX: Final = 100_000
_PAGE: Final = 1_000


class ExportedOffsets(NamedTuple):
    """What a file gets."""

    offsets: dict[SetQueue, int]
    #: What cannot be read, and why.
    unavailable: list[str]


async def offsets_of_manager(service: OffsetService, scope: OffsetScope) -> ExportedOffsets:
    """Return the offsets of this manager in a scope; raises UnusableFile for too many, and as OffsetService.page."""
    found: dict[SetQueue, int] = {}
    unavailable: list[str] = []
    cursor = None
    while True:
        page = service.page(scope, cursor, _PAGE)
        for key, stored in page.offsets:
            of = key.of
            queue = SetQueue(SetName(of.cluster, of.broker_name), EntryKey(of.topic, of.group), key.queue_id)
            found[queue] = stored.offset
        unavailable += (f"group {of.group!a} in topic {of.topic!a}: {why}" for of, why in page.unavailable)
        _check(found)
        cursor = page.next
        if cursor is None:
            return ExportedOffsets(found, unavailable)
        await asyncio.sleep(0)


async def offsets_of_mirror(
    mirrored: MirroredOffsets, set_name: SetName, group: str | None, topic: str | None
) -> ExportedOffsets:
    """Return what the master of a broker set had stored at the last reading; raises UnusableFile."""
    if (saved := mirrored.saved(set_name)) is None:
        raise UnusableFile(f"the mirror has no reading of {set_name}: is it a broker set with a master?")
    found: dict[SetQueue, int] = {}
    for entry in saved.entries():
        if entry is None:
            await asyncio.sleep(0)
        elif group in (None, entry.key.group) and topic in (None, entry.key.topic):
            found |= {SetQueue(set_name, entry.key, queue_id): offset for queue_id, offset in entry.offsets.items()}
            _check(found)
    return ExportedOffsets(found, [])


def _check(found: dict[SetQueue, int]) -> None:
    if len(found) > EXPORTED_MAX:
        raise UnusableFile(f"this covers more than {EXPORTED_MAX} offsets: name a group, a topic or a broker")
