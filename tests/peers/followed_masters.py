"""The masters as the offset manager follows them, in a thread: for tests that start processes."""

import asyncio
import threading

from offsets.sets.by_controllers import ControllerFollowed, ControllerFollowing, ControllerUnusable, MastersOutdated
from offsets.sets.followed import MasterChangeKind
from peers.waiting import wait_until
from remoting.clock import SystemClock


class FollowedMasters:
    """Follows controllers from `with` on; each change has the Unix time at which it came, in ms."""

    def __init__(self, controllers):
        self._clock = SystemClock()
        self.changes, self._told = [], []
        addresses = [f"127.0.0.1:{controller.http_port}" for controller in controllers]
        self.following = ControllerFollowing(addresses, self._clock, self._told.append)
        self.following.listeners.append(lambda change: self.changes.append((change, self._clock.unix_ms())))

    def __enter__(self):
        self._loop = asyncio.new_event_loop()
        self._task = self._loop.create_task(self.following.run())
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join(20)
        self._loop.close()

    def _run(self):
        self._loop.run_until_complete(asyncio.wait([self._task]))

    @property
    def sets(self):
        return self.following.sets

    def wait_for(self, broker_name, *kinds, seconds=60, since=0):
        """Return the first change of these kinds, from a number of changes on, and when it came."""

        def found():
            return next(
                (
                    (change, came_ms)
                    for change, came_ms in self.changes[since:]
                    if change.kind in kinds and change.set_name.broker_name == broker_name
                ),
                None,
            )

        return wait_until(found, seconds=seconds, what=lambda: f"{kinds} of {broker_name}; came {self.changes}")

    def wait_for_master(self, broker_name):
        """Return the first master of a set; it may be known before it has one, or not."""
        return self.wait_for(broker_name, MasterChangeKind.FOUND, MasterChangeKind.GAINED)

    # What is told

    def _of(self, kind):
        return [event for event in self._told if isinstance(event, kind)]

    @property
    def leaders(self):
        return [event.url for event in self._of(ControllerFollowed)]

    @property
    def unusable(self):
        return self._of(ControllerUnusable)

    @property
    def outdated(self):
        return self._of(MastersOutdated)
