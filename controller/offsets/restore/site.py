"""Everything that restores, undoes and lags need, in one value."""

from dataclasses import dataclass

from controller.offsets.mirror.mirrored_offsets import MirroredOffsets
from controller.offsets.restore.kept_operations import KeptOperations
from controller.offsets.restore.lag_reader import LagReader
from controller.offsets.restore.own_offsets import OwnOffsets
from controller.offsets.restore.restorer import FollowedMasters, Restorer


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerAccess:
    """What a manager has that follows brokers."""

    followed: FollowedMasters
    mirrored: MirroredOffsets
    restorer: Restorer
    lags: LagReader


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreSite:
    """What a manager has."""

    own: OwnOffsets
    kept: KeptOperations
    #: None: it follows no brokers.
    brokers: BrokerAccess | None
