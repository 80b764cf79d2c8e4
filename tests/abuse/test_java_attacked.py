"""Real brokers and clients beside a peer that sends 28 KB again and again, which inflate to 1.2 million mappings."""

import json
import urllib.request
import zlib

import pytest
from bounds import QUERY_P99_MS_ON_BUSY_MACHINES
from crowd import Crowd, read_answers
from hostile import IDENTITY, inflated
from peers.processes import free_port
from peers.servers import registered
from peers.waiting import wait_until
from peers.wire import REGISTER_BROKER, frame

pytestmark = [pytest.mark.broad, pytest.mark.java]

CONNECTIONS, TIMES = 10, 6
MAPPINGS = 1_200_000
READY_S = 90
#: Of what befell a broker or a set; a broker that starts has events of both kinds before.
HARM = {
    *("broker_disconnected", "broker_expired", "broker_unregistered", "broker_evicted"),
    *("broker_failed", "broker_suspected", "master_dead", "master_changed", "master_elected"),
}


def events(served):
    lines = (line for line in served.server.process.text().split("\n")[:-1] if line.startswith("{"))
    return [json.loads(line) for line in lines]


def test_nobody_notices_28_kb_that_become_more_than_a_million_mappings(lab, serve, watched, print_figures, tmp_path):
    ports = free_port(), free_port()
    served = serve(
        enableControllerInNamesrv=True,
        controllerListenPort=ports[0],
        controllerHttpPort=ports[1],
        controllerStorePath=tmp_path / "sets",
        historyDir=tmp_path / "history",
    )
    namesrv = [served.server.address]
    plain = lab.broker("plain", namesrv=namesrv).start()
    led = lab.broker(
        "led", namesrv=namesrv, broker_id=-1, enableControllerMode=True, controllerAddr=f"127.0.0.1:{ports[0]}"
    ).start()
    wait_until(lambda: registered(served.server, plain.ready(), led.ready()), seconds=READY_S, what="the brokers")
    clients = [
        (
            lab.consumer(f"{topic}-in", namesrv=namesrv, topic=topic).ready(),
            lab.load(topic, namesrv=namesrv, topic=topic),
        )
        for topic in ("plain", "led")
    ]
    for _, load in clients:
        load.ready()
    before = len(events(served))

    request = frame(
        REGISTER_BROKER,
        IDENTITY | {"compressed": "true"},
        zlib.compress(zlib.decompress(inflated([], [b'{"a":1}'] * MAPPINGS)), 9),
    )
    with watched(served) as watch, Crowd(served.port) as crowd:
        for each in crowd.connect(CONNECTIONS):
            each.sendall(request * TIMES)
        for each in crowd.sockets:
            read_answers(each, TIMES)
    for _, load in clients:
        load.wait_for_more(count=10).stop()

    print_figures(request_bytes=len(request), sent=[len(load.sendings()) for _, load in clients], **watch.figures())
    assert len(request) < 40 * 1024
    for consumer, load in clients:
        assert load.failures() == []
        consumer.wait_for_all({each.key for each in load.acknowledged()})
    assert [each for each in events(served)[before:] if each["event"] in HARM and each.get("broker") != "witness"] == []
    watch.assert_unharmed(p99_ms_max=QUERY_P99_MS_ON_BUSY_MACHINES)
    served.assert_unharmed()
    with urllib.request.urlopen(f"http://127.0.0.1:{ports[1]}/readyz", timeout=5) as answer:
        assert json.load(answer) == {"status": "ready"}
