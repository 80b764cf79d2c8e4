"""Where each master epoch begins in a broker's log. Pure."""

from dataclasses import dataclass
from typing import Final

from remoting.admin.admin_request import AdminRequest, command, decode_broker_body
from remoting.protocol.codes import RequestCode
from remoting.protocol.command import RemotingCommand
from remoting.protocol.errors import BodyError
from remoting.protocol.shapes.stored_messages import LogEpochsBody

#: A broker keeps an entry for each epoch of its log: of more, it is no broker.
LOG_EPOCHS_MAX: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class LogEpoch:
    """The master of `epoch` has written from `start_offset` of the log on."""

    epoch: int
    start_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEpochs:
    """The epochs of a broker's log, ascending in both fields; one in which nothing was written may be absent."""

    broker_name: str
    #: 0 of a master.
    broker_id: int
    epochs: tuple[LogEpoch, ...]
    #: Where the log ends.
    max_offset: int


def log_epochs() -> AdminRequest[LogEpochs]:
    """Request the epochs of a broker's log (1007); raises Refused with code 1 for one that is not in controller mode.

    Raises NotSupported before 5.0, and BodyError for more than LOG_EPOCHS_MAX or unordered epochs.
    Source: docs/protocol/broker-admin.md 33.
    """
    return AdminRequest(command(RequestCode.GET_BROKER_EPOCH_CACHE), _read_epochs)


def _read_epochs(answer: RemotingCommand) -> LogEpochs:
    body = decode_broker_body(LogEpochsBody, answer.body)
    if len(body.epoch_list) > LOG_EPOCHS_MAX:
        raise BodyError(f"{body.broker_name} lists {len(body.epoch_list)} epochs, more than {LOG_EPOCHS_MAX}")
    epochs = tuple(LogEpoch(epoch=each.epoch, start_offset=each.start_offset) for each in body.epoch_list)
    before = LogEpoch(epoch=-1, start_offset=0)
    for each in epochs:
        if each.epoch <= before.epoch or each.start_offset < before.start_offset:
            raise BodyError(
                f"{body.broker_name} lists epochs that no log has: epoch {each.epoch} from {each.start_offset} on "
                f"behind epoch {before.epoch} from {before.start_offset} on"
            )
        before = each
    if body.max_offset < 0:
        raise BodyError(f"{body.broker_name} lists epochs of a log that ends at {body.max_offset}: no log has them")
    return LogEpochs(broker_name=body.broker_name, broker_id=body.broker_id, epochs=epochs, max_offset=body.max_offset)
