"""Where each master epoch begins in a broker's log. Pure."""

from typing import Final

import msgspec

from remoting.admin.admin_request import AdminRequest, command, decode_broker_body
from remoting.protocol.codes import RequestCode
from remoting.protocol.command import RemotingCommand
from remoting.protocol.errors import BodyError
from remoting.protocol.shapes.integers import Int64

#: A broker keeps an entry for each epoch of its log: of more, it is no broker.
LOG_EPOCHS_MAX: Final = 10_000


class LogEpoch(msgspec.Struct, frozen=True, kw_only=True, order=True, rename="camel"):
    """The master of `epoch` has written from `start_offset` of the log on."""

    epoch: Int64
    start_offset: Int64


class LogEpochs(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What is read of the answer to GET_BROKER_EPOCH_CACHE (1007) about the log; who answers: `EpochCache`.

    The epochs ascend in both fields; one in which nothing was written may be absent.
    """

    broker_name: str
    #: 0 of a master.
    broker_id: Int64
    epochs: tuple[LogEpoch, ...] = msgspec.field(name="epochList", default=())
    #: Where the log ends.
    max_offset: Int64


def log_epochs() -> AdminRequest[LogEpochs]:
    """Request the epochs of a broker's log (1007); raises Refused with code 1 for one that is not in controller mode.

    Raises NotSupported before 5.0, and BodyError for more than LOG_EPOCHS_MAX or unordered epochs.
    Source: docs/protocol/broker-admin.md 33.
    """
    return AdminRequest(command(RequestCode.GET_BROKER_EPOCH_CACHE), _read_epochs)


def _read_epochs(answer: RemotingCommand) -> LogEpochs:
    body = decode_broker_body(LogEpochs, answer.body)
    if len(body.epochs) > LOG_EPOCHS_MAX:
        raise BodyError(f"{body.broker_name} lists {len(body.epochs)} epochs, more than {LOG_EPOCHS_MAX}")
    before = LogEpoch(epoch=-1, start_offset=0)
    for each in body.epochs:
        if each.epoch <= before.epoch or each.start_offset < before.start_offset:
            raise BodyError(
                f"{body.broker_name} lists epochs that no log has: epoch {each.epoch} from {each.start_offset} on "
                f"behind epoch {before.epoch} from {before.start_offset} on"
            )
        before = each
    if body.max_offset < 0:
        raise BodyError(f"{body.broker_name} lists epochs of a log that ends at {body.max_offset}: no log has them")
    return body
