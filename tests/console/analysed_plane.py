"""A NameServer with a controller that has results of analyses, and brokers with names that anybody may choose."""

import json
import socket

from peers.processes import free_port
from peers.scripted import Line, ScriptedBroker

SCRIPT = "<script>document.title='taken'</script><img src=x onerror=document.title='taken'>"
CHINESE = "集群-甲"

_COLUMNS = {
    "run_id": "string",
    "window_start": "timestamp",
    "cluster": "string",
    "broker_name": "string",
    "broker_id": "bigint",
    "start_time": "timestamp",
    "end_time": "timestamp",
    "unplanned_s": "double",
    "availability": "double",
}


def a_time(hour):
    return f"2026-11-21T{hour:02}:00:00.000000Z"


def publish(folder, job, name, rows):
    """Write a result as `rmq-analytics run` does."""
    empty = dict.fromkeys(_COLUMNS) | {"run_id": "r1", "window_start": a_time(0)}
    result = {
        "version": 1,
        "job": job,
        "name": name,
        "question": f"What of {name}?",
        "window_start": a_time(0),
        "window_end": a_time(23),
        "finished_at": a_time(23),
        "columns": [{"name": each, "type": kind, "doc": f"{each} in words"} for each, kind in _COLUMNS.items()],
        "row_count": len(rows),
        "rows": [empty | row for row in rows],
    }
    path = folder / "results" / "latest" / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result))


class AnalysedPlane:
    """Starts with the lab, whose NameServer and lines end with it."""

    def __init__(self, lab, *, has_analyses=True):
        folder = lab.folder / "analytics"
        folder.mkdir()
        self.url = "http://127.0.0.1"
        self.controller_port = free_port()
        ports = {"controllerListenPort": free_port(), "controllerHttpPort": self.controller_port}
        store = {"controllerStorePath": lab.folder / "sets", "enableControllerInNamesrv": "true"}
        analyses = {"analyticsDir": folder} if has_analyses else {}
        peers = f"controller=http://127.0.0.1:{self.controller_port}"
        self.server = lab.name_server(http=True, consolePeers=peers, **ports, **store, **analyses)
        for port in (self.server.http_port, self.controller_port):
            self.server.process.wait_for(rf'"http_addr":"127.0.0.1:{port}"', seconds=60)
        self.url = f"http://127.0.0.1:{self.server.http_port}/ui/"
        self.lines = []
        if has_analyses:
            self._publish(folder)

    def _publish(self, folder):
        brokers = [("broker-a", 0, 30.0), ("broker-b", 1, 400.5), (SCRIPT, 0, 7.0)]
        publish(
            folder,
            "A1",
            "availability",
            [
                {"cluster": "C", "broker_name": name, "broker_id": number, "unplanned_s": down, "availability": 0.99996}
                for name, number, down in brokers
            ],
        )
        times = [("broker-a", "C", 1, 3), ("broker-b", CHINESE, 8, 9)]
        publish(
            folder,
            "A6",
            "divergence",
            [
                {"cluster": cluster, "broker_name": name, "start_time": a_time(start), "end_time": a_time(end)}
                for name, cluster, start, end in times
            ],
        )

    def register(self, name, broker_id=0, cluster="C"):
        line = Line(socket.create_connection(("127.0.0.1", self.server.port)))
        broker = ScriptedBroker(
            line, name, address=f"10.0.0.{broker_id + 1}:10911", broker_id=broker_id, cluster=cluster
        )
        broker.register({"TopicTest": 4, name: 1})
        self.lines.append(line)

    def close(self):
        for each in self.lines:
            each.close()
