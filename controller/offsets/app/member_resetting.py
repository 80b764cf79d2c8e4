"""Sends members of groups back that come to a new master after the run of the guard there. The edge."""

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Final, NamedTuple

from controller.offsets.app.guarding_parts import GuardedMirror, GuardingParts, GuardRunObserver
from controller.offsets.entry_keys import EntryKey
from controller.offsets.guard.master_queries import MasterQueries
from controller.offsets.guard.member_resets import MemberResetObserver, MemberResets
from controller.offsets.guard.runner import EarlyEnd
from controller.offsets.guard.unreset import UnresetGroup, UnresetGroups
from controller.offsets.guard_runs.run_log import GuardRun
from controller.offsets.mirror.masters import SetName
from controller.offsets.mirror.regressions import RESET_SENT_MS, SetQueue
from controller.offsets.topology.values import SetMaster
from remoting.admin.client import AdminClient, AdminLimits

#: Of all brokers together, beside the runs of the guard: up to 15 that hang hold up no others.
_LIMITS: Final = AdminLimits(requests_max=128, requests_per_peer_max=8)


class _ObservedResets(MemberResetObserver):
    """Takes what is done after a run, for the mirror and for what observes the run."""

    def __init__(self, run: GuardRun, began_unix_ms: int, observer: GuardRunObserver, mirror: GuardedMirror) -> None:
        """Take when the first run began whose members are sent back."""
        self._run, self._began_unix_ms, self._observer, self._mirror = run, began_unix_ms, observer, mirror

    def is_reset_since(self, group: str, topic: str, queue_ids: Collection[int]) -> bool:
        """Return whether the mirror knows of a reset since the first run began."""
        key, since_ms = EntryKey(topic, group), self._began_unix_ms + RESET_SENT_MS
        queues = (SetQueue(self._run.set_name, key, queue_id) for queue_id in queue_ids)
        return any(self._mirror.is_reset_unseen(queue, since_ms) for queue in queues)

    def sets_back(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Let the mirror know of offsets that are about to be set back."""
        key = EntryKey(topic, group)
        for queue_id, offset in offsets.items():
            self._mirror.guard_writes(SetQueue(self._run.set_name, key, queue_id), offset)

    def members_reset(self, group: UnresetGroup, members: int) -> None:
        """Report members that were sent back."""
        self._observer.members_reset(self._run, group, members)

    def members_not_reset(self, group: UnresetGroup, error: str) -> None:
        """Report members that go on from their own positions."""
        self._observer.members_not_reset(self._run, group, error)


class _Awaited(NamedTuple):
    """What is awaited at one broker."""

    master: SetMaster
    unreset: UnresetGroups
    #: When the first run began that has left some of it, Unix ms.
    began_unix_ms: int
    end: EarlyEnd


class MemberResetting:
    """What runs at all brokers have left, each until its members have come."""

    def __init__(self, parts: GuardingParts) -> None:
        self._clock, self._tasks, self._mirror, self._observer = parts.clock, parts.tasks, parts.mirror, parts.observer
        self._admin = AdminClient(parts.client, _LIMITS)
        self._awaited: dict[SetName, _Awaited] = {}
        self._is_stopped = False

    @property
    def at_work(self) -> int:
        """Brokers at which members are awaited."""
        return len(self._awaited)

    def begin(
        self, run: GuardRun, unreset: UnresetGroups, may_write: Callable[[], bool], is_over: Callable[[], bool]
    ) -> None:
        """Send members back as they come, from now on; also those that an earlier run at the same master has left."""
        if self._is_stopped:
            return
        began_unix_ms = run.began_unix_ms
        if (former := self._awaited.get(run.set_name)) is not None:
            former.end.end("another run has left more")
            # That run has set these right, so this one had nothing to do there.
            unreset, began_unix_ms = unreset.with_former(former.unreset), former.began_unix_ms
        awaited = self._awaited[run.set_name] = _Awaited(run.master, unreset, began_unix_ms, EarlyEnd())
        self._tasks.start(self._run(run, awaited, may_write, is_over), "member resets")

    def end_former(self, set_name: SetName, master: SetMaster) -> None:
        """Wait for nobody any more at another master of a set, or an earlier start of it: a run begins at this one."""
        former = self._awaited.get(set_name)
        if former is not None and former.master != master:
            del self._awaited[set_name]
            former.end.end("another run begins")

    def stop(self) -> None:
        """Wait for nobody any more, as the process ends."""
        self._is_stopped = True
        for each in self._awaited.values():
            each.end.end("this manager stops")

    async def _run(
        self, run: GuardRun, awaited: _Awaited, may_write: Callable[[], bool], is_over: Callable[[], bool]
    ) -> None:
        resets = MemberResets(
            MasterQueries(self._admin, run.master.broker_name, run.master.address),
            self._clock,
            _ObservedResets(run, awaited.began_unix_ms, self._observer, self._mirror),
            may_write,
            _LIMITS.requests_per_peer_max,
            checks_name=run.master.master_epoch is None,
        )
        try:
            async with asyncio.timeout(None) as limit:
                awaited.end.begin(limit)
                await resets.run(awaited.unreset, is_over)
        except TimeoutError:
            # It was to end.
            return
        finally:
            awaited.end.close()
            if self._awaited.get(run.set_name) is awaited:
                del self._awaited[run.set_name]
