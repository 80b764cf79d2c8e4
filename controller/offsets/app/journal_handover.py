"""A manager that was killed while it led gives the present leader what it had acknowledged and etcd does not have.

The journal of a follower may hold commits that were acknowledged `local`. It writes them itself when it leads again;
until then, or where it never does, the leader takes them as commits: a newer offset that it has stays.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from http import HTTPStatus
from io import BytesIO
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import msgspec

from controller.offsets.service.manager_role import ManagerRole
from controller.offsets.storage.formats.records import FlushedRow
from controller.offsets.storage.journal import Journal
from controller.offsets.storage.row_flusher import JOURNAL_MS_MAX, refuse_other_store
from controller.offsets.values import GroupTopic, QueueKey, StoredOffset, is_lock_row
from remoting.clock import Clock
from serving.process.start import StartFailed
from store.store import StoreError

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
    """The leader did not take a request; the text says why."""

    def __init__(self, why: str, status: int = HTTPStatus.OK) -> None:
        #: What it was answered.
        self.status = status
        super().__init__(why)


class HandoverObserver(Protocol):
    """Learns what was handed over, to log it."""

    def handed_over(self, leader: str, settled: int, left: int) -> None:
        """Report how many offsets the leader has since, and how many it did not take."""

    def handover_failed(self, leader: str, error: str) -> None:
        """Report that it failed, at least in part; it is tried again."""


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


class _HandedOver(NamedTuple):
    """What the leader took, and why not all; blank if it refused nothing."""

    entries: Sequence[DirtyEntry]
    problem: str


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
                # These were never acknowledged: locks wait for the store. They are dropped when this manager leads.
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
                taker = _Leader(session, leader, await asyncio.to_thread(self._token))
                dirty = sorted(self._dirty(), key=_request_of)
                flushed = await self._hand_over(taker, dirty)
        except (aiohttp.ClientError, TimeoutError, OSError, StoreError, StartFailed) as error:
            self._observer.handover_failed(leader, str(error) or type(error).__name__)
            return False
        if flushed.problem:
            self._observer.handover_failed(leader, flushed.problem)
        settled, left = len(flushed.entries), len(dirty) - len(flushed.entries)
        if settled or left != self._left:
            self._observer.handed_over(leader, settled, left)
        self._left = left
        return not left

    async def _hand_over(self, leader: "_Leader", dirty: Sequence[DirtyEntry]) -> _HandedOver:
        """Return what of sorted entries the store has since; it is dirty no more."""
        began_ms = self._clock.now_ms()
        settled, problem = await _settled(leader, dirty)
        flushed: list[DirtyEntry] = []
        for (cluster, namespace), of_scope in groupby(settled, key=_scope_of):
            try:
                # The leader has them in its journal; only what the store has may leave this one.
                await leader.flush(cluster, namespace)
            except HandoverRefused as error:
                problem = problem or str(error)
                continue
            part = list(of_scope)
            self._journal.flushed(_rows(part), began_ms)
            flushed += part
        return _HandedOver(flushed, problem)


async def _settled(leader: "_Leader", dirty: Sequence[DirtyEntry]) -> _HandedOver:
    """Return in their order what of sorted entries the leader has since; what it refuses keeps no other back."""
    settled: list[DirtyEntry] = []
    problem = ""
    #: The next one is the last.
    requests = [*_requests(dirty)][::-1]
    while requests:
        same = requests.pop()
        try:
            statuses = await leader.commit(same)
        except HandoverRefused as error:
            if error.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE and len(same) > 1:
                half = len(same) // 2
                requests += [same[half:], same[:half]]
                continue
            problem = problem or str(error)
            if error.status == HTTPStatus.TOO_MANY_REQUESTS:
                # It takes the others no more than this one.
                break
            continue
        settled += [each for each, status in zip(same, statuses, strict=True) if status in _SETTLED]
    return _HandedOver(settled, problem)


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

    async def flush(self, cluster: str, namespace: str) -> None:
        """Wait until the store has what was committed there."""
        await self._post("flush", {"cluster": cluster, "namespace": namespace})

    async def _post(self, path: str, body: Mapping[str, Any]) -> bytes:
        data = BytesIO(msgspec.json.encode(body))
        async with self._session.post(self._url + path, data=data, headers=self._headers) as response:
            answer = bytes(await response.content.read(ANSWER_BYTES_MAX))
            while not response.content.at_eof() and len(answer) < ANSWER_BYTES_MAX:
                answer += await response.content.read(ANSWER_BYTES_MAX)
        if response.status != HTTPStatus.OK:
            why = f"{path} was answered {response.status}: {answer[:200].decode(errors='replace')}"
            raise HandoverRefused(why, response.status)
        return answer


def _request_of(entry: DirtyEntry) -> tuple[str, str, str]:
    """Return what all entries of one request have in common."""
    return *_scope_of(entry), entry.stored.writer


def _scope_of(entry: DirtyEntry) -> tuple[str, str]:
    """Return the cluster and namespace that one flush covers."""
    return entry.key.of.cluster, entry.key.of.namespace


def _requests(entries: Sequence[DirtyEntry]) -> Iterator[list[DirtyEntry]]:
    """Yield sorted entries, those of one request together."""
    for _, same in groupby(entries, key=_request_of):
        while part := list(islice(same, ENTRIES_MAX)):
            yield part


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
