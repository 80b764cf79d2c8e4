"""How the groups of topics consume, as it was seen last: nobody else can tell of a group that is offline.

One document for each topic, written when a kind is new: the next leader loads them with the operations.
"""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import msgspec

from controller.scaling.resize.observation import GroupKind, GroupView
from store.document_store import DocumentStore
from store.documents import DocumentKind
from store.store import StoreError

#: Later releases may know further kinds: they are kept.
_decode: Final = msgspec.json.Decoder(dict[str, str]).decode
_KINDS: Final = {kind.value: kind for kind in GroupKind}
_encode: Final = msgspec.json.Encoder(order="sorted").encode


class GroupKinds:
    """The last kinds of groups, by topic."""

    def __init__(self, documents: DocumentStore) -> None:
        self._documents = documents
        #: One write at a time: those of an autoscaler that begins to look are many, and elections use the store too.
        #: No round waits for another one's.
        self._write = asyncio.Lock()

    async def with_last(
        self, topic: str, views: Sequence[GroupView], *, is_whole: bool = False
    ) -> tuple[GroupView, ...]:
        """Return the groups of a topic, those that are offline with their last kinds; store the kinds that are new.

        Groups that are not among views of all masters (`is_whole`) go with the next write: a document has as many as a
        topic may have.
        """
        reported = {view.name: view.reported_kind for view in views}
        seen = {name: kind.value for name, kind in reported.items() if kind is not None}

        def decide(stored: bytes | None) -> bytes:
            kept = {name: kind for name, kind in _kinds(stored).items() if name in reported or not is_whole}
            return _encode(kept | seen)

        known: Mapping[str, str] = {}
        # Without the store kinds are unknown, which is a reason for care. What was not stored is seen again.
        with contextlib.suppress(StoreError):
            known = _kinds(self._documents.get(DocumentKind.GROUP_KINDS, topic))
            if not seen.items() <= known.items() and not self._write.locked():
                async with self._write:
                    await self._documents.change(DocumentKind.GROUP_KINDS, topic, decide)
        last = {name: _KINDS.get(kind) for name, kind in known.items()}
        return tuple(view if view.is_online else replace(view, last_kind=last.get(view.name)) for view in views)


def _kinds(stored: bytes | None) -> Mapping[str, str]:
    try:
        return {} if stored is None else _decode(stored)
    except msgspec.DecodeError:
        # It is written anew.
        return {}
