"""Puts restores, undoes and lags together: the file of operations, and requests to brokers of their own number."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from controller.offsets.config import OffsetManagerConfig
from controller.offsets.mirror.mirrored_offsets import MirroredOffsets
from controller.offsets.mirror.regressions import RESETS_MAX, EarlierResets, Reset, SetQueue
from controller.offsets.observability.restore_event_log import RestoreEventLog
from controller.offsets.restore.broker_facts import REQUESTS_MAX
from controller.offsets.restore.kept_operations import KeptOperations
from controller.offsets.restore.lag_reader import LagReader
from controller.offsets.restore.operation_file import OperationFile
from controller.offsets.restore.own_offsets import OwnOffsets
from controller.offsets.restore.requests import NoSuchOperation
from controller.offsets.restore.restorer import FollowedMasters, RestoreParts, Restorer
from controller.offsets.restore.site import BrokerAccess, RestoreSite
from controller.offsets.service.offset_service import OffsetService
from remoting.admin.client import AdminClient, AdminLimits
from remoting.client import Requester
from remoting.clock import Clock
from serving.process.start import StartFailed
from store.store import StoreError

#: Operators' requests beside the mirror and the guard, which have their own.
_LIMITS: Final = AdminLimits(requests_max=128, requests_per_peer_max=REQUESTS_MAX)
#: Lags need no token: they take no turns of a restore.
_LAG_LIMITS: Final = AdminLimits(requests_max=32, requests_per_peer_max=4)


def open_operations(config: OffsetManagerConfig, clock: Clock, own_address: Callable[[], str]) -> KeptOperations:
    """Return the last operations of this manager, whose address is known once it serves; raises StartFailed."""
    try:
        return KeptOperations(OperationFile(Path(config.store_path), clock), own_address)
    except StoreError as error:
        raise StartFailed(str(error)) from error


async def resets_of(kept: KeptOperations, clock: Clock) -> EarlierResets:
    """Return what the kept operations have set back at brokers, or may have.

    There are RESETS_MAX at least, if there are so many; those of an operation are returned together. An operation that
    cannot be read is named, and leaves the others as they are.
    """
    found: list[list[tuple[SetQueue, Reset]]] = []
    unknown: list[int] = []
    problems: list[str] = []
    try:
        heads = await kept.last()
    except StoreError as error:
        return EarlierResets(unknown_unix_ms=clock.unix_ms(), problems=[str(error)])
    for head in heads:
        if sum(map(len, found)) >= RESETS_MAX:
            break
        try:
            operation = await kept.find(head.operation_id)
        except NoSuchOperation:  # it gave way to a newer one
            continue
        except StoreError as error:
            unknown.append(head.unix_ms)
            problems.append(str(error))
            continue
        found.append(
            [
                (each.queue, Reset(each.new, operation.unix_ms))
                for each in operation.sent()
                if each.messages_again and each.new is not None
            ]
        )
    known = [each for resets in reversed(found) for each in resets]
    return EarlierResets(known=known, unknown_unix_ms=max(unknown, default=None), problems=problems)


class Restoring:
    """Makes what operators' requests about restores need."""

    def __init__(self, service: OffsetService, kept: KeptOperations, clock: Clock, event_log: RestoreEventLog) -> None:
        self._service, self._kept, self._clock, self._event_log = service, kept, clock, event_log

    def site(self, brokers: BrokerAccess | None) -> RestoreSite:
        """Return everything; `brokers` is None where none are followed."""
        own = OwnOffsets(self._service, self._kept, self._clock, self._event_log)
        return RestoreSite(own=own, kept=self._kept, brokers=brokers)

    def brokers(self, client: Requester, followed: FollowedMasters, mirrored: MirroredOffsets) -> BrokerAccess:
        """Return what restores and reads at brokers."""
        admin = AdminClient(client, _LIMITS)
        parts = RestoreParts(
            admin=admin,
            followed=followed,
            mirrored=mirrored,
            kept=self._kept,
            clock=self._clock,
            serves=lambda: self._service.role.is_serving,
            observer=self._event_log,
        )
        lags = LagReader(AdminClient(client, _LAG_LIMITS), self._clock)
        return BrokerAccess(followed=followed, mirrored=mirrored, restorer=Restorer(parts), lags=lags)
