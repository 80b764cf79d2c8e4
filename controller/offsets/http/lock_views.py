"""What each HTTP path about locks answers, as values; knows no web server."""

import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final

import msgspec

from controller.offsets.http import lock_shapes as shapes
from controller.offsets.http.offset_bodies import check_writer
from controller.offsets.http.refusing import refusals
from controller.offsets.http.shapes import DEFAULT_CLUSTER
from controller.offsets.locks.sessions.handover import FinalOffset
from controller.offsets.locks.sessions.session_rules import SessionHeld
from controller.offsets.locks.sessions.values import LockGroup, LockSession
from controller.offsets.service.lock_rows import CLUSTER_CHARACTERS_MAX
from controller.offsets.service.lock_service import LockService
from controller.offsets.service.manager_role import ManagerRole
from controller.offsets.values import GroupTopic, QueueKey
from remoting.clock import Clock
from serving.http.views import HttpRefused, UnprocessableBody, ViewRequest

#: Nobody guesses an id of so many random bytes.
_SESSION_BYTES: Final = 16


class LockViews:
    """One method per path."""

    def __init__(self, locks: LockService, role: ManagerRole, clock: Clock) -> None:
        self._locks = locks
        self._role = role
        self._clock = clock

    # Clients

    async def open_session(self, request: ViewRequest) -> shapes.SessionAnswer:
        """Open a session."""
        body: shapes.SessionBody = request.body
        session = LockSession(
            session_id=secrets.token_urlsafe(_SESSION_BYTES),
            group=_group(body.cluster, body.namespace, body.group),
            client_id=body.client_id,
            ttl_ms=body.ttl_ms,
            opened_unix_ms=self._clock.unix_ms(),
        )
        with refusals():
            return _session_answer(await self._locks.open(session))

    async def renew_session(self, request: ViewRequest) -> shapes.SessionAnswer:
        """Begin the lease of a session again."""
        with refusals():
            return _session_answer(await self._locks.renew(request.body.session_id))

    async def acquire(self, request: ViewRequest) -> shapes.AcquireAnswer:
        """Grant the queues that are free."""
        body: shapes.AcquireBody = request.body
        with refusals():
            group = self._locks.group_of(body.session_id)
            keys = [_key(group, each) for each in body.queues]
            results = await self._locks.acquire(body.session_id, keys, body.operation)
        return shapes.AcquireAnswer(
            [
                shapes.AcquiredQueue(each.status.value, each.token, each.holder, each.remaining_ms, each.reason)
                for each in results
            ]
        )

    async def release(self, request: ViewRequest) -> shapes.ReleaseAnswer:
        """Commit the final offsets, then give queues up."""
        body: shapes.ReleaseBody = request.body
        with refusals():
            group = self._group_of_released(body.session_id)
            if group is None:
                return shapes.ReleaseAnswer([shapes.ReleasedView("not_held") for _ in body.queues])
            keys = [_key(group, each) for each in body.queues]
            finals = {key: _final(each) for key, each in zip(keys, body.queues, strict=True)}
            offsets = {key: final for key, final in finals.items() if final is not None}
            results = await self._locks.release(body.session_id, keys, offsets)
        return shapes.ReleaseAnswer([shapes.ReleasedView(each.status.value, each.reason) for each in results])

    def _group_of_released(self, session_id: str) -> LockGroup | None:
        """Return the group of a session that is there, whether its lease lasts or not; None if it has ended."""
        self._role.check_serves()
        session = self._locks.table.sessions.get(session_id)
        return None if session is None else session.group

    async def close_session(self, request: ViewRequest) -> shapes.CloseAnswer:
        """End a session; its queues are free."""
        with refusals():
            return shapes.CloseAnswer(await self._locks.close(request.body.session_id))

    async def transfer(self, request: ViewRequest) -> shapes.TokenAnswer:
        """Commit the final offset, and give a queue to another client."""
        body: shapes.TransferBody = request.body
        with refusals():
            key = _key(self._locks.group_of(body.session_id), body.queue)
            token = await self._locks.transfer(body.session_id, key, body.to_client, body.operation, _final(body.queue))
        return shapes.TokenAnswer(token)

    def locks(self, request: ViewRequest) -> shapes.LockListing:
        """Return a page of the locks of a group."""
        if not (name := request.query.get("group")):
            raise HttpRefused("group must be given: locks are listed by group.")
        group = LockGroup(request.query.get("cluster", DEFAULT_CLUSTER), request.query.get("namespace", ""), name)
        after = None if request.page.cursor is None else _after(group, request.page.cursor)
        with refusals():
            page = self._locks.page(group, after, request.page.limit)
            is_orderly = self._locks.table.is_orderly(group)
        return shapes.LockListing(
            is_orderly=is_orderly,
            locks=[
                shapes.LockedQueue(
                    each.key.of.topic,
                    each.key.of.broker_name,
                    each.key.queue_id,
                    each.client_id,
                    each.token,
                    each.remaining_ms,
                    each.since_unix_ms,
                )
                for each in page.locks
            ],
            next_cursor=None if page.next_after is None else _cursor(page.next_after),
        )

    # Operators

    async def force_release(self, request: ViewRequest) -> shapes.TokenAnswer:
        """Take a queue from its holder."""
        body: shapes.ForceReleaseBody = request.body
        check_writer(body.writer)
        group = _group(body.cluster, body.namespace, body.group)
        key = QueueKey(GroupTopic(*group, body.topic, body.broker_name), body.queue_id)
        with refusals():
            return shapes.TokenAnswer(await self._locks.force_release(body.writer, key))

    async def declare_orderly(self, request: ViewRequest) -> shapes.OrderlyAnswer:
        """Let a group have locks."""
        body: shapes.GroupBody = request.body
        check_writer(body.writer)
        with refusals():
            changed = await self._locks.declare_orderly(body.writer, _group(body.cluster, body.namespace, body.group))
        return shapes.OrderlyAnswer(changed)

    async def withdraw_orderly(self, request: ViewRequest) -> shapes.OrderlyAnswer:
        """Let a group have no locks any more."""
        body: shapes.GroupBody = request.body
        check_writer(body.writer)
        with refusals():
            changed = await self._locks.withdraw_orderly(body.writer, _group(body.cluster, body.namespace, body.group))
        return shapes.OrderlyAnswer(changed)


def _group(cluster: str, namespace: str, group: str) -> LockGroup:
    if len(cluster) > CLUSTER_CHARACTERS_MAX:
        raise UnprocessableBody(f"cluster has {len(cluster)} characters, at most {CLUSTER_CHARACTERS_MAX} are allowed.")
    return LockGroup(cluster, namespace, group)


def _key(group: LockGroup, queue: shapes.GroupQueue) -> QueueKey:
    return QueueKey(GroupTopic(*group, queue.topic, queue.broker_name), queue.queue_id)


def _final(queue: shapes.FinalQueue) -> FinalOffset | None:
    return None if queue.offset is None else FinalOffset(queue.offset, queue.reset_epoch)


def _session_answer(session: SessionHeld) -> shapes.SessionAnswer:
    queues = [
        shapes.SessionQueue(key.of.topic, key.of.broker_name, key.queue_id, token) for key, token in session.queues
    ]
    return shapes.SessionAnswer(session.session_id, session.valid_ms, session.renew_every_ms, queues, session.note)


def _cursor(key: QueueKey) -> str:
    names = (key.of.topic, key.of.broker_name, key.queue_id)
    return urlsafe_b64encode(msgspec.json.encode(names)).decode().rstrip("=")


def _after(group: LockGroup, cursor: str) -> QueueKey:
    try:
        raw = urlsafe_b64decode(cursor.encode() + b"=" * (-len(cursor) % 4))
        topic, broker_name, queue_id = msgspec.json.decode(raw, type=tuple[str, str, int])
    except (ValueError, msgspec.DecodeError):
        raise HttpRefused("cursor must be the nextCursor of the page before, of the same list.") from None
    return QueueKey(GroupTopic(*group, topic, broker_name), queue_id)
