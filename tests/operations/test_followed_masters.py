"""Programs that follow the masters at real controllers: each change comes at once, whoever leads, and whatever ends."""

import contextlib
import threading
import urllib.error
import urllib.request

import pytest
from operations.brokers_at_work import BrokerAtWork, in_sync
from operations.control_plane import ControlPlane, clean, designate, elections, get, metric, shown
from peers.controllers import OurController
from peers.followed_masters import FollowedMasters
from peers.waiting import wait_until

from offsets.sets.followed import MasterChangeKind

SET = "broker-a"
WAITS = "rocketmq_controller_masters_waits"


@pytest.fixture
def controller(tmp_path):
    controller = OurController(tmp_path).start()
    controller.process.wait_for('"event":"server_ready"')
    yield controller
    if controller.process.running:
        assert controller.process.stop() == 0


@contextlib.contextmanager
def two_brokers(*controllers):
    brokers = [BrokerAtWork([each.address for each in controllers], SET) for _ in range(2)]
    try:
        for each in brokers:
            each.start()
            wait_until(lambda each=each: each.master is not None, seconds=60, what="it has a role")
        in_sync(brokers)
        state = wait_until(lambda: controllers[0].set_state(SET), seconds=60, what="the set is there")
        wait_until(lambda: len(controllers[0].set_state(SET).in_sync) == len(brokers), seconds=60, what="all in sync")
        yield brokers, state
    finally:
        for each in brokers:
            each.close()


def test_masters_are_followed_from_the_first_to_the_end_of_the_set(controller, figure):
    with FollowedMasters([controller]) as followed, two_brokers(controller) as ((first, second), _):
        found, _ = followed.wait_for_master(SET)
        assert (found.after.address, found.after.master_epoch) == (first.address, 1)
        assert designate(controller, SET, second.broker_id).code == 0
        moved, came_ms = followed.wait_for(SET, MasterChangeKind.MOVED)
        assert (moved.before.address, moved.after.address) == (first.address, second.address)
        stored_ms = elections(controller, SET)[0]["unixMs"]
        figure("a change is known after its election", (came_ms - stored_ms) / 1000)
        in_sync([first, second])
        wait_until(lambda: len(controller.set_state(SET).in_sync) == 2, seconds=60, what="all in sync again")
        second.stop()
        after, _ = followed.wait_for(SET, MasterChangeKind.MOVED, since=len(followed.changes))
        assert (after.after.address, after.after.master_epoch > moved.after.master_epoch) == (first.address, True)
        first.stop()
        assert clean(controller, SET, living=True).code == 0
        followed.wait_for(SET, MasterChangeKind.REMOVED)
    assert followed.outdated == []


def test_controller_that_starts_again_is_followed_without_a_change(controller):
    with FollowedMasters([controller]) as followed, two_brokers(controller):
        followed.wait_for_master(SET)
        before = followed.sets[SET].master
        count = len(followed.changes)
        assert controller.process.stop() == 0
        wait_until(lambda: followed.unusable, seconds=20, what="it is missed")
        controller.start()
        url = f"http://127.0.0.1:{controller.http_port}"
        assert followed.leaders == [url]
        other = 2 if before.broker_id == 1 else 1
        wait_until(lambda: designate(controller, SET, other).code == 0, seconds=60, what="both send heartbeats again")
        followed.wait_for(SET, MasterChangeKind.MOVED, since=count)
        assert [each.kind for each, _ in followed.changes[count:]] == [MasterChangeKind.MOVED]


class _Waiting:
    """A request that the controller lets wait: at the end of its time it would be answered 200."""

    def __init__(self, controller):
        others = metric(controller, WAITS)
        self._url = f"http://127.0.0.1:{controller.http_port}/v1/masters"
        revision = shown(controller, "/v1/masters")["revision"]
        self._query = f"?after={revision}&waitMs=30000"
        self.status = None
        self._thread = threading.Thread(target=self._request)
        self._thread.start()
        wait_until(lambda: metric(controller, WAITS) > others, seconds=20, what="the request waits")

    def _request(self):
        try:
            with urllib.request.urlopen(self._url + self._query, timeout=60) as answer:
                self.status = answer.status
        except urllib.error.HTTPError as error:
            self.status = error.code
            error.close()

    def ended(self):
        self._thread.join(60)
        return self.status


def test_controller_that_stops_answers_whoever_waits_first(controller):
    waiting = _Waiting(controller)
    assert controller.process.stop() == 0
    assert waiting.ended() == 503


@pytest.mark.etcd
@pytest.mark.broad
@pytest.mark.timeout(300)
def test_masters_are_followed_over_changes_of_the_leading_controller(tmp_path, figure):
    with contextlib.closing(ControlPlane(tmp_path, members=1)) as plane:
        plane.start()
        brokers = plane.brokers_of(SET)
        with FollowedMasters(plane.controllers) as followed:
            found, _ = followed.wait_for_master(SET)
            first = plane.leader()
            # Stopped in order: whoever waits is answered at once, and follows the next one.
            waiting = _Waiting(first)
            assert first.process.stop() == 0
            assert waiting.ended() in {409, 503}
            rest = [each for each in plane.controllers if each is not first]
            second = plane.leader(among=rest)
            master = next(each for each in brokers if each.address == found.after.address)
            master.stop()
            moved, came_ms = followed.wait_for(SET, MasterChangeKind.MOVED)
            figure("a failover is known after its election", (came_ms - elections(second, SET)[0]["unixMs"]) / 1000)
            # Paused: its answers are missing, and those that come late change nothing.
            count = len(followed.changes)
            second.process.pause()
            first.start()
            third = plane.leader(among=[each for each in plane.controllers if each is not second])
            plane.wait_for_state(SET, lambda state: state.master is not None, what="the set has a master")
            known = followed.sets[SET]
            wait_until(
                lambda: followed.leaders[-1] == f"http://127.0.0.1:{third.http_port}", seconds=60, what="it follows"
            )
            second.process.resume()
            # What it has answered late has come before this refusal.
            wait_until(lambda: get(second, "/v1/masters")[0] == 409, seconds=60, what="it refuses")
            assert followed.sets[SET].master == known.master == moved.after
            assert followed.changes[count:] == []
