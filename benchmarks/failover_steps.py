"""Where the time of a failover goes: what the controller, the brokers and the NameServer have logged of it."""

import json
import re
import urllib.request
from datetime import datetime
from datetime import time as clock_time
from typing import Any

from failover_subjects import Moment, Subject
from peers.controllers import OurController
from peers.servers import Broker

STEPS = {
    "suspected": "the controller suspects the master",
    "judged": "it is judged dead",
    "stored": "the election is stored",
    "notified": "the new master is notified (1008)",
    "promoted": "it has changed its role",
    "routed": "the NameServer has it as master",
    "confirmed": "it has answered the controller",
    "sent": "the producer's first SEND_OK",
}
#: What a broker logs; times are of the day, in its time zone.
NOTIFIED = re.compile(r"^(\S+) .*Receive notifyBrokerRoleChanged request", re.MULTILINE)
PROMOTED = re.compile(r"^(\S+) .*Change broker \[.*\] to SYNC_MASTER", re.MULTILINE)


def steps_of(subject: Subject, moment: Moment, sent_ms: int) -> dict[str, int]:
    """Return when each step of a failover was done; the controller's own are known of ours only."""
    (successor,) = (each for each in subject.brokers.brokers if each is not moment.victim)
    seen = {
        "sent": sent_ms,
        "routed": routed_at(subject, successor, moment),
        "notified": logged_at(successor, NOTIFIED, moment),
        "promoted": logged_at(successor, PROMOTED, moment),
    }
    steps = {name: at_ms for name, at_ms in seen.items() if at_ms is not None}
    if isinstance(subject.controller, OurController):
        election = last_election(subject.controller, subject.brokers.name)
        phases = election["phases"]
        steps["stored"] = election["unixMs"]
        if phases["judgeMs"] is not None:
            steps["judged"] = election["unixMs"] - phases["commitMs"]
            steps["suspected"] = steps["judged"] - phases["judgeMs"]
        for notice in election["notified"]:
            if notice["brokerId"] == election["newMaster"] and notice["result"] == "ok":
                steps["confirmed"] = election["unixMs"] + notice["afterMs"]
    return {name: steps[name] - moment.unix_ms for name in STEPS if name in steps}


def last_election(controller: OurController, name: str) -> dict[str, Any]:
    """Return the last election of a set that was held."""
    url = f"http://127.0.0.1:{controller.http_port}/v1/elections?prefix={name}&limit=10"
    with urllib.request.urlopen(url, timeout=10) as answer:
        elections = json.loads(answer.read())["elections"]
    return next(each for each in elections if each["result"] == "new_master_elected")


def routed_at(subject: Subject, successor: Broker, moment: Moment) -> int | None:
    """Return when our NameServer took the registration of the new master, as its log says."""
    for line in subject.brokers.namesrv.process.text(moment.namesrv_log).splitlines():
        event = json.loads(line) if line.startswith("{") else {}
        if event.get("broker_id") == 0 and event.get("addr") == successor.address:
            return int(datetime.fromisoformat(event["timestamp"]).timestamp() * 1000)
    return None


def logged_at(broker: Broker, pattern: re.Pattern[str], moment: Moment) -> int | None:
    """Return when a broker first logged something after a moment."""
    struck = datetime.fromtimestamp(moment.unix_ms / 1000).astimezone()
    for text in pattern.findall(broker.process.text()):
        at = datetime.combine(struck.date(), clock_time.fromisoformat(text)).astimezone()
        if at >= struck:
            return int(at.timestamp() * 1000)
    return None
