"""What the HTTP path of masters answers: reads, changes nothing, and waits for changes if it is to."""

import asyncio
from typing import Final

import msgspec

from controller.failover.election_log import ElectionLog
from controller.failover.group import Group
from controller.refusals import NotLeader
from controller.sets.broker_set import BrokerSet
from serving.http.paths import Parameter, get
from serving.http.views import StateConflict, Unavailable, ViewRequest, requested_number
from serving.shapes.controller import MasterListing, MemberAddressView, SetMasterView
from store.set_changes import TooManyWaits
from store.store import SetStore

#: The longest wait for a change, ms.
WAIT_MS_MAX: Final = 30_000
#: Requests are served in between: all sets take some milliseconds for each thousand.
_SETS_AT_ONCE: Final = 100

_encode: Final = msgspec.json.Encoder().encode


class MasterViews:
    """The answers to programs that follow masters."""

    def __init__(self, store: SetStore, group: Group, elections: ElectionLog) -> None:
        self._store, self._group, self._elections = store, group, elections
        #: The last answer with all sets, and its revision: many may request it when a controller begins to lead.
        self._complete, self._complete_revision = b"", ""
        self._turn = asyncio.Lock()

    @get(
        "/v1/masters",
        answer=MasterListing,
        parameters=(
            Parameter(
                "after",
                "Revision of an earlier answer, to get only the sets that have changed since. Without it, or with an "
                "unknown one, all sets are returned at once.",
            ),
            Parameter(
                "waitMs",
                "How long to wait for a change since `after`.",
                {"type": "integer", "minimum": 0, "maximum": WAIT_MS_MAX, "default": 0},
            ),
        ),
        refusals=(400, 409, 503),
        waits=True,
    )
    async def masters(self, request: ViewRequest) -> MasterListing | bytes:
        """The masters of all sets with their epochs, for programs that follow them; only the leader answers.

        Those of the sets that have changed since `after`; without a change it waits up to `waitMs` for one.
        An answer with all sets is encoded. Raises HttpRefused for a bad wait, StateConflict on a controller that does
        not lead, also if it ceases to while it waits, and Unavailable where too many wait, in all or of
        one client, or the process ends.
        """
        after, wait_ms = request.query.get("after", ""), requested_number(request, "waitMs", WAIT_MS_MAX)
        self._check_answers()
        try:
            await self._store.changes.wait(after, wait_ms, client=request.client)
        except TooManyWaits as error:
            raise Unavailable(str(error)) from None
        self._check_answers()
        names = self._store.changes.since(after)
        if names is not None:
            return self._changed(names)
        async with self._turn:
            return await self._all()

    def _check_answers(self) -> None:
        if self._store.changes.is_closed:
            raise Unavailable("This controller is stopping.")
        try:
            self._group.check_leads()
        except NotLeader as error:
            raise StateConflict(f"Only the leading controller knows the masters: {error}.") from None

    def _changed(self, names: list[str]) -> MasterListing:
        found = {name: self._store.get(name) for name in names}
        absent = [name for name, each in found.items() if each is None]
        problems = self._store.problems() if absent else {}
        return MasterListing(
            controller_group=self._group.name,
            revision=self._store.changes.revision,
            complete=False,
            broker_sets=[self._master(each) for each in found.values() if each is not None],
            removed=[name for name in absent if name not in problems],
            unreadable=[name for name in absent if name in problems],
        )

    async def _all(self) -> bytes:
        revision = self._store.changes.revision
        if revision != self._complete_revision:
            # All at one moment; sets are immutable, so the rest may take its time.
            broker_sets, unreadable = list(self._store.sets()), sorted(self._store.problems())
            shown: list[SetMasterView] = []
            for at in range(0, len(broker_sets), _SETS_AT_ONCE):
                shown += map(self._master, broker_sets[at : at + _SETS_AT_ONCE])
                await asyncio.sleep(0)
            listing = MasterListing(
                controller_group=self._group.name,
                revision=revision,
                complete=True,
                broker_sets=shown,
                removed=[],
                unreadable=unreadable,
            )
            self._complete, self._complete_revision = _encode(listing), revision
        return self._complete

    def _master(self, broker_set: BrokerSet) -> SetMasterView:
        election = self._elections.beginning(broker_set.broker_name, broker_set.master_epoch)
        return SetMasterView(
            broker_name=broker_set.broker_name,
            cluster=broker_set.cluster,
            master_broker_id=broker_set.master,
            master_address=broker_set.master_address,
            master_epoch=broker_set.master_epoch,
            elected_unix_ms=None if election is None else election.unix_ms,
            elected_unclean=None if election is None else election.is_unclean,
            sync_state_set_epoch=broker_set.sync_state_set_epoch,
            members=[
                MemberAddressView(
                    broker_id=broker_id, address=each.address, in_sync=broker_id in broker_set.sync_state_set
                )
                for broker_id, each in sorted(broker_set.replicas.items())
            ],
        )
