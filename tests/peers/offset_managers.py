"""Offset managers as processes, and requests to them over real HTTP."""

import http.client
import json
import os
import sys
from dataclasses import dataclass, field

from peers.jars import REPOSITORY
from peers.processes import Process, free_port
from peers.waiting import wait_until

STARTS_WITHIN_S = 60


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict
    body: dict = field(default_factory=dict)

    @property
    def sentence(self):
        return self.body["error"]["message"]

    @property
    def code(self):
        return self.body["error"]["code"]

    @property
    def statuses(self):
        return [each["status"] for each in self.body["results"]]


class OffsetManager:
    """An offset manager, not yet started. Started again, it has its old address and store; options are properties.

    `wrapper` are the words of a program that is given the manager's command and becomes it.
    """

    def __init__(self, folder, name="manager", *, environment=None, wrapper=(), **options):
        self.name = name
        self._environment = environment or {}
        self._wrapper = wrapper
        self.folder = folder / name
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.process = None
        #: How long an answer is waited for.
        self.timeout_s = 30
        self.options = {"http-port": self.port, "store-path": self.folder / "store", "log-format": "json"} | options

    def start(self):
        return self.launch().ready()

    def launch(self):
        command = [*self._wrapper, sys.executable, "-m", "offsets"]
        for name, value in self.options.items():
            command += [f"--{name.replace('_', '-')}", value]
        env = os.environ | {"PYTHONPATH": str(REPOSITORY), "HOME": str(self.folder)} | self._environment
        self.process = Process(self.name, command, folder=self.folder, env=env)
        return self

    def ready(self):
        self.process.wait_for(r'"event":"server_ready"', seconds=STARTS_WITHIN_S)
        return self

    def leads(self):
        return self.get("/v1/manager").body["role"] == "leading"

    def leading(self, *, seconds=30):
        wait_until(self.leads, seconds=seconds, what=f"{self.name} leads")
        return self

    def events(self, name):
        """Return the log lines of one event since the start."""
        lines = (json.loads(line) for line in self.process.text().splitlines() if line.startswith("{"))
        return [line for line in lines if line["event"] == name]

    def metric(self, name):
        """Return a sample of the metrics by its name without what all have in common; None if there is none."""
        lines = self.get("/metrics").body["text"].splitlines()
        start = f"rocketmq_offset_manager_{name} "
        return next((float(line.removeprefix(start)) for line in lines if line.startswith(start)), None)

    # Requests

    def get(self, path, **headers):
        return self.request("GET", path, None, headers)

    def post(self, path, body, **headers):
        return self.request("POST", path, json.dumps(body).encode(), {"Content-Type": "application/json"} | headers)

    def request(self, method, path, body, headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=self.timeout_s)
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            text = response.read()
        finally:
            connection.close()
        is_json = response.headers["Content-Type"] == "application/json"
        return Answer(response.status, dict(response.headers), json.loads(text) if is_json else {"text": text.decode()})

    def commit(self, *entries, writer="client-1"):
        return self.post("/v1/offsets/commit", {"writer": writer, "entries": list(entries)})

    def read(self, *queues):
        return self.post("/v1/offsets/read", {"keys": [a_queue(queue) for queue in queues]})

    def offset(self, queue=0, **names):
        """Return the stored offset of one queue."""
        (result,) = self.post("/v1/offsets/read", {"keys": [a_queue(queue, **names)]}).body["results"]
        return result["stored"]["offset"]


def a_queue(queue=0, *, group="billing", topic="orders", broker="broker-a"):
    return {"group": group, "topic": topic, "brokerName": broker, "queueId": queue}


def an_entry(offset, queue=0, *, epoch=0, **names):
    return a_queue(queue, **names) | {"offset": offset, "resetEpoch": epoch}
