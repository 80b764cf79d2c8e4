"""The ways between controllers and brokers: what is asked over them, and when that comes, if it does."""

import asyncio

from remoting.client import PeerResponse, send_always
from remoting.protocol.codes import RequestCode
from remoting.protocol.errors import ConnectionRefused, InvokeTimeout
from remoting.server.observer import ConnectionKind

LATENCY_MS = 1


class Peer:
    """A connection of a broker, or of an operator, as a controller sees it."""

    __slots__ = ("id", "kind", "peer", "socket_peer")

    def __init__(self, number, host):
        self.id = number
        self.peer = self.socket_peer = f"{host}:{20_000 + number % 40_000}"
        self.kind = ConnectionKind.UNKNOWN


class Client:
    """Asks brokers for a controller; stands for `remoting.client.RemotingClient`."""

    def __init__(self, controller, process):
        self.controller, self.process, self.world = controller, process, controller.world

    async def invoke(self, address, request, timeout_ms, before_send=send_always):
        before_send()
        return (await self.invoke_on_new_connection(address, request, timeout_ms)).command

    async def invoke_on_new_connection(self, address, request, timeout_ms):
        if self.process.is_dead:
            raise asyncio.CancelledError
        waiting = self.process.create_future()
        timer = self.process.call_later(timeout_ms / 1000, _end, waiting, InvokeTimeout(address, timeout_ms))
        self._send(address, request, waiting)
        try:
            return await waiting
        finally:
            timer.cancel()

    def release(self, address):
        """Nothing: no connection stays open here."""

    def _send(self, address, request, waiting):  # a question, and all that becomes of it
        world, controller = self.world, self.controller
        broker = world.at_address(address)
        starts = broker.starts

        def back(what):
            world.at(world.now_ms + LATENCY_MS, lambda: self.process.receive(_end, waiting, what))

        def answered(command):
            if broker.has_way_to(controller):
                back(PeerResponse(command, f"{broker.host}:{broker.port}"))

        def arrive():
            # What is on its way to a process comes to no later one.
            way = world.way_to(controller, broker) if broker.starts == starts else "silent"
            if way == "open" and broker.listens:
                broker.take_question(request, answered)
            elif way != "silent":
                back(ConnectionRefused(address, "connection refused"))

        what, for_ms = "", LATENCY_MS
        if request.code == RequestCode.NOTIFY_BROKER_ROLE_CHANGED and broker.next_notices:
            what, for_ms = broker.next_notices.pop(0)
        if what != "lose":
            world.at(world.now_ms + for_ms, arrive)


def _end(waiting, what):
    if waiting.done():
        return
    if isinstance(what, Exception):
        waiting.set_exception(what)
    else:
        waiting.set_result(what)
