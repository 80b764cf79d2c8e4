"""Peers of different networks get different responses to the same bytes, and never each other's."""

import pytest
from listening import E1, E4, E13_START, ROUTE, a_request, serving

from remoting.protocol.codes import ResponseCode
from remoting.server.response_cache import PreparedResponse
from remoting.server.statistics import Histogram

#: Two networks of loopback.
HERE, THERE = "127.0.0.1", "127.0.0.2"


class Answers:
    """Prepares one response per audience, and counts how many were prepared."""

    def __init__(self):
        self.by_host = {THERE: 1, "9.9.9.9": 2}
        self.prepared = {}
        self.made = 0

    def audience_of(self, peer):
        return self.by_host.get(peer.rpartition(":")[0], 0)

    def dispatch(self, request, connection):
        prepared = self.prepared.get(connection.audience)
        if prepared is None or not prepared.is_valid:
            self.made += 1
            prepared = PreparedResponse(b"audience %d" % connection.audience, Histogram((100,)))
            self.prepared[connection.audience] = prepared
        return prepared

    def invalidate(self):
        for prepared in self.prepared.values():
            prepared.invalidate()


@pytest.fixture
def answers():
    return Answers()


@pytest.fixture
async def site(answers):
    async with serving(answers.dispatch, audience_of=answers.audience_of) as site:
        yield site


async def bodies(peer, request=E1, count=3):
    return [(await peer.request(request)).body for _ in range(count)]


@pytest.mark.parametrize("request_bytes", [E1, E4], ids=["JSON", "binary"])
async def test_same_bytes_of_two_networks_get_each_their_own_response(site, answers, request_bytes):
    here, there = await site.connect(local_addr=(HERE, 0)), await site.connect(local_addr=(THERE, 0))
    assert await bodies(here, request_bytes) == [b"audience 0"] * 3
    assert await bodies(there, request_bytes) == [b"audience 1"] * 3
    assert await bodies(here, request_bytes) == [b"audience 0"] * 3
    assert answers.made == 2


async def test_requests_that_come_together_get_the_response_of_their_audience(site):
    here, there = await site.connect(local_addr=(HERE, 0)), await site.connect(local_addr=(THERE, 0))
    for _ in range(2):
        for peer, body in ((here, b"audience 0"), (there, b"audience 1")):
            await peer.send(b"".join(a_request(opaque=opaque) for opaque in range(3)))
            assert [(each.opaque, each.body) for each in await peer.answers(3)] == [(n, body) for n in range(3)]


async def test_responses_of_an_audience_are_found_by_the_bytes_of_the_request(site, answers):
    there = await site.connect(local_addr=(THERE, 0))
    await bodies(there)
    handled = site.statistics.prepared[ROUTE]
    assert await bodies(there) == [b"audience 1"] * 3
    (connection,) = site.server.connections.values()
    assert connection.cache.reply(E1) is not None
    assert site.server.processor.cache.reply(E1) is None
    assert site.statistics.prepared[ROUTE] == handled + 4


async def test_address_that_a_proxy_names_decides_on_the_audience(site):
    peer = await site.connect(local_addr=(THERE, 0))
    assert await bodies(peer, E13_START + E1, 1) == [b"audience 2"]
    assert await bodies(peer) == [b"audience 2"] * 3


async def test_half_a_request_is_answered_for_the_audience_of_its_end(site, answers):
    peer = await site.connect(local_addr=(THERE, 0))
    assert await bodies(peer) == [b"audience 1"] * 3
    await peer.send(E1[:40])
    await peer.send(b"")
    answers.by_host = {THERE: 7}
    answers.invalidate()
    site.server.reclassify()
    await peer.send(E1[40:])
    assert (await peer.answer()).body == b"audience 7"
    assert await bodies(peer) == [b"audience 7"] * 3


async def test_open_connections_follow_other_audiences(site, answers):
    here, there = await site.connect(local_addr=(HERE, 0)), await site.connect(local_addr=(THERE, 0))
    await bodies(here)
    await bodies(there)
    answers.by_host = {HERE: 1}
    answers.invalidate()
    site.server.reclassify()
    assert await bodies(here) == [b"audience 1"] * 3
    assert await bodies(there) == [b"audience 0"] * 3


async def test_draining_server_sends_no_cached_response_of_an_audience(site):
    there = await site.connect(local_addr=(THERE, 0))
    await bodies(there)
    site.server.drain()
    (connection,) = site.server.connections.values()
    assert connection.cache is None
    late = await site.connect(local_addr=(THERE, 0))
    assert {(await each.request(E1)).code for each in (there, late)} == {ResponseCode.GO_AWAY}
