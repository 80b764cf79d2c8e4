"""Lines 12, 13 and 14 of the checklist: a controller goes and comes, its connections break, and no master moves."""

import pytest
from lengths import everywhere, in_soak, ours_everywhere
from peers.waiting import holds_for, wait_until
from replicated import VERY_LONG_S, Moment

pytestmark = [pytest.mark.broad, pytest.mark.java, pytest.mark.timeout(900)]

#: A master that is replaced wrongly is replaced by then: heartbeats are missed after 10 s, checked each 5 s.
AFTERMATH_S = 20


def keeps(replicated, before, *, seconds):
    """Fail if somebody is elected, or leaves the set, in the next seconds."""
    last = before

    def kept():
        nonlocal last
        last = replicated.state() or last
        return last.epochs == before.epochs and last.in_sync == before.in_sync

    holds_for(kept, seconds=seconds, what=lambda: f"epochs {before.epochs}, now {last.epochs}")
    assert last.epochs == before.epochs


def both_send_heartbeats(replicated):
    state = replicated.state()
    return state is not None and state.alive == state.members


@in_soak
def test_brokers_keep_their_roles_without_any_controller_running(run, shared_set, line):
    with line("12", "no controller for 60 s under load", java_fails="no longer so") as it:
        before, master = shared_set.state(), shared_set.master
        load = shared_set.load()
        (controller,) = shared_set.controllers
        controller.process.stop()
        stopped = Moment()
        holds_for(lambda: shared_set.is_master(master), seconds=60, what="the master leads")
        load.wait_for_more()
        assert load.failures() == []
        controller.start()
        wait_until(
            lambda: both_send_heartbeats(shared_set),
            seconds=VERY_LONG_S,
            what="heartbeats of both brokers arrive again",
        )
        it.took("heartbeats of both again", stopped.elapsed() - 60, limit=None)
        keeps(shared_set, before, seconds=AFTERMATH_S)
        load.stop()
        assert load.failures() == []
        it.saw(f"{len(load.acknowledged())} sends, none failed, epochs unchanged")
        shared_set.lose_nothing(load)


@everywhere
def test_controller_restart_changes_no_master(run, shared_set, line):
    count = run.choose(full=20, short=3)
    with line("13", f"{count} restarts of the controller under load", java_fails="no longer so") as it:
        before = shared_set.state()
        load = shared_set.load()
        (controller,) = shared_set.controllers
        slowest = 0.0
        for number in range(count):
            if number % 2:
                controller.process.kill()
            else:
                controller.process.stop()
            stopped = Moment()
            controller.start()
            wait_until(
                lambda: both_send_heartbeats(shared_set),
                seconds=VERY_LONG_S,
                what="heartbeats of both brokers arrive again",
            )
            slowest = max(slowest, stopped.elapsed())
            assert shared_set.state().epochs == before.epochs, "no longer so: another master epoch"
        keeps(shared_set, before, seconds=run.choose(full=AFTERMATH_S, short=8))
        it.took("slowest until heartbeats of both", slowest, limit=None)
        load.stop()
        assert load.failures() == []
        shared_set.lose_nothing(load)
        it.saw(f"{len(load.acknowledged())} sends, none failed, epochs unchanged")


@ours_everywhere
def test_broken_connections_change_no_master(run, shared_set, stages, line):
    count = run.choose(full=20, short=5)
    with line("14", f"{count} times all connections to the controller reset") as it:
        before = shared_set.state()
        load = shared_set.load()
        cut = 0
        for _ in range(count):
            cut += stages.front.cut()
            keeps(shared_set, before, seconds=run.choose(full=6, short=4))
        assert cut >= 2 * count, f"only {cut} connections were there to be cut"
        assert shared_set.state().alive == before.members
        keeps(shared_set, before, seconds=run.choose(full=AFTERMATH_S, short=5))
        load.stop()
        assert load.failures() == []
        it.saw(f"{cut} connections reset, epochs and set unchanged")
