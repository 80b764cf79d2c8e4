"""Where policies come from: a file that is read again when it changes, or else a stored document that HTTP replaces.

A mistake leaves the policies before in force. At the start there are none before: no topic is resized until it is
mended, and brokers are served meanwhile.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from controller.scaling.autoscaler.policies import PolicyMode, PolicyTable, policies_of_json, policies_of_toml
from controller.scaling.watching.events import (
    MISTAKES_MAX,
    SENTENCE_CHARS_MAX,
    ScalingPoliciesLoaded,
    ScalingPoliciesRefused,
)
from serving.config.table_documents import TableMistake, TablesRefused
from serving.config.watched_file import LOOK_S, FileUnreadable, WatchedFile
from serving.telemetry.events import Emit
from store.document_store import DocumentStore
from store.documents import DocumentKind
from store.store import StoreError

#: The one document that has all policies.
DOCUMENT: Final = "policies"
#: What stands for the source of policies that HTTP has set.
HTTP: Final = "http"


class PolicyFileDecides(Exception):
    """Policies come from a file, so HTTP does not change them."""

    def __init__(self, path: str) -> None:
        super().__init__(f"policies come from {path} (scalingPolicyFile): change that file, it is read again by itself")


class PolicySource:
    def __init__(self, path: str, documents: DocumentStore, emit: Emit) -> None:
        """Take the path of a file; blank: the stored document counts."""
        self.table = PolicyTable()
        #: What is wrong with the newest policies; blank if they are in force.
        self.problem = ""
        self._path = path
        self._file = WatchedFile(path)
        self._documents = documents
        self._emit = emit
        #: The stored text that was read last, whether it was taken or not; None before the first one.
        self._read: str | None = None

    @property
    def source(self) -> str:
        return self._path or HTTP

    @property
    def is_file(self) -> bool:
        return bool(self._path)

    async def watch_file(self) -> None:
        """Read the file each second, for ever; only what has changed is taken."""
        while True:
            await self.read_file()
            await asyncio.sleep(LOOK_S)

    async def read_file(self) -> None:
        """Take the file if it has changed and was the same at the last look: half of a file has fewer policies."""
        try:
            text = await self._file.new_text()
        except FileUnreadable as error:
            self._refuse_once(str(error))
        else:
            if text is not None:
                # A long file takes a second, in which the loop has to go on.
                self._take(text, await asyncio.to_thread(_table_or_refusal, text))

    def look_at_store(self) -> None:
        """Take the stored document if it has changed, and no file decides; to be called while this controller leads."""
        if self._path:
            return
        try:
            stored = self._documents.get(DocumentKind.SCALING_POLICY, DOCUMENT)
        except StoreError as error:
            self._refuse_once(str(error))
            return
        if stored is not None or self._read is not None:
            text = (stored or b"{}").decode()
            if text != self._read:
                self._take(text, _table_or_refusal(text, policies_of_json))

    async def replace(self, text: str) -> None:
        """Store policies and put them in force; raises PolicyFileDecides, TablesRefused and StoreError."""
        if self._path:
            raise PolicyFileDecides(self._path)
        policies_of_json(text)
        await self._documents.change(DocumentKind.SCALING_POLICY, DOCUMENT, lambda _: text.encode())
        self.look_at_store()

    def forget_stored(self) -> None:
        """Know no stored policies: another controller leads, and may change them."""
        if not self._path:
            self.table, self.problem, self._read = PolicyTable(), "", None

    def _take(self, text: str, found: PolicyTable | TablesRefused) -> None:
        self._read = text
        if isinstance(found, TablesRefused):
            self._refuse(found)
        else:
            self.table, self.problem = found, ""
            automatic = sum(policy.mode is PolicyMode.AUTO for policy in found.policies)
            self._emit(ScalingPoliciesLoaded(source=self.source, policies=len(found.policies), automatic=automatic))

    def _refuse_once(self, problem: str) -> None:
        if problem != self.problem:
            self._read = None
            self._refuse(TablesRefused([TableMistake(None, "", problem)]))

    def _refuse(self, refusal: TablesRefused) -> None:
        self.problem = str(refusal)
        problems = [str(mistake)[:SENTENCE_CHARS_MAX] for mistake in refusal.mistakes[:MISTAKES_MAX]]
        self._emit(ScalingPoliciesRefused(source=self.source, mistakes=len(refusal.mistakes), problems=problems))


def _table_or_refusal(text: str, read: Callable[[str], PolicyTable] = policies_of_toml) -> PolicyTable | TablesRefused:
    try:
        return read(text)
    except TablesRefused as refusal:
        return refusal
