"""One broker set of real brokers under the controllers that are tried, with what a test needs to see of it."""

import json
import time

from peers.controllers import leader_of
from peers.servers import CLUSTER
from peers.waiting import wait_until
from peers.wire import GET_MAX_OFFSET, Caller

from remoting.clock import SystemClock

SEND_MESSAGE = 310
UPDATE_BROKER_CONFIG = 25
GET_EPOCH_CACHE = 1007

#: Brokers register each 10 s, and a slave learns where its master's log is only when it registers after it.
IN_SYNC_S = 40

#: How long anything may take on a machine that others use as well.
VERY_LONG_S = 120

UNIX = SystemClock()


class ReplicatedSet:
    """Brokers of one name; each has the name of its own as topic, with one queue, from the start."""

    def __init__(self, lab, run, *, name, namesrv, controllers, count, **properties):
        self.name = name
        self.topic = name
        self.run = run
        self.namesrv = namesrv
        self.controllers = controllers
        self._lab = lab
        self._tool = None
        settings = controllers[0].broker_settings() | properties
        settings["controllerAddr"] = ";".join(each.advertised_address for each in controllers)
        self._settings = settings
        self.brokers = [self.new_broker(f"n{number}") for number in range(count)]

    def new_broker(self, label, **properties):
        """Return a broker of the set that has an address but does not run yet."""
        return self._lab.broker(
            self.name,
            label=f"{self.name}-{label}",
            version=self.run.broker_version,
            namesrv=[self.namesrv.address],
            **self._settings,
            **properties,
        )

    # What the controller says

    def state(self):
        """Return the state of the set as the leading controller tells it; None if nobody does."""
        leader = leader_of(self.controllers)
        return leader.set_state(self.name) if leader else None

    def wait_for_state(self, condition, *, seconds, what):
        """Return the first state that fulfils `condition`."""
        last = None

        def fulfilled():
            nonlocal last
            last = self.state()
            return last if last and condition(last) else None

        return wait_until(fulfilled, seconds=seconds, what=lambda: f"{what}; now {last}")

    def wait_for_master(self, condition=lambda state: True, *, seconds, what="a master"):
        return self.wait_for_state(
            lambda state: state.master is not None and condition(state), seconds=seconds, what=what
        )

    # Who is who

    def by_id(self, broker_id):
        address = self.state().addresses[broker_id]
        return next(broker for broker in self.brokers if broker.address == address)

    @property
    def master(self):
        return self.by_id(self.state().master)

    @property
    def slaves(self):
        master = self.master
        return [broker for broker in self.brokers if broker is not master]

    def id_of(self, broker):
        return self.state().id_of(broker.address)

    # Its life

    def start(self):
        """Start all brokers at the same time and wait until they are complete."""
        for broker in self.brokers:
            broker.start()
        for broker in self.brokers:
            broker.ready()
        return self

    def moved(self, broker):
        """Return a broker with the store of this one and another address, which takes its place in the set."""
        moved = self.new_broker(broker.label.removeprefix(f"{self.name}-"))
        self.brokers[self.brokers.index(broker)] = moved
        return moved

    def restart(self, broker):
        broker.start().ready()

    def wait_until_complete(self, *, seconds=VERY_LONG_S):
        """Return the state once every broker is in sync, alive and in the route."""
        everybody = {broker.address for broker in self.brokers}

        def complete(state):
            in_sync = {state.addresses[broker_id] for broker_id in state.in_sync & state.alive}
            return everybody == in_sync and self.routed().get("0") == state.addresses[state.master]

        state = self.wait_for_master(complete, seconds=seconds, what="all brokers in sync and in the route")
        wait_until(lambda: set(self.routed().values()) == everybody, seconds=seconds, what="all brokers in the route")
        return state

    def is_complete(self):
        """Return whether all runs as after a start."""
        running = [*self.brokers, *self.controllers]
        if not all(each.process is not None and each.process.running for each in running):
            return False
        try:
            self.wait_until_complete(seconds=IN_SYNC_S)
        except AssertionError:
            return False
        return True

    def routed(self):
        """Return role id -> address as the NameServer has it; 0 is the master."""
        return self.namesrv.caller.addresses(self.name)

    # Messages

    def load(self, name="load", **options):
        """Start a producer, and return it once its first message was acknowledged."""
        load = self._lab.load(
            name, namesrv=[self.namesrv.address], topic=self.topic, version=self.run.broker_version, **options
        )
        return load.ready()

    def lose_nothing(self, *loads):
        """Fail if something acknowledged cannot be read, after some time for the confirm offset to follow."""
        acknowledged = {each.key: each for load in loads for each in load.acknowledged()}
        assert acknowledged, "nothing was acknowledged, so nothing can be seen"
        scan = self._lab.scan("scan", namesrv=[self.namesrv.address], topic=self.topic)
        missing = set(acknowledged)
        deadline = time.perf_counter() + IN_SYNC_S
        while missing and time.perf_counter() < deadline:
            missing = set(acknowledged) - set(scan.keys() or ())
        scan.process.kill()
        assert not missing, _loss(acknowledged, missing)

    def send_to(self, broker, key, *, padding=0, waits=True):
        """Send one message to this broker, whatever its role, and return the code of its answer.

        Unless it `waits`, the broker answers before others have it.
        """
        words = ["direct", self.topic, "TBW102", "4", "0", "0", str(UNIX.unix_ms()), "0"]
        words += [f"KEYS\x01{key}\x02WAIT\x01{str(waits).lower()}", "0", "false"]
        fields = dict(zip("abcdefghijk", words, strict=True))
        return Caller(broker.address).request(SEND_MESSAGE, fields, key.encode() + bytes(padding)).code

    def end_of_log(self, broker):
        """Return how many messages of the topic the broker has."""
        answer = Caller(broker.address).request(GET_MAX_OFFSET, {"topic": self.topic, "queueId": "0"})
        return int(answer.fields["offset"])

    def log_bytes(self, broker):
        """Return how many bytes the broker has in its log."""
        return _epoch_cache(broker)["maxOffset"]

    # Tools

    def mqadmin(self, *words):
        """Run a command of mqadmin 5.5.0 and return what it printed."""
        if self._tool is None:
            self._tool = self._lab.mqadmin()
        return self._tool.run(*words, namesrv=[self.namesrv.address], seconds=60)

    def elect(self, broker_id):
        """Let mqadmin elect this broker, and return what it printed."""
        address = next(each for each in self.controllers if each.process.running).address
        words = ["-a", address, "-b", str(broker_id), "-bn", self.name, "-c", CLUSTER]
        return self.mqadmin("electMaster", *words)

    def configure_controllers(self, key, value):
        addresses = ";".join(each.address for each in self.controllers)
        printed = self.mqadmin("updateControllerConfig", "-a", addresses, "-k", key, "-v", value)
        assert "success" in printed, printed

    def configure_brokers(self, brokers, **properties):
        text = "".join(f"{key}={value}\n" for key, value in properties.items())
        for broker in brokers:
            answer = Caller(broker.address).request(UPDATE_BROKER_CONFIG, {}, text.encode())
            assert answer.code == 0, answer

    def epochs_in_log(self, broker):
        """Return the (epoch, start offset) pairs in a broker's log."""
        return [(each["epoch"], each["startOffset"]) for each in _epoch_cache(broker)["epochList"]]

    def is_master(self, broker):
        """Return whether the broker itself says that it leads."""
        try:
            return _epoch_cache(broker)["brokerId"] == 0
        except OSError:
            return False


class Moment:
    """When something was done."""

    def __init__(self):
        self.unix_ms = UNIX.unix_ms()
        self._counter = time.perf_counter()

    def elapsed(self):
        """Return the seconds since then."""
        return time.perf_counter() - self._counter

    def until_sent(self, load, *, port=None, seconds=VERY_LONG_S):
        """Return the seconds from then to the first message acknowledged later, by the broker at this port."""

        def found():
            later = (each for each in load.acknowledged() if each.unix_ms > self.unix_ms)
            return next((each for each in later if port in (None, each.port)), None)

        sending = wait_until(found, seconds=seconds, what=f"a message acknowledged by {port or 'anybody'}")
        return (sending.unix_ms - self.unix_ms) / 1000


def _epoch_cache(broker):
    answer = Caller(broker.address).request(GET_EPOCH_CACHE)
    assert answer.code == 0, answer
    return json.loads(answer.body)


def _loss(acknowledged, missing):
    """Tell how much was lost, and when that was sent: the messages, after the first one."""
    began_ms = min(each.unix_ms for each in acknowledged.values())
    lost = sorted((acknowledged[key] for key in missing), key=lambda each: each.unix_ms)
    first, last = lost[0], lost[-1]
    return (
        f"{len(lost)} of {len(acknowledged)} acknowledged messages cannot be read: from {first.key} to {last.key}, "
        f"{first.unix_ms - began_ms} to {last.unix_ms - began_ms} ms after the first one, "
        f"acknowledged by the ports {sorted({each.port for each in lost})}"
    )
