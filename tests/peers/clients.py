"""Java clients and mqadmin, of any RocketMQ version."""

import base64
import itertools
import re
import time
from dataclasses import dataclass

from peers.jars import V5_5
from peers.java import start_java
from peers.waiting import wait_until

#: How often clients query routes, balance their queues and send heartbeats to brokers: 30 s, 20 s and 30 s by default.
POLL_MS = 1000
REBALANCE_FLAG = "-Drocketmq.client.rebalance.waitInterval=1000"

#: Makes groups and messages of one client unlike those of every other: a broker remembers a killed group for a while.
_serial = itertools.count()


class Producer:
    """Sends messages one by one until it has sent `count` or is killed."""

    def __init__(self, folder, name, *, namesrv, topic, version=V5_5, flags=(), **options):
        own = f"{name}-{next(_serial)}"
        arguments = {"group": own, "prefix": own, "poll-ms": POLL_MS, "interval-ms": 10} | options
        arguments |= {"namesrv": ";".join(namesrv), "topic": topic}
        self.process = start_java(name, version, "Producer", _options(arguments), folder=folder, flags=flags)

    def ready(self):
        self.process.wait_for(r"^READY ")
        return self

    def sent(self):
        """Return the bodies of the messages that a broker has acknowledged, in order, each with the broker's name."""
        return re.findall(r"^SENT \d+ (\S+) (\S+)$", self.process.text(), re.MULTILINE)

    def bodies(self):
        return {body for body, _ in self.sent()}

    def brokers(self):
        """Return the names of the brokers that have acknowledged messages."""
        return {broker for _, broker in self.sent()}

    def failures(self):
        """Return a line for each message whose sending failed after the client's own retries."""
        return re.findall(r"^FAILED .*$", self.process.text(), re.MULTILINE)

    def finish(self, *, seconds=60):
        """Wait until all is sent."""
        self.process.wait_for(r"^DONE ", seconds=seconds)
        return self


class Consumer:
    """A push consumer that notes every message it gets."""

    def __init__(self, folder, name, *, namesrv, topic, version=V5_5, flags=(), **options):
        arguments = {"group": f"{name}-{next(_serial)}", "poll-ms": POLL_MS} | options
        arguments |= {"namesrv": ";".join(namesrv), "topic": topic}
        flags = [REBALANCE_FLAG, *flags]
        self.process = start_java(name, version, "Consumer", _options(arguments), folder=folder, flags=flags)

    def ready(self):
        self.process.wait_for(r"^READY ")
        return self

    def got(self):
        """Return the bodies of the messages received."""
        return set(re.findall(r"^GOT \d+ (\S+)$", self.process.text(), re.MULTILINE))

    def wait_for_all(self, bodies, *, seconds=180):
        """Wait until every one of `bodies` was received: a Java client starts, and shares out queues each 20 s.

        It may share them out several times on a busy machine: `seconds` is when it never will.
        """
        missing = lambda: sorted(bodies - self.got())  # noqa: E731
        wait_until(lambda: not missing(), seconds=seconds, what=lambda: f"to receive {missing()[:5]} and more")


@dataclass(frozen=True)
class Sending:
    """One message that a `Load` has tried to send; `unix_ms` is when the outcome was known."""

    unix_ms: int
    key: str
    #: None if it was acknowledged, else the code or name of the error.
    failure: str | None
    #: That of the broker that has acknowledged it.
    port: int | None


class Load:
    """Sends messages one by one until it is stopped, with `retries` or none, and notes what became of each."""

    def __init__(self, folder, name, *, namesrv, topic, version=V5_5, flags=(), **options):
        self.prefix = f"{name}-{next(_serial)}"
        arguments = {"group": self.prefix, "prefix": self.prefix, "poll-ms": POLL_MS, "interval-ms": 10} | options
        arguments |= {"namesrv": ";".join(namesrv), "topic": topic}
        self.process = start_java(self.prefix, version, "Load", _options(arguments), folder=folder, flags=flags)

    def ready(self):
        """Wait until the first message was acknowledged."""
        self.process.wait_for(r"^OK ")
        return self

    def sendings(self):
        """Return everything tried so far, in order."""
        lines = re.findall(r"^(OK|NO) (\d+) (\S+) (\S+)", self.process.text(), re.MULTILINE)
        return [_sending(*line) for line in lines]

    def acknowledged(self):
        return [each for each in self.sendings() if each.failure is None]

    def failures(self):
        return [each for each in self.sendings() if each.failure is not None]

    def wait_for_more(self, *, count=1, seconds=60):
        """Wait until so many messages more were acknowledged."""
        position = self.process.position()

        def acknowledged():
            assert self.process.running, f"{self.process.name} has ended"
            return len(re.findall(r"^OK ", self.process.text(position), re.MULTILINE)) >= count

        wait_until(acknowledged, seconds=seconds, what=f"{count} messages more to be acknowledged")
        return self

    def stop(self):
        self.process.write_line("")
        self.process.wait_for(r"^DONE ", seconds=30)
        self.process.wait(seconds=10)
        return self


class Scan:
    """Reads a topic of one broker set from beginning to end, as often as a test calls it."""

    def __init__(self, folder, name, *, namesrv, topic, version=V5_5, flags=(), **options):
        own = f"{name}-{next(_serial)}"
        arguments = {"group": own, "poll-ms": POLL_MS} | options | {"namesrv": ";".join(namesrv), "topic": topic}
        self.process = start_java(own, version, "Scan", _options(arguments), folder=folder, flags=flags)

    def keys(self, *, seconds=60):
        """Return the first words of all messages that can be read now, None if a queue cannot be read to its end."""
        position = self.process.position()
        self.process.write_line("")
        end = self.process.wait_for(r"^(SCANNED|UNREADABLE) .*$", seconds=seconds, position=position)
        if end[1] == "UNREADABLE":
            return None
        return re.findall(r"^KEY (\S+)", self.process.text(position), re.MULTILINE)


@dataclass(frozen=True)
class MqadminRun:
    """What one command of mqadmin printed, and exited with."""

    code: int
    out: str
    err: str


class Mqadmin:
    """The mqadmin of one version. Its commands run in one JVM, which saves the 4 s start of each."""

    def __init__(self, folder, *, version=V5_5, flags=()):
        name = f"mqadmin-{version}"
        logging = "logback-silent.xml"
        flags = ["-Djava.security.manager=allow", *flags]
        self.process = start_java(name, version, "AdminShell", [], folder=folder, flags=flags, logging=logging)
        self._numbers = itertools.count()

    def run(self, *words, namesrv, seconds=30):
        """Run one command against the NameServers at `namesrv` and return all that it printed."""
        number, position = self._write([*words, "-n", ";".join(namesrv)])
        printed = self.process.wait_for(
            rf"^BEGIN {number}\n([\s\S]*)\nEND {number}$", seconds=seconds, position=position
        )
        return printed[1]

    def update_topic(self, *words, namesrv, seconds=60):
        """Create or change a topic; again if a broker that waits for a processor does not answer mqadmin within 5 s."""
        deadline = time.perf_counter() + seconds
        while "Exception" in (printed := self.run("updateTopic", *words, namesrv=namesrv, seconds=seconds)):
            assert "RemotingTimeoutException" in printed, printed
            assert time.perf_counter() < deadline, printed
        return printed

    def ran(self, *words, seconds=60):
        """Run one command with these words alone; returns its exit code and what it printed on each stream."""
        number, position = self._write(words)
        found = self.process.wait_for(rf"^RAN {number} (\d+) =(\S*) =(\S*)$", seconds=seconds, position=position)
        out, err = (base64.b64decode(text).decode(errors="replace") for text in found.groups()[1:])
        return MqadminRun(int(found[1]), out, err)

    def _write(self, words):
        number, position = next(self._numbers), self.process.position()
        self.process.write_line("\t".join(words))
        return number, position


def _sending(outcome, unix_ms, key, detail):
    acknowledged = outcome == "OK"
    return Sending(int(unix_ms), key, None if acknowledged else detail, int(detail) if acknowledged else None)


def _options(arguments):
    return [word for name, value in arguments.items() for word in (f"--{name}", str(value))]
