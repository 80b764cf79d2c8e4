"""Producers that send for hours, what became of each send since the last look, and the set that acknowledges them."""

import json

from broker_epochs import EpochRecord, Epochs, stored_sends
from peers.waiting import wait_until
from replicated import IN_SYNC_S, UNIX, VERY_LONG_S

#: 200 runs needed one restart by hand.
RUNS_A_RESTART = 50


def restarts_max(runs):
    """Return how many slaves may have to be restarted by hand in so many runs."""
    return -(-runs // RUNS_A_RESTART)


class WatchedLoad:
    """Reads what a `Load` prints as it comes: its log becomes too long to be read from the start each time."""

    def __init__(self, load):
        self._load = load
        self._position = load.process.position()
        #: Acknowledgements since they were last taken.
        self.sends = []
        self.failures = 0

    @property
    def name(self):
        return self._load.prefix

    def read(self):
        """Read what is new, and return all that was not taken yet."""
        text, ending, _ = self._load.process.text(self._position).rpartition("\n")
        self._position += len((text + ending).encode())
        self.sends += stored_sends(text)
        self.failures += text.count("\nNO ") + text.startswith("NO ")
        return self.sends

    def take(self):
        """Return what was not taken yet, and forget it."""
        taken, self.sends = self.read(), []
        return taken


class WatchedSet:
    """A broker set with several producers, whose every acknowledgement is held against the epochs in the set's log.

    What controllers answer about roles is held against each other all the time.
    """

    def __init__(self, site, loads, role_checks):
        self.site = site
        self.brokers = site.brokers
        self.record = EpochRecord()
        self.role_checks = role_checks
        #: Brokers that an operator had to restart.
        self.restarted_slaves = 0
        self._loads = loads
        self._watched = [WatchedLoad(each) for each in loads]

    @property
    def failures(self):
        """How many sends of each producer failed; the application repeats those in order itself, and each counts."""
        return ", ".join(f"{each.failures} of {each.name}" for each in self._watched)

    def master(self):
        """Return the broker that leads, once a controller answers."""
        return wait_until(self.master_now, seconds=VERY_LONG_S, what="a master")

    def master_now(self):
        """Return the broker that leads as a controller answers now, None if none does or nobody leads."""
        state = self.brokers.state()
        if state is None or state.master is None:
            return None
        return next(each for each in self.brokers.brokers if each.address == state.addresses[state.master])

    def wait_for_another_master(self, old):
        """Wait until another broker than this one was elected; return False if none can be, as it alone is in sync."""
        state = self.brokers.wait_for_master(
            lambda state: state.addresses[state.master] != old.address or len(state.in_sync) == 1,
            seconds=VERY_LONG_S,
            what=f"another master than {old.address}",
        )
        return state.addresses[state.master] != old.address

    def wait_for_send_to_another(self, old, since_ms):
        """Wait until each producer was acknowledged something by another broker than this one since then."""
        self._wait_for_sends(since_ms, lambda broker: broker != old.address, what=f"another broker than {old.address}")

    def acknowledged_by(self, broker, since_ms):
        """Return what a broker has acknowledged since then, of what was not checked yet."""
        sends = [send for load in self._watched for send in load.read()]
        return [send for send in sends if send.broker == broker.address and send.unix_ms > since_ms]

    def wait_until_complete(self):
        """Wait until every broker is in sync, clients have the role address, and each producer reaches the master."""
        try:
            self.brokers.wait_until_complete(seconds=IN_SYNC_S)
        except AssertionError:
            self._restart_slaves_out_of_sync()
            self.brokers.wait_until_complete()
        wait_until(self.site.is_in_force, seconds=VERY_LONG_S, what="clients get the role address")
        master = self.master()
        now_ms = UNIX.unix_ms()
        self._wait_for_sends(now_ms, lambda broker: broker == master.address, what=f"the master, {master.address}")

    def _restart_slaves_out_of_sync(self):
        """Do what an operator does about brokers that run and do not get in sync.

        In a set of three, a slave of 5.5.0 that gets the HA address of the former master, which lives, connects to that
        one and stays there, so the master never takes it into the SyncStateSet. The NameServer leaves that address out
        once the slave knows of the new master; a registration that was under way at that moment can still bring it.
        """
        state = self.brokers.state()
        for each in sorted(state.members - state.in_sync):
            broker = self.brokers.by_id(each)
            broker.process.kill()
            self.brokers.restart(broker)
            self.restarted_slaves += 1

    def _wait_for_sends(self, since_ms, fits, *, what):
        for load in self._watched:
            wait_until(
                # The newest ones first: the others were looked at before.
                lambda load=load: any(fits(each.broker) for each in reversed(load.read()) if each.unix_ms > since_ms),
                seconds=VERY_LONG_S,
                what=f"a send of {load.name} that was acknowledged by {what}",
            )

    def problems(self):
        """Return what is wrong with acknowledgements and answers since the last check; the set has to be complete."""
        sends = {each.name: each.take() for each in self._watched}
        epochs = Epochs(wait_until(self._epoch_starts, seconds=VERY_LONG_S, what="the epochs"), self._masters())
        return self.record.problems(sends, epochs) + self.role_checks.take_problems()

    def _epoch_starts(self):
        """Return the epochs in the log of the master, None while nobody is."""
        master = self.master_now()
        return self.brokers.epochs_in_log(master) if master is not None and self.brokers.is_master(master) else None

    def _masters(self):
        """Return the address of each epoch's master, as the controllers logged their elections."""
        addresses = wait_until(self.brokers.state, seconds=VERY_LONG_S, what="the set").addresses
        lines = (line for each in self.site.controllers for line in each.process.log.read_text().splitlines())
        elections = (json.loads(line) for line in lines if '"event":"master_elected"' in line)
        return {each["master_epoch"]: addresses[each["new_master"]] for each in elections}

    def lose_nothing(self):
        """Fail if something that was acknowledged so far cannot be read."""
        self.brokers.lose_nothing(*self._loads)

    def stop(self):
        for each in self._loads:
            each.stop()
