"""A server under abuse, as an operator sees it: its metrics, its log and its memory."""

import json
import re
import subprocess
import urllib.request
from pathlib import Path

from peers.waiting import wait_until
from prometheus_client.parser import text_string_to_metric_families


class Served:
    """A server with its metrics, its log and its memory."""

    def __init__(self, server):
        self.server = server
        self.port = server.port

    def metric(self, name, **labels):
        """Return the value of `rocketmq_namesrv_<name>` now."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.server.http_port}/metrics", timeout=30) as answer:
            text = answer.read().decode()
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name == f"rocketmq_namesrv_{name}" and sample.labels == labels:
                    return sample.value
        raise KeyError(name, labels)

    def wait_for_metric(self, name, is_right, *, seconds=20, **labels):
        wait_until(
            lambda: is_right(self.metric(name, **labels)),
            seconds=seconds,
            what=lambda: f"{name} {labels} is {self.metric(name, **labels)}",
        )

    def events(self, name):
        # Names can hold other characters that end lines; the last line may be half written.
        lines = (line for line in self.server.process.text().split("\n")[:-1] if line.startswith("{"))
        return [line for line in map(json.loads, lines) if line["event"] == name]

    def memory_kib(self):
        """Return the resident memory."""
        command = ["ps", "-o", "rss=", "-p", str(self.server.process.pid)]
        return int(subprocess.run(command, capture_output=True, check=True).stdout)

    def most_kib(self):
        """Return the most resident memory that it ever had."""
        return int(re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{self.server.process.pid}/status").read_text())[1])

    def assert_unharmed(self):
        """Fail if the server met a fault of its own."""
        text = self.server.process.text()
        assert '"level":"error"' not in text
        assert "Traceback" not in text
