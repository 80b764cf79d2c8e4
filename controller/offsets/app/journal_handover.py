"""A manager that was killed while it led gives the present leader what it had acknowledged and etcd does not have.

The journal of a follower may hold commits that were acknowledged `local`. It writes them itself when it leads again;
until then, or where it never does, the leader takes them as commits: a newer offset that it has stays.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import msgspec

from controller.offsets.service.lock_rows import is_lock_row
from controller.offsets.service.manager_role import ManagerRole
from controller.offsets.storage.formats.records import FlushedRow
from controller.offsets.storage.journal import Journal
from controller.offsets.storage.row_flusher import JOURNAL_MS_MAX, refuse_other_store
from controller.offsets.values import GroupTopic, QueueKey, StoredOffset
from controller.storage.store import StoreError
from remoting.clock import Clock
from serving.process.start import StartFailed

if TYPE_CHECKING:
    import aiohttp

#: How often a follower looks at its journal, and again after an attempt that left something.
LOOK_S: Final = 1.0
AGAIN_S: Final = 10.0
#: Offsets of one request.
ENTRIES_MAX: Final = 1_000
#: How long one request may take, and how long its answer may be.
REQUEST_S: Final = 30
ANSWER_BYTES_MAX: Final = 4 << 20

#: The leader has the offset, or a newer one.
_SETTLED: Final = frozenset({"ok", "stale"})


class HandoverRefused(Exception):
    """The leader did not take what was handed over; the text says why."""


class HandoverObserver(Protocol):
    """Learns what was handed over, to log it."""

    def handed_over(self, leader: str, settled: int, left: int) -> None:
        """Report how many offsets the leader has since, and how many it did not take."""

    def handover_failed(self, leader: str, error: str) -> None:
        """Report that it failed; it is tried again."""


class DirtyEntry(NamedTuple):
    """An offset that the store does not have."""

    key: QueueKey
    stored: StoredOffset
    #: Of the record that has it.
    number: int


class _Result(msgspec.Struct):
    status: str


class _CommitAnswer(msgspec.Struct):
    results: list[_Result]


class HandoverSource(NamedTuple):
    """What a follower has, and for which store."""

    journal: Journal
    role: ManagerRole
    #: Returns the id of the store that it follows with, blank if not known yet; raises StoreError.
    store_id: Callable[[], Awaitable[str]]


class JournalHandover:
    """Hands the journal of a follower over to the leader."""

    def __init__(self, own: HandoverSource, token: Callable[[], str], clock: Clock, observer: HandoverObserver) -> None:
        """Take what reads the token of clients, blank for none."""
        self._journal, self._role, self._store_id = own
        self._token = token
        self._clock = clock
        self._observer = observer
        #: How many the leader did not take the last time: the same again is no news.
        self._left = 0

    async def hand_journal_over(self) -> None:
        """Do so for ever, whenever another manager leads and something is dirty here."""
        while True:
            await asyncio.sleep(LOOK_S)
            leader = self._role.leader
            if self._role.is_leading or leader is None or not any(self._dirty()):
                continue
            if not await self._attempt(leader.address):
                await asyncio.sleep(AGAIN_S)

    def _dirty(self) -> Iterator[DirtyEntry]:
        # What is older may have been deleted by a manager that remembers it no more.
        oldest_ms = self._clock.unix_ms() - JOURNAL_MS_MAX
        for of, row in self._journal.dirty.rows.items():
            if is_lock_row(of):
                # These were never acknowledged: locks wait for the store.
                continue
            for queue_id, dirty in row.offsets.items():
                after = dirty.after
                # Deletions were not acknowledged either.
                if after is not None and not after.is_deleted and after.unix_ms >= oldest_ms:
                    yield DirtyEntry(QueueKey(of, queue_id), after, dirty.number)

    async def _attempt(self, leader: str) -> bool:
        """Return whether the leader has everything now."""
        import aiohttp  # noqa: PLC0415  # it is loaded with the HTTP side, after the port is open

        try:
            # The leader of another store would take it as well.
            refuse_other_store(self._journal, await self._store_id())
            timeout = aiohttp.ClientTimeout(total=REQUEST_S)
            async with aiohttp.ClientSession(timeout=timeout, trust_env=False) as session:
                settled, left = await self._hand_over(_Leader(session, leader, await asyncio.to_thread(self._token)))
        except (aiohttp.ClientError, TimeoutError, OSError, StoreError, HandoverRefused, StartFailed) as error:
            self._observer.handover_failed(leader, str(error) or type(error).__name__)
            return False
        if settled or left != self._left:
            self._observer.handed_over(leader, settled, left)
        self._left = left
        return not left

    async def _hand_over(self, leader: "_Leader") -> tuple[int, int]:
        began_ms = self._clock.now_ms()
        entries = sorted(self._dirty(), key=_request_of)
        settled: list[DirtyEntry] = []
        remaining = iter(entries)
        while part := list(islice(remaining, ENTRIES_MAX)):
            for same in _requests(part):
                statuses = await leader.commit(same)
                settled += [each for each, status in zip(same, statuses, strict=True) if status in _SETTLED]
        if settled:
            # The leader has them in its journal; only what the store has may leave this one.
            await leader.flush()
            self._journal.flushed(_rows(settled), began_ms)
        return len(settled), len(entries) - len(settled)


class _Leader:
    """The HTTP side of the leader."""

    def __init__(self, session: "aiohttp.ClientSession", address: str, token: str) -> None:
        self._session = session
        self._url = f"http://{address}/v1/offsets/"
        self._headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})

    async def commit(self, entries: Sequence[DirtyEntry]) -> list[str]:
        """Return what became of entries of one writer, cluster and namespace."""
        cluster, namespace, writer = _request_of(entries[0])
        body = {
            "writer": writer,
            "cluster": cluster,
            "namespace": namespace,
            "entries": [_item(each) for each in entries],
        }
        answer = await self._post("commit", body)
        try:
            statuses = [each.status for each in msgspec.json.decode(answer, type=_CommitAnswer).results]
        except msgspec.DecodeError as error:
            raise HandoverRefused(f"the answer is not that of an offset manager: {error}") from None
        if len(statuses) != len(entries):
            raise HandoverRefused(f"{len(statuses)} results for {len(entries)} entries")
        return statuses

    async def flush(self) -> None:
        """Wait until the store has what was committed."""
        await self._post("flush", {})

    async def _post(self, path: str, body: Mapping[str, Any]) -> bytes:
        data = msgspec.json.encode(body)
        async with self._session.post(self._url + path, data=data, headers=self._headers) as response:
            answer = bytes(await response.content.read(ANSWER_BYTES_MAX))
            while not response.content.at_eof() and len(answer) < ANSWER_BYTES_MAX:
                answer += await response.content.read(ANSWER_BYTES_MAX)
        if response.status != 200:  # noqa: PLR2004  # OK
            raise HandoverRefused(f"{path} was answered {response.status}: {answer[:200].decode(errors='replace')}")
        return answer


def _request_of(entry: DirtyEntry) -> tuple[str, str, str]:
    """Return what all entries of one request have in common."""
    of = entry.key.of
    return of.cluster, of.namespace, entry.stored.writer


def _requests(entries: Sequence[DirtyEntry]) -> Iterator[list[DirtyEntry]]:
    """Yield sorted entries, those of one request together."""
    same: list[DirtyEntry] = []
    for each in entries:
        if same and _request_of(each) != _request_of(same[0]):
            yield same
            same = []
        same.append(each)
    yield same


def _item(entry: DirtyEntry) -> dict[str, object]:
    of, queue_id = entry.key
    stored = entry.stored
    return {
        "group": of.group,
        "topic": of.topic,
        "brokerName": of.broker_name,
        "queueId": queue_id,
        "offset": stored.offset,
        "resetEpoch": stored.reset_epoch,
        "token": stored.token,
    }


def _rows(entries: Sequence[DirtyEntry]) -> list[FlushedRow]:
    numbers: dict[GroupTopic, dict[int, int]] = {}
    for each in entries:
        numbers.setdefault(each.key.of, {})[each.key.queue_id] = each.number
    return [FlushedRow(of, queues) for of, queues in numbers.items()]
