"""Three controllers of one group, and what lies between them, their store and the brokers."""

import contextlib
import socket
import struct

from peers.controllers import JavaController, OurController
from peers.etcd import Etcd, Way
from peers.processes import free_port

#: How long the leader's lease lasts when nobody renews it.
TTL_S = 5

#: Closing with this option resets the connection instead of ending it in order.
_RESET = struct.pack("ii", 1, 0)


class CutWay(Way):
    """A way whose connections are reset when it is cut, as by a firewall that has forgotten them."""

    def cut(self):
        """Reset all connections, and return how many there were."""
        with self._lock:
            sockets, self._sockets = self._sockets, []
        for each in sockets:
            with contextlib.suppress(OSError):
                each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                # The thread that reads would keep a closed socket open.
                each.shutdown(socket.SHUT_RD)
            each.close()
        return len(sockets) // 2


class Group:
    """Three controllers; `ways` are those of each to etcd, `fronts` those of the brokers to each."""

    def __init__(self, controllers, *, etcd=None, ways=(), fronts=()):
        self.controllers = controllers
        self.etcd = etcd
        self._ways = ways
        self.fronts = fronts

    def start(self):
        for controller in self.controllers:
            controller.launch()
        for controller in self.controllers:
            controller.ready()
        return self

    def ways_of(self, controller):
        """Return the ways of one controller to etcd."""
        return self._ways[self.controllers.index(controller)]

    @property
    def ways(self):
        return [way for ways in self._ways for way in ways]

    def close(self):
        for way in (*self.ways, *self.fronts):
            way.close()
        if self.etcd:
            self.etcd.stop()


def our_group(lab, *, behind_ways=False):
    etcd = Etcd(lab.folder / "etcd", members=3).start()
    ways = [[Way(endpoint) for endpoint in etcd.endpoints] for _ in range(3)]
    ports = [free_port() for _ in range(3)]
    fronts = [CutWay(f"127.0.0.1:{port}") for port in ports] if behind_ways else []
    controllers = [
        OurController(
            lab.folder,
            f"c{number}",
            port=port,
            advertised_address=fronts[number].endpoint if fronts else None,
            controllerId=f"c{number}",
            controllerGroup="tried",
            controllerStore="etcd",
            etcdEndpoints=";".join(way.endpoint for way in ways[number]),
        )
        for number, port in enumerate(ports)
    ]
    return Group([lab.kept(each) for each in controllers], etcd=etcd, ways=ways, fronts=fronts)


def java_group(lab, *, behind_ways=False):
    """Nothing lies before the controllers here: they tell brokers their own addresses, whatever one wants."""
    ports = [free_port() for _ in range(3)]
    peers = {f"n{number}": f"127.0.0.1:{port}" for number, port in enumerate(ports)}
    controllers = [
        JavaController(lab.folder, f"n{number}", peers=peers, port=port) for number, port in enumerate(ports)
    ]
    return Group([lab.kept(each) for each in controllers])
