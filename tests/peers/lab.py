"""A lab starts peers for a test or for several, and ends all of them."""

import os
import subprocess

from peers.clients import Consumer, Load, Mqadmin, Producer, Scan
from peers.controllers import JavaController
from peers.servers import Broker, HAProxy, JavaNameServer, OurNameServer
from peers.traffic import Traffic

#: The original can take the place of our NameServer: what a test claims must hold for both.
UNDER_TEST = {"ours": OurNameServer, "java": JavaNameServer}[os.environ.get("NAMESRV_UNDER_TEST", "ours")]

ORIGINAL_UNDER_TEST = UNDER_TEST is JavaNameServer


class Lab:
    """Starts peers in `folder`; `close` ends them.

    Java processes are killed: they would take up to 17 s to leave, and their stores are thrown away. Our NameServers
    get SIGTERM, and have to do so without an error.
    """

    def __init__(self, folder):
        self.folder = folder
        self._servers = []
        self._others = []

    def name_server(self, name="namesrv", **settings):
        """Start the NameServer under test."""
        return self._serve(UNDER_TEST(self.folder, name, **settings))

    def idle_name_server(self, name, **settings):
        """Return a NameServer under test that has an address but does not run yet."""
        server = UNDER_TEST(self.folder, name, **settings)
        self._servers.append(server)
        return server

    def java_name_server(self, name="java-namesrv", **settings):
        return self._serve(JavaNameServer(self.folder, name, **settings))

    def broker(self, name, **settings):
        """Return a broker that has an address but does not run yet."""
        broker = Broker(self.folder, name, **settings)
        self._others.append(broker)
        return broker

    def controller(self, name="controller", **settings):
        return self.kept(JavaController(self.folder, name, **settings)).start()

    def kept(self, peer):
        """Return `peer`, which will be ended with the lab if it runs then."""
        self._others.append(peer)
        return peer

    def haproxy(self, name, **settings):
        proxy = HAProxy(self.folder, name, **settings)
        self._others.append(proxy)
        return proxy.start()

    def producer(self, name, **settings):
        return self._client(Producer(self.folder, name, **settings))

    def load(self, name, **settings):
        return self._client(Load(self.folder, name, **settings))

    def scan(self, name, **settings):
        return self._client(Scan(self.folder, name, **settings))

    def consumer(self, name, **settings):
        return self._client(Consumer(self.folder, name, **settings))

    def traffic(self, name="traffic", **settings):
        return self._client(Traffic(self.folder, name, **settings))

    def mqadmin(self, **settings):
        return self._client(Mqadmin(self.folder, **settings))

    def close(self):
        # On a machine with too much to do one may not end in time: the others are ended all the same.
        late = [peer.process.name for peer in self._others if not _is_ended(peer)]
        codes = {server.name: self._stopped(server) for server in self._servers if server.process is not None}
        assert not any(codes.values()), f"exit codes after SIGTERM: {codes}"
        assert not late, f"not ended after SIGKILL: {late}"

    def _serve(self, server):
        self._servers.append(server)
        return server.start()

    def _client(self, client):
        self._others.append(client)
        return client

    def _stopped(self, server):
        if not server.process.running:
            return 0
        if isinstance(server, JavaNameServer):
            server.process.kill()
            return 0
        return server.process.stop()


def _is_ended(peer):
    """Kill a peer that runs, and return whether it has ended."""
    if peer.process is None or not peer.process.running:
        return True
    try:
        peer.process.kill()
    except subprocess.TimeoutExpired:
        return False
    return True
