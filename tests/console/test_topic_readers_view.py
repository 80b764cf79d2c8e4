"""Who reads a topic, as a real browser shows it: of a real offset manager and NameServer, and a master on loopback."""

import contextlib
import socket

import pytest
from browser import a_tab
from fakes.offset_broker import CLUSTER, OffsetBroker, offset_brokers_in_thread
from peers.lab import Lab
from peers.offset_managers import OffsetManager
from peers.programs import require
from peers.scripted import Line, ScriptedBroker
from peers.waiting import wait_until

GROUP = "<b>billing</b>"
ROWS = """
[...document.querySelectorAll("#readers tbody tr")].map(row => [...row.cells].map(cell => cell.textContent.trim()))
"""


@pytest.mark.broad
async def test_readers_of_a_topic_are_shown_with_their_lag_and_unknown_is_not_zero(tmp_path):
    require("chromium")
    broker = OffsetBroker()
    broker.topics = {"orders": {0: (0, 1100), 1: (0, 100), 2: (0, 100)}}
    broker.offsets = {f"orders@{GROUP}": {0: 100, 1: 100}, "other@audit": {0: 1}}
    with offset_brokers_in_thread(broker), contextlib.closing(Lab(tmp_path)) as lab:
        manager = OffsetManager(tmp_path, namesrv_addr=broker.address, reading_period_ms=1000).start()
        try:
            server = lab.name_server(http=True, consolePeers=f"offsets=http://{manager.address}")
            line = Line(socket.create_connection(("127.0.0.1", server.port)))
            master = ScriptedBroker(line, broker.name, address=broker.address, cluster=CLUSTER)
            master.register({"orders": 3, "payments": 1})
            server.process.wait_for(r'"event":"server_ready"', seconds=60)
            wait_until(lambda: manager.get("/v1/offsets/groups?topic=orders").body["groups"], seconds=60, what="groups")
            async with a_tab(tmp_path) as tab:
                await tab.open(f"http://127.0.0.1:{server.http_port}/ui/#/topic/orders", width=1200)
                await tab.shows("document.querySelectorAll('#readers details tbody tr').length", 3)
                (group, *_), *queues = await tab.value(ROWS)
                assert group == GROUP
                assert [row[1:3] for row in queues] == [["1,100", "100"], ["100", "100"], ["100", "\u2013"]]
                assert [row[3] for row in queues][:2] == ["1,000", "0"]
                assert queues[2][3].startswith("unknown the group has stored no offset")
                await tab.value("document.querySelector('#readers details').open = true")
                broker.offsets[f"orders@{GROUP}"] = {0: 1100, 1: 100, 2: 100}
                await tab.value("document.querySelector('#readers button').click()")
                await tab.shows(f"({ROWS})[1][3]", "0")
                assert await tab.value("document.querySelector('#readers details').open")
                assert await tab.value("document.querySelectorAll('#readers b').length") == 0
                assert tab.problems == []
            line.close()
        finally:
            assert manager.process.stop() == 0
