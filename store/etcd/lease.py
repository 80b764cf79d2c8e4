"""Performs the steps of `lease_state_machine.py`, one at a time, and reports the results to the listener."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from remoting.background_tasks import BackgroundTasks
from remoting.clock import Clock
from store.etcd import calls
from store.etcd.calls import LeaderKeyState, OwnLeaderKey
from store.etcd.client import EtcdClient
from store.etcd.keys import Keys
from store.etcd.lease_state_machine import (
    LEASE_TTL_S,
    Campaign,
    Follows,
    GrantLease,
    Holder,
    Leadership,
    LeadershipRole,
    Leads,
    Leave,
    Look,
    Release,
    Renew,
    Step,
    Wait,
)
from store.etcd.threads import CallThreads
from store.store import LeadershipListener, StoreError

#: Leads that are remembered: an older state of the store may show one of them again.
_KNOWN_MAX: Final = 64


class SeenLeads:
    """Counts the leads that began, but the first one after the store went back if that is this member's own. Pure.

    Where the store went back to an older state, the lead that was ends, and the next one may be the same member's: then
    nobody else has led in between, and what it knows is the newest. Numbers of leads come again there,
    and show nothing.
    """

    def __init__(self, run: str) -> None:
        self._run = run
        #: By run, create revision and lease: the same run may get the same revision again, but under another lease.
        self._known: deque[tuple[str, int, int]] = deque(maxlen=_KNOWN_MAX)
        self._is_put_back = False
        self.count = 0

    def went_back(self, revision: int) -> None:
        """Note that the store is at an older state, by now at this revision: leads that began after it are gone."""
        self._is_put_back = True
        self._known = deque((each for each in self._known if each[1] <= revision), maxlen=_KNOWN_MAX)

    def see(self, holder: Holder | None) -> None:
        """Note who leads; one that an older state of the store shows again has not begun to lead."""
        if holder is None or (lead := (holder.run, holder.token, holder.lease_id)) in self._known:
            return
        self._known.append(lead)
        goes_on = self._is_put_back and holder.run == self._run
        self._is_put_back = False
        self.count += not goes_on


#: How long giving up the lead may take; without it the lease ends by itself.
LEAVE_MS: Final = 800

#: What the task is called that stands for election, and how long it rests after a fault of ours.
_NAME: Final = "etcd_election"
_AGAIN_S: Final = 0.1


class LeaderElection:
    def __init__(
        self, client: EtcdClient, keys: Keys, threads: CallThreads, clock: Clock, went_back: Callable[[], None]
    ) -> None:
        self._client, self._keys, self._threads, self._clock = client, keys, threads, clock
        #: Called when etcd is found to have gone back to an older state.
        self._on_rollback = went_back

    def start(
        self, leadership: Leadership, listener: LeadershipListener, tasks: BackgroundTasks
    ) -> "asyncio.Task[bool]":
        """Stand for election from now on, in a task that ends when leadership is given up."""
        self._tasks = tasks
        self._has_left = False
        self._state = leadership
        self._seen = SeenLeads(leadership.run)
        self._listener = listener
        self._reported: LeadershipRole | None = None
        self._woken = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._take(leadership)
        self._task = tasks.start(self._run(), _NAME)
        return self._task

    @property
    def own_key(self) -> OwnLeaderKey | None:
        self._take(self._state.at(self._clock.now_ms()))
        state = self._state
        return OwnLeaderKey(state.me, state.run, state.token) if state.token else None

    @property
    def leads_seen(self) -> int:
        """How many leads were seen to begin, but this controller's own where etcd has just gone back."""
        return self._seen.count

    def observed(self, leader_key: LeaderKeyState) -> None:
        self._take(self._state.observed(*leader_key))
        self._woken.set()

    def revision_seen(self, revision: int) -> None:
        self._take(self._state.revision_seen(revision))

    def recheck(self) -> None:
        """Have the key looked at."""
        self._take(self._state.recheck())
        self._woken.set()

    def pass_on(self) -> None:
        """Let another lead, and stand again after a while."""
        self._take(self._state.passed_on(self._clock.now_ms()))
        self._woken.set()

    async def resign(self) -> None:
        """Let another lead at once; what etcd does not take within a moment ends with the lease."""
        self._take(self._state.leaving())
        self._woken.set()
        await asyncio.wait({self._task}, timeout=LEAVE_MS / 1000)
        self.stop()

    def stop(self) -> None:
        self._task.cancel()
        self._take(self._state.leaving().left())

    def _take(self, state: Leadership) -> None:
        self._state = state
        self._seen.see(state.holder)
        if state.role == self._reported:
            return
        self._reported = state.role
        if self._timer is not None:
            self._timer.cancel()
        match state.role:
            case Leads(until_ms):
                # A step under way may take longer than the lead lasts.
                seconds = (until_ms - self._clock.now_ms()) / 1000
                self._timer = asyncio.get_running_loop().call_later(seconds, self._expire)
                self._listener.leads(until_ms)
            case Follows(leader):
                self._listener.follows(leader)

    def _expire(self) -> None:
        self._take(self._state.at(self._clock.now_ms()))
        if isinstance(self._state.role, Leads):
            self._timer = asyncio.get_running_loop().call_later(0.01, self._expire)  # the two clocks differ a little

    async def _run(self) -> None:
        """Stand until leadership is given up, whatever fails: who stops before never leads again, or never stops."""
        while not self._has_left:
            await self._tasks.attempt(self._run_steps(), _NAME)
            if not self._has_left:
                await asyncio.sleep(_AGAIN_S)

    async def _run_steps(self) -> None:
        while True:
            now_ms = self._clock.now_ms()
            self._take(self._state.at(now_ms))
            self._woken.clear()
            match self._state.next_step(now_ms):
                case Wait(until_ms):
                    await self._wait((until_ms - now_ms) / 1000)
                case Leave(token, lease_id):
                    self._has_left = True
                    await self._leave(token, lease_id)
                    return
                case step:
                    await self._attempt_step(step)

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            pass

    async def _attempt_step(self, step: Step) -> None:
        sent_ms = self._clock.now_ms()
        try:
            state = await self._perform(step, sent_ms)
        except StoreError:
            state = self._state.failed(self._clock.now_ms())
        except Exception as error:  # noqa: BLE001  # whatever it is, the step counts as failed
            self._tasks.report(_NAME, error)
            state = self._state.failed(self._clock.now_ms())
        self._take(state)

    async def _perform(self, step: Step, sent_ms: int) -> Leadership:
        """Return what is known afterwards, with what was reported during the call to etcd."""
        request, keys = self._threads.request, self._keys
        match step:
            case Look():
                known_before = self._state.known_revision
                return self._after_look(await request(self._client, "look", calls.read_leader(keys)), known_before)
            case GrantLease():
                lease_id, ttl_s = await request(self._client, "grant", calls.grant_lease(LEASE_TTL_S))
                return self._state.granted(lease_id, ttl_s=ttl_s, sent_ms=sent_ms)
            case Campaign(lease_id):
                me, run = self._state.me, self._state.run
                leader_key = await request(
                    self._client, "campaign", calls.campaign(keys, me, run, lease_id), is_repeatable=False
                )
                return self._state.observed(*leader_key)
            case Renew(lease_id):
                ttl_s = await request(self._client, "renew", calls.renew_lease(lease_id))
                return self._state.renewed(lease_id, ttl_s=ttl_s, sent_ms=sent_ms)
            case Release(holder):
                own_key = calls.OwnLeaderKey(holder.member, holder.run, holder.token)
                await request(self._client, "release", calls.release(keys, own_key))
                return self._state.released()
        raise AssertionError(f"{step} is not performed here")

    def _after_look(self, leader_key: LeaderKeyState, known_before: int) -> Leadership:
        if leader_key.revision < known_before:
            self._on_rollback()
            # After it: who is called there may see the former holder once more, whose lead is forgotten now.
            self._seen.went_back(leader_key.revision)
        return self._state.looked(*leader_key, self._clock.now_ms(), known_before=known_before)

    async def _leave(self, token: int, lease_id: int | None) -> None:
        request = self._threads.request
        try:
            if token:
                own_key = calls.OwnLeaderKey(self._state.me, self._state.run, token)
                await request(self._client, "release", calls.release(self._keys, own_key), within_ms=LEAVE_MS)
            if lease_id is not None:
                await request(self._client, "revoke", calls.revoke_lease(lease_id), within_ms=LEAVE_MS)
        except StoreError:
            pass  # the lease ends by itself
        finally:
            self._take(self._state.left())
