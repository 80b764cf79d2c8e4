"""Requests whose consequences could fail in the background, after they were answered, end no server."""

import contextlib
import socket

from peers.scripted import Line
from peers.wire import REGISTER_BROKER, SUCCESS

#: Three of them fit into the header of a request; as JSON, six bytes each, they fit into no header.
UNPRINTABLE = "\x01" * (3 * 1024 * 1024)


def registration(broker_id, address, ha_address=""):
    fields = {"clusterName": "C", "brokerName": "x", "brokerId": str(broker_id), "brokerAddr": address}
    return fields | {"haServerAddr": ha_address, "enableActingMaster": "true"}


def test_a_notification_that_no_header_can_carry_ends_no_server(serve):
    served = serve(notifyMinBrokerIdChanged="true")
    first = registration(5, f"127.0.0.1:{served.port}")
    with socket.create_connection(("127.0.0.1", served.port), timeout=30) as connection:
        line = Line(connection, binary=True)
        assert line.request(REGISTER_BROKER, first).code == SUCCESS
        other = Line(socket.create_connection(("127.0.0.1", served.port), timeout=30), binary=True)
        # So long a frame may be refused before it is read.
        with contextlib.closing(other), contextlib.suppress(ConnectionError):
            other.request(REGISTER_BROKER, registration(3, "127.0.0.1:2", UNPRINTABLE))
        assert line.request(REGISTER_BROKER, first).code == SUCCESS
    served.assert_unharmed()
