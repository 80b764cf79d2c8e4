"""Whether the other end of a connection exists is asked on TCP level, and only for a while."""

import socket

from listening import serving, until


def is_probed(site):
    (connection,) = site.server.connections.values()
    ours = connection._transport.get_extra_info("socket")
    return bool(ours.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE))


async def test_living_peer_is_probed_for_a_while_and_keeps_its_connection():
    async with serving() as site:
        peer = await site.connect()
        await until(lambda: site.server.connections)
        (number,) = site.server.connections
        assert not is_probed(site)
        site.server.probe_connection(number)
        site.server.probe_connection(number)
        assert is_probed(site)
        await until(lambda: not is_probed(site), seconds=10)
        assert list(site.server.connections) == [number]
        await peer.close()
        await until(lambda: not site.server.connections)


async def test_peer_that_leaves_during_a_probe_is_lost():
    async with serving() as site:
        peer = await site.connect()
        await until(lambda: site.server.connections)
        (number,) = site.server.connections
        site.server.probe_connection(number)
        await peer.close()
        await until(lambda: not site.server.connections)
        site.server.probe_connection(number)
