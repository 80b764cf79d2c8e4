"""Peers that did not answer get no requests for a while."""

import pytest
from fakes.clock import FakeClock

from controller.scaling.watching.topic_requests import PAUSE_MS, FailedPeers
from remoting.protocol.codes import BrokerRequestCode
from remoting.protocol.command import RemotingCommand
from remoting.protocol.errors import InvokeError, InvokeTimeout, OutOfResources


class Silent:
    """A client whose peers answer only while they are up."""

    def __init__(self, error):
        self.error = error
        self.sent = 0

    async def invoke(self, address, request, timeout_ms, before_send=None):
        self.sent += 1
        if self.error is not None:
            raise self.error
        return request


def request(code=BrokerRequestCode.GET_TOPIC_STATS_INFO):
    return RemotingCommand(code)


async def test_peer_without_an_answer_is_left_alone_for_a_while():
    clock, client = FakeClock(), Silent(InvokeTimeout("a:1", 3000))
    peers = FailedPeers(client, clock)
    with pytest.raises(InvokeTimeout):
        await peers.invoke("a:1", request(), 3000)
    with pytest.raises(InvokeError, match="it did not answer within the last 10 s"):
        await peers.invoke("a:1", request(), 3000)
    assert client.sent == 1
    clock.pass_ms(PAUSE_MS)
    client.error = None
    await peers.invoke("a:1", request(), 3000)
    await peers.invoke("a:1", request(), 3000)
    assert client.sent == 3


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvokeTimeout("a:1", 3000), BrokerRequestCode.GET_CONSUMER_RUNNING_INFO),
        (OutOfResources("a:1", "no descriptors"), BrokerRequestCode.GET_TOPIC_STATS_INFO),
    ],
)
async def test_silence_that_is_not_the_brokers_keeps_it_in_use(error, code):
    client = Silent(error)
    peers = FailedPeers(client, FakeClock())
    for _ in range(2):
        with pytest.raises(type(error)):
            await peers.invoke("a:1", request(code), 3000)
    assert client.sent == 2
