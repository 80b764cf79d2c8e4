"""Requests whose consequences fail in the background, after they were answered, end no server."""

import socket

from peers.scripted import Line
from peers.waiting import wait_until
from peers.wire import REGISTER_BROKER, SUCCESS

#: Three of them fit into the header of a request; as JSON, six bytes each, they fit into no header.
UNPRINTABLE = "\x01" * (3 * 1024 * 1024)


def registration(broker_id, address, ha_address=""):
    fields = {"clusterName": "C", "brokerName": "x", "brokerId": str(broker_id), "brokerAddr": address}
    return fields | {"haServerAddr": ha_address, "enableActingMaster": "true"}


def test_a_notification_that_no_header_can_carry_ends_no_server(serve):
    served = serve(notifyMinBrokerIdChanged="true")
    with socket.create_connection(("127.0.0.1", served.port), timeout=30) as connection:
        line = Line(connection, binary=True)
        first = registration(5, f"127.0.0.1:{served.port}")
        assert line.ask(REGISTER_BROKER, first).code == SUCCESS
        if line.ask(REGISTER_BROKER, registration(3, "127.0.0.1:2", UNPRINTABLE)).code == SUCCESS:
            wait_until(
                lambda: served.events("min_broker_id_notification_failed") or not served.server.process.running,
                seconds=30,
                what="it is told that nobody could be notified",
            )
        assert line.ask(REGISTER_BROKER, first).code == SUCCESS
    served.assert_unharmed()
