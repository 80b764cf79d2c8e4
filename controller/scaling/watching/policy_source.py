"""Where policies come from: a file that is read again when it changes, or else a stored document that HTTP replaces.

A mistake leaves the policies before in force. At the start there are none before: no topic is resized until it is
mended, and brokers are served meanwhile.
"""

import asyncio
import errno
from collections.abc import Callable
from pathlib import Path
from typing import Final

from controller.scaling.autoscaler.policies import PolicyTable
from controller.scaling.autoscaler.policy_documents import (
    DOCUMENT_CHARS_MAX,
    PoliciesRefused,
    PolicyMistake,
    policies_of_json,
    policies_of_toml,
)
from controller.scaling.watching.scaling_observer import ScalingObserver
from controller.storage.document_store import DocumentStore
from controller.storage.documents import DocumentKind
from controller.storage.store import StoreError

#: The one document that has all policies.
DOCUMENT: Final = "policies"
#: What stands for the source of policies that HTTP has set.
HTTP: Final = "http"

_LOOK_S: Final = 1.0
#: Bytes of a character in UTF-8, at most.
_CHARACTER_BYTES: Final = 4


class PolicyFileDecides(Exception):
    """Policies come from a file, so HTTP does not change them."""

    def __init__(self, path: str) -> None:
        super().__init__(f"policies come from {path} (scalingPolicyFile): change that file, it is read again by itself")


class PolicySource:
    """The policies in force."""

    def __init__(self, path: str, documents: DocumentStore, observer: ScalingObserver) -> None:
        """Take the path of a file; blank: the stored document counts."""
        self.table = PolicyTable()
        #: What is wrong with the newest policies; blank if they are in force.
        self.problem = ""
        self._path = path
        self._documents = documents
        self._observer = observer
        #: The text that was read last, whether it was taken or not; None before the first one.
        self._read: str | None = None
        #: The text that the file had at the last look; None before the first one.
        self._seen: str | None = None

    @property
    def source(self) -> str:
        """The path of the file, or `http`."""
        return self._path or HTTP

    @property
    def is_file(self) -> bool:
        """Whether a file decides."""
        return bool(self._path)

    async def watch_file(self) -> None:
        """Read the file each second, for ever; only what has changed is taken."""
        while True:
            await self.read_file()
            await asyncio.sleep(_LOOK_S)

    async def read_file(self) -> None:
        """Take the file if it has changed and was the same at the last look; one that cannot be read changes nothing.

        An editor may be in the middle of it: half of a file is a list of fewer policies, by which topics are forgotten.
        """
        try:
            text = await asyncio.to_thread(_text_of, self._path)
        except (OSError, RuntimeError) as error:
            # RuntimeError: nobody knows whose home `~` is.
            self._refuse_once(f"{self._path} cannot be read: {getattr(error, 'strerror', None) or error}")
        except UnicodeDecodeError:
            self._refuse_once(f"{self._path} is no UTF-8 text")
        else:
            is_settled, self._seen = self._seen in (None, text), text
            if is_settled and text != self._read:
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
        """Store policies and put them in force; raises PolicyFileDecides, PoliciesRefused and StoreError."""
        if self._path:
            raise PolicyFileDecides(self._path)
        policies_of_json(text)
        await self._documents.change(DocumentKind.SCALING_POLICY, DOCUMENT, lambda _: text.encode())
        self.look_at_store()

    def forget_stored(self) -> None:
        """Know no stored policies: another controller leads, and may change them."""
        if not self._path:
            self.table, self.problem, self._read = PolicyTable(), "", None

    def _take(self, text: str, found: PolicyTable | PoliciesRefused) -> None:
        self._read = text
        if isinstance(found, PoliciesRefused):
            self._refuse(found)
        else:
            self.table, self.problem = found, ""
            self._observer.policies_loaded(self.source, found)

    def _refuse_once(self, problem: str) -> None:
        if problem != self.problem:
            self._read = None
            self._refuse(PoliciesRefused([PolicyMistake(None, "", problem)]))

    def _refuse(self, refusal: PoliciesRefused) -> None:
        self.problem = str(refusal)
        self._observer.policies_refused(self.source, refusal)


def _table_or_refusal(
    text: str, read: Callable[[str], PolicyTable] = policies_of_toml
) -> PolicyTable | PoliciesRefused:
    try:
        return read(text)
    except PoliciesRefused as refusal:
        return refusal


def _text_of(path: str) -> str:
    """Return the text of a file, and of one that is too long somewhat more than policies may have."""
    found = Path(path).expanduser()
    if found.exists() and not found.is_file():
        # To open a pipe would wait for a writer, for ever.
        raise OSError(errno.EINVAL, "it is no file")
    with found.open("rb") as file:
        return file.read(_CHARACTER_BYTES * DOCUMENT_CHARS_MAX + 1).decode()
