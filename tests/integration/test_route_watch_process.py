"""Route watch of a whole NameServer process: a real broker as source, an orderly stop, and a restart."""

import contextlib
import http.client
import json

import pytest
from peers.lab import ORIGINAL_UNDER_TEST
from peers.wire import brokers_in

pytestmark = pytest.mark.skipif(ORIGINAL_UNDER_TEST, reason="the original has no such path")


@contextlib.contextmanager
def watching(server, path, last_id=None):
    """Yield a function that returns the next event: its name, data and id."""
    connection = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=60)
    connection.request("GET", path, headers={} if last_id is None else {"Last-Event-ID": last_id})
    response = connection.getresponse()
    assert response.status == 200

    def read():
        fields = {}
        while line := response.readline().decode():
            name, _, value = line.rstrip("\n").partition(": ")
            if name:
                fields[name] = value
            elif "event" in fields:
                return fields["event"], json.loads(fields["data"]), fields.get("id")
        return None

    with contextlib.closing(connection):
        yield read


@pytest.fixture
def server(lab):
    return lab.name_server("namesrv", http=True)


def test_stream_ends_in_order_and_tells_of_a_gap_after_a_restart(server):
    path = "/v1/routes/watch?topic=TopicTest"
    with watching(server, path) as read:
        _, data, last_id = read()
        assert data["route"] is None
        server.process.stop()
        assert read() == ("closing", {}, None)
        assert read() is None
    server.start()
    with watching(server, path, last_id) as read:
        name, data, _ = read()
        assert (name, data) == ("gap", {"reason": "unknown_id", "topics": ["TopicTest"]})
        assert read()[1]["route"] is None


@pytest.mark.java
@pytest.mark.soak
def test_java_broker_that_registers_and_leaves_changes_what_watchers_see(lab, server):
    # A broker has a topic of its own name.
    with watching(server, "/v1/routes/watch?topic=b550") as routes, watching(server, "/v1/cluster/watch") as cluster:
        assert routes()[1]["route"] is None
        assert cluster()[1]["brokers"] == 0
        broker = lab.broker("b550", namesrv=[server.address]).start()
        assert brokers_in(routes()[1]["route"]) == {"b550"}
        name, data, _ = cluster()
        assert (name, data["change"], data["brokerSet"]["brokerAddrs"]) == (
            "broker",
            "registered",
            {"0": broker.address},
        )
        broker.process.stop()
        left = next(data for _, data, _ in iter(cluster, None) if data["brokerSet"] is None)
        assert left["change"] in {"request", "channel_closed"}
        assert next(data for _, data, _ in iter(routes, None) if data["route"] is None)["topic"] == "b550"
