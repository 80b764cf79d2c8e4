"""A Prometheus with the rules of the repository, whose times are shorter."""

import json
import os
import re
import urllib.error
import urllib.parse
import urllib.request

import yaml

from peers.jars import REPOSITORY
from peers.processes import Process, free_port

RULES = sorted((REPOSITORY / "dashboards" / "prometheus").glob("*.yaml"))
#: What a slow machine may take for anything that takes seconds.
SOON_S = 90
#: How far back rules look, in place of minutes and hours; and how long an alert waits.
WINDOW = "8s"
WAITS = "1s"


class Prometheus:
    """A Prometheus with a configuration of its own, and its HTTP API.

    `planes` is plane -> job -> ports that it scrapes each second.
    """

    def __init__(self, folder, planes):
        folder.mkdir()
        self.port = free_port()
        scrapes = [
            {
                "job_name": job,
                "static_configs": [
                    {"targets": [f"127.0.0.1:{port}" for port in jobs[job]], "labels": {"plane": plane}}
                    for plane, jobs in planes.items()
                    if job in jobs
                ],
            }
            for job in sorted({job for jobs in planes.values() for job in jobs})
        ]
        configuration = {
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": [_hurried(folder, path) for path in RULES],
            "scrape_configs": scrapes,
        }
        file = folder / "prometheus.yml"
        file.write_text(yaml.safe_dump(configuration))
        words = ["prometheus", f"--config.file={file}", f"--storage.tsdb.path={folder / 'data'}"]
        words += [f"--web.listen-address=127.0.0.1:{self.port}"]
        self.process = Process("prometheus", words, folder=folder, env=os.environ)

    def ready(self):
        self.process.wait_for("Server is ready to receive web requests", seconds=SOON_S)
        return self

    def get(self, path, **parameters):
        """Return the data of an answer; fail with what Prometheus says if it is no success."""
        query = urllib.parse.urlencode(parameters, doseq=True)
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{query}"
        try:
            with urllib.request.urlopen(url, timeout=20) as answer:
                return json.loads(answer.read())["data"]
        except urllib.error.HTTPError as error:
            with error:
                raise AssertionError(f"{parameters}: {error.read().decode()}") from error

    def value(self, query):
        """Return the only value of a query, None if there is none."""
        found = self.get("query", query=query)["result"]
        return float(found[0]["value"][1]) if found else None

    def firing(self):
        """Return alert -> its notes, of those that fire."""
        alerts = self.get("alerts")["alerts"]
        return {each["labels"]["alertname"]: each["annotations"] for each in alerts if each["state"] == "firing"}


def _hurried(folder, path):
    """Copy a rule file with shorter times, and return where it is."""
    text = re.sub(r"\bfor: \w+", f"for: {WAITS}", path.read_text())
    text = re.sub(r"\boffset \d+[smh]", f"offset {WINDOW}", text)
    copy = folder / path.name
    copy.write_text(re.sub(r"\[\d+[smh]\]", f"[{WINDOW}]", text))
    return str(copy)
