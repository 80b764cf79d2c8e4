"""Where master epochs begin in a broker's log, as it answers."""

import json

import pytest

from remoting.admin.log_epochs import LOG_EPOCHS_MAX, LogEpoch, log_epochs
from remoting.protocol.command import RemotingCommand
from remoting.protocol.errors import BodyError, NotSupported, Refused


def answered(*epochs, end=900, **fields):
    listed = [{"epoch": epoch, "startOffset": start, "endOffset": 2**63 - 1} for epoch, start in epochs]
    body = {"brokerId": 0, "brokerName": "broker-a", "clusterName": "c", "epochList": listed, "maxOffset": end}
    return log_epochs().read_response(RemotingCommand(0, body=json.dumps(body | fields).encode()))


def test_epochs_of_a_log_are_read_in_their_order():
    found = answered((1, 0), (3, 500))
    assert (found.broker_name, found.broker_id, found.max_offset) == ("broker-a", 0, 900)
    assert found.epochs == (LogEpoch(epoch=1, start_offset=0), LogEpoch(epoch=3, start_offset=500))


@pytest.mark.parametrize(
    "epochs", [((2, 0), (1, 500)), ((1, 500), (2, 0)), ((1, 0), (1, 500)), ((-1, 0),), ((1, -5),)], ids=str
)
def test_epochs_that_no_log_has_are_an_error(epochs):
    with pytest.raises(BodyError, match="broker-a lists epochs that no log has"):
        answered(*epochs)


def test_log_without_an_end_is_an_error():
    with pytest.raises(BodyError):
        answered((1, 0), end=None)
    with pytest.raises(BodyError, match="a log that ends at -1"):
        answered((1, 0), end=-1)


def test_error_names_the_first_epoch_that_is_out_of_order_and_no_others():
    many = [(epoch, 10 * epoch) for epoch in range(LOG_EPOCHS_MAX - 1)]
    with pytest.raises(BodyError) as raised:
        answered(*many, (7, 5))
    assert "epoch 7 from 5 on behind epoch 9998 from 99980 on" in str(raised.value)
    assert len(str(raised.value)) < 200


def test_more_epochs_than_any_broker_has_are_an_error():
    with pytest.raises(BodyError, match="more than 10000"):
        answered(*((epoch, epoch) for epoch in range(LOG_EPOCHS_MAX + 1)))


def test_broker_without_a_controller_refuses():
    with pytest.raises(Refused):
        log_epochs().read_response(RemotingCommand(1, remark="this request only for controllerMode "))
    with pytest.raises(NotSupported):
        log_epochs().read_response(RemotingCommand(3))
