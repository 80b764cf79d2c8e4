"""A real Prometheus and its linter look at a live scrape."""

import json
import os
import socket
import subprocess
import urllib.parse
import urllib.request

import pytest
from golden_frames import exchanges
from peers.processes import Process, free_port
from peers.programs import require
from peers.waiting import holds_for, wait_until

SCRAPES_FOR_S = 5

CONFIGURATION = """
global: {{scrape_interval: 1s, scrape_timeout: 1s}}
scrape_configs:
  - job_name: namesrv
    static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
"""

REGISTER_BROKER = 103


@pytest.fixture(autouse=True)
def prometheus_is_installed():
    require("prometheus", "promtool")


@pytest.fixture
def server(lab):
    """A server that knows the recorded brokers, while their connections stay open."""
    server = lab.name_server("namesrv", http=True)
    server.process.wait_for("server_ready", seconds=20)
    first = {
        item.peer: item.request for item in reversed(exchanges()) if item.request_header["code"] == REGISTER_BROKER
    }
    connections = [socket.create_connection(("127.0.0.1", server.port)) for _ in first]
    for connection, frame in zip(connections, first.values(), strict=True):
        connection.sendall(frame)
        assert connection.recv(65536)
    yield server
    for connection in connections:
        connection.close()


def get(port, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
        return answer.read()


def test_the_linter_of_prometheus_finds_nothing_in_a_live_scrape(server):
    scrape = get(server.http_port, "/metrics")
    result = subprocess.run(["promtool", "check", "metrics"], input=scrape, capture_output=True, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (0, b"", b"")


def test_prometheus_scrapes_the_server_again_and_again(server, tmp_path):
    port = free_port()
    configuration = tmp_path / "prometheus.yml"
    configuration.write_text(CONFIGURATION.format(port=server.http_port))
    prometheus = Process(
        "prometheus",
        [
            "prometheus",
            f"--config.file={configuration}",
            f"--storage.tsdb.path={tmp_path / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ],
        folder=tmp_path,
        env=os.environ,
    )

    def value(query):
        found = json.loads(get(port, f"/api/v1/query?{urllib.parse.urlencode({'query': query})}"))["data"]["result"]
        return float(found[0]["value"][1]) if found else None

    try:
        prometheus.wait_for("Server is ready to receive web requests", seconds=30)
        wait_until(lambda: value('up{job="namesrv"}') == 1, seconds=15, what="the first scrape")
        holds_for(lambda: value('up{job="namesrv"}') == 1, seconds=SCRAPES_FOR_S, what="the server is scraped")
        assert value(f'min_over_time(up{{job="namesrv"}}[{SCRAPES_FOR_S}s])') == 1
        assert value("sum(rocketmq_namesrv_active_brokers)") == 4
        assert value("rocketmq_namesrv_ready") == 1
        assert value("rate(process_cpu_seconds_total[1m])") < 1
    finally:
        prometheus.stop()
