"""Stands for election in etcd, and leads under a lease. Import this only where etcd is configured: it loads gRPC.

The keys of a group of managers are below `/rmq-offsets/<managerGroup>/`; the lead is its key `leader`. Rows are not
known here: a store writes them in transactions that compare `own_key`, and tells what it learns of the leader key.
"""

import asyncio
import secrets
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from offsets.lead import STORE_CALLS, Lead, StoreCallsAnswered, StoreCallsFailing
from remoting.background_tasks import BackgroundTasks, Report, on_loop
from remoting.clock import Clock
from serving.telemetry.events import Count, Counted, Event
from store import events as store_events
from store.etcd.calls import LeaderKeyState, OwnLeaderKey
from store.etcd.client import EtcdClient, EtcdOptions, System
from store.etcd.keys import Keys
from store.etcd.lease import LeaderElection
from store.etcd.lease_state_machine import Leadership
from store.etcd.threads import CallThreads
from store.store import ControllerMember, Deposed, StoreError

#: The first part of all keys.
ROOT: Final = "rmq-offsets"


def own_event(told: Event) -> Event:
    """Return what this server tells of a call to etcd."""
    match told:
        case store_events.StoreCallsFailing(operation=operation, error=error):
            return StoreCallsFailing(operation=operation, error=error)
        case store_events.StoreCallsAnswered(operation=operation, silent_ms=silent_ms):
            return StoreCallsAnswered(operation=operation, silent_ms=silent_ms)
        case store_events.StoreCalled(operation=operation, result=result):
            return Counted(count=Count(STORE_CALLS, (operation, result)))
    raise AssertionError(f"{told} is told by no call to etcd")


class EtcdLead(Lead):
    """The lead under a lease of etcd, one for all managers of a group."""

    def __init__(
        self,
        options: EtcdOptions,
        clock: Clock,
        emit: Callable[[Event], None],
        report: Report,
        system: System | None = None,
    ) -> None:
        """Call nothing yet; to be made in the event loop. Raises StoreError if the options cannot be followed."""
        super().__init__(clock, emit)
        self.client: Final = EtcdClient(options, clock, system)
        self.keys: Final = Keys(options.group, ROOT)
        #: Takes what is told of calls to etcd.
        self.on_call: Final = on_loop(lambda told: emit(own_event(told)))
        # Renewals do not wait behind writes of rows.
        self._renewals = CallThreads(1, clock, self.on_call)
        self._background = BackgroundTasks(report)
        self._election = LeaderElection(self.client, self.keys, self._renewals, clock, self.put_back)

    def start(self, me: ControllerMember) -> None:
        self.me = me
        self._election.start(Leadership(me=me, run=secrets.token_hex(8)), self, self._background)

    @property
    def number(self) -> int:
        """The revision at which the leader key was made: it rises unless etcd is restored; 0 without a lead."""
        own_key = self._election.own_key
        return 0 if own_key is None else own_key.token

    @property
    def leads_seen(self) -> int:
        """How many leads of any manager began while this one stood, but its own where etcd was just restored."""
        return self._election.leads_seen

    def own_key(self) -> OwnLeaderKey:
        """Return the key that a write has to compare; raises Deposed without a lead."""
        own_key = self._election.own_key
        if own_key is None:
            raise Deposed("this offset manager does not lead")
        return own_key

    def revision_seen(self, revision: int) -> None:
        """Note that etcd has come to this revision, as an answer to a write shows."""
        self._election.revision_seen(revision)

    def deposed_by(self, leader_key: LeaderKeyState) -> Deposed:
        """Take a leader key that refused a write, look at it again, and return the error for the writer."""
        self._election.observed(leader_key)
        self._election.recheck()
        holder = leader_key.holder
        return Deposed(
            "no offset manager leads"
            if holder is None
            else f"the offset manager {holder.member.id} at {holder.member.address} leads instead"
        )

    def pass_on(self) -> None:
        """Let another manager lead at once; this one stands again after some seconds."""
        self._election.pass_on()

    async def resign(self) -> None:
        """Let another manager lead at once; nothing more is stored after it."""
        with suppress(StoreError):  # the lease ends by itself
            await self._election.resign()

    async def close(self) -> None:
        """Fail the calls under way, and end the threads; without `resign` the lease ends by itself."""
        self._election.stop()
        await asyncio.get_running_loop().run_in_executor(None, self.client.close)
        self._renewals.close()
