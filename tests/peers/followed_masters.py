"""The masters as a program follows them that is no controller: in a thread, for tests that start processes."""

import asyncio
import threading

from controller.offsets.topology.controller_http import ControllerHttp
from controller.offsets.topology.masters import Masters
from controller.offsets.topology.values import MasterChangeKind
from controller.offsets.topology.watch import ControllerWatch, WatchParts
from peers.waiting import wait_until
from remoting.clock import SystemClock


class FollowedMasters:
    """Follows controllers from `with` on; each change has the Unix time at which it came, in ms."""

    def __init__(self, controllers):
        self._urls = [f"http://127.0.0.1:{each.http_port}" for each in controllers]
        self._clock = SystemClock()
        self.changes, self.leaders, self.unusable, self.outdated = [], [], [], []
        self.masters = Masters()

    def __enter__(self):
        self._loop = asyncio.new_event_loop()
        parts = WatchParts(ControllerHttp(), self.masters, self, self, self._clock)
        self._task = self._loop.create_task(ControllerWatch(self._urls, parts).run())
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join(20)
        self._loop.close()

    def _run(self):
        self._loop.run_until_complete(asyncio.wait([self._task]))

    def wait_for(self, broker_name, *kinds, seconds=60, since=0):
        """Return the first change of these kinds, from a number of changes on, and when it came."""

        def found():
            return next(
                (one for one in self.changes[since:] if one[0].kind in kinds and one[0].broker_name == broker_name),
                None,
            )

        return wait_until(found, seconds=seconds, what=lambda: f"{kinds} of {broker_name}; came {self.changes}")

    def wait_for_master(self, broker_name):
        """Return the first master of a set; it may be known before it has one, or not."""
        return self.wait_for(broker_name, MasterChangeKind.FOUND, MasterChangeKind.GAINED)

    # What is reported

    def masters_changed(self, changes):
        self.changes += [(each, self._clock.unix_ms()) for each in changes]

    def leader_followed(self, url):
        self.leaders.append(url)

    def controller_unusable(self, url, problem):
        self.unusable.append((url, problem))

    def sets_outdated(self, url, outdated):
        self.outdated.append((url, *outdated))
