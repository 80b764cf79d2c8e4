"""When an agent takes and releases the address: what happens, and exactly what follows."""

import pytest

from role_agent.rules.address_holder import (
    CLAIM_MARGIN_MS,
    REPORTED_FOR_MS,
    AddressHolder,
    EndSessions,
    NotifyClients,
    Phase,
    ProbeAddress,
    QueryPeers,
    ReleaseAddress,
    ReleaseCause,
    RenewAddress,
    TakeAddress,
)
from role_agent.rules.answers import PeerAnswer, PeerReply, PeerRequest, PeerVerb, role_line

LEASE_MS = 3000
PEERS = frozenset({"10.0.0.2:9990", "10.0.0.3:9990"})
SECOND, THIRD = sorted(PEERS)


def holder(peers=PEERS, present_until_ms=None):
    return AddressHolder(peers, LEASE_MS, present_until_ms)


def up(agent, epoch, now_ms, sent_ms=None):
    return agent.controller_answered(
        role_line(f"up ready #epoch {epoch}"), now_ms if sent_ms is None else sent_ms, now_ms
    )


def down(agent, why, epoch, now_ms):
    return agent.controller_answered(role_line(f"down #{why} epoch {epoch}"), now_ms, now_ms)


def request(verb, epoch, broker_id=2, lease_ms=LEASE_MS):
    return PeerRequest(verb=verb, set_name="broker-a", broker_id=broker_id, epoch=epoch, lease_ms=lease_ms)


def answered(agent, peer, verb, epoch, reply, now_ms, *, sent_ms=None, peer_epoch=None, lease_ms=LEASE_MS):
    answer = PeerAnswer(reply=reply, epoch=epoch if peer_epoch is None else peer_epoch, lease_ms=lease_ms)
    sent_ms = now_ms if sent_ms is None else sent_ms
    return agent.peer_answered(peer, request(verb, epoch, broker_id=1), answer, sent_ms, now_ms)


def released(agent, peer, epoch, now_ms):
    return answered(agent, peer, PeerVerb.CLAIM, epoch, PeerReply.RELEASED, now_ms)


def noted(agent, peer, epoch, now_ms):
    return answered(agent, peer, PeerVerb.TAKEN, epoch, PeerReply.NOTED, now_ms)


def holding(epoch=12, now_ms=10_000, peers=PEERS):
    """An agent that has taken the address just now."""
    agent = holder(peers)
    up(agent, epoch, now_ms)
    for peer in sorted(peers):
        released(agent, peer, epoch, now_ms)
    agent.probe_ended(epoch, is_free=True, now_ms=now_ms)
    for peer in sorted(peers):
        noted(agent, peer, epoch, now_ms)
    assert agent.phase is Phase.HOLDING
    return agent


def test_new_master_takes_the_address_once_every_other_agent_has_released_it():
    agent = holder()
    assert up(agent, 12, 1000) == [QueryPeers(PeerVerb.CLAIM, 12, PEERS)]
    assert released(agent, SECOND, 12, 1001) == []
    assert released(agent, THIRD, 12, 1002) == [ProbeAddress(12)]
    assert agent.probe_ended(12, is_free=True, now_ms=1080) == [
        TakeAddress(12, 1000 + LEASE_MS, frozenset()),
        QueryPeers(PeerVerb.TAKEN, 12, PEERS),
    ]
    assert agent.phase is Phase.HOLDING


def test_agent_that_does_not_answer_is_sent_for_three_seconds_that_the_address_was_taken():
    agent = holder()
    up(agent, 12, 1000)
    for peer in PEERS:
        released(agent, peer, 12, 1001)
    agent.probe_ended(12, is_free=True, now_ms=1080)
    assert agent.tick(1180) == [QueryPeers(PeerVerb.TAKEN, 12, PEERS)]
    noted(agent, SECOND, 12, 1181)
    answered(agent, THIRD, PeerVerb.HELLO, 12, PeerReply.NOTED, 1182)
    for now_ms in range(1200, 1080 + REPORTED_FOR_MS, 200):
        up(agent, 12, now_ms)
        assert agent.tick(now_ms) == [QueryPeers(PeerVerb.TAKEN, 12, frozenset({THIRD}))]
    assert agent.tick(1080 + REPORTED_FOR_MS) == []


def test_agent_that_no_longer_has_the_address_reports_it_no_more():
    agent = holder()
    up(agent, 12, 1000)
    for peer in PEERS:
        released(agent, peer, 12, 1001)
    agent.probe_ended(12, is_free=True, now_ms=1080)
    down(agent, "failed", 12, 1100)
    assert agent.tick(1200) == []


def test_only_agent_of_a_set_takes_the_address_after_its_probe_and_keeps_it_without_controllers():
    agent = holder(frozenset())
    assert up(agent, 12, 1000) == [ProbeAddress(12)]
    agent.probe_ended(12, is_free=True, now_ms=1075)
    assert agent.tick(3999) == [RenewAddress(3999 + LEASE_MS)]


def test_claim_waits_for_the_lease_of_an_agent_that_does_not_answer():
    agent = holder()
    up(agent, 12, 1000)
    released(agent, SECOND, 12, 1001)
    due_ms = 1000 + LEASE_MS + CLAIM_MARGIN_MS
    for now_ms in range(1200, due_ms, 200):
        up(agent, 12, now_ms)
        assert agent.tick(now_ms) == [QueryPeers(PeerVerb.CLAIM, 12, frozenset({THIRD}))]
    assert ProbeAddress(12) in agent.tick(due_ms)
    effects = agent.probe_ended(12, is_free=True, now_ms=due_ms + 75)
    assert effects[0] == TakeAddress(12, 4400 + LEASE_MS, frozenset({THIRD}))


def test_claim_waits_for_the_longest_lease_that_any_agent_has_reported():
    agent = holder()
    agent.peer_requested(request(PeerVerb.HELLO, 0, lease_ms=8000), 500)
    up(agent, 12, 1000)
    for now_ms in range(1200, 9500, 200):
        up(agent, 12, now_ms)
        assert ProbeAddress(12) not in agent.tick(now_ms)
    up(agent, 12, 9500)
    assert ProbeAddress(12) in agent.tick(9500)


def test_claim_begins_anew_when_an_agent_refuses_it_for_the_same_epoch():
    agent = holder()
    up(agent, 12, 1000)
    for now_ms in range(1200, 3 * LEASE_MS, 200):
        up(agent, 12, now_ms)
        answered(agent, SECOND, PeerVerb.CLAIM, 12, PeerReply.REFUSED, now_ms)
        assert ProbeAddress(12) not in agent.tick(now_ms)


def test_release_no_longer_counts_once_the_same_agent_refuses():
    agent = holder()
    up(agent, 12, 1000)
    released(agent, SECOND, 12, 1001)
    answered(agent, SECOND, PeerVerb.CLAIM, 12, PeerReply.REFUSED, 1100)
    assert released(agent, THIRD, 12, 1101) == []


def test_claim_ends_without_a_confirmation_for_one_lease():
    agent = holder()
    up(agent, 12, 1000)
    assert agent.tick(1000 + LEASE_MS) == []
    assert agent.phase is Phase.STANDBY
    assert released(agent, SECOND, 12, 4001) == released(agent, THIRD, 12, 4001) == []


def test_claim_for_a_higher_epoch_needs_new_releases():
    agent = holder()
    up(agent, 12, 1000)
    released(agent, SECOND, 12, 1001)
    assert up(agent, 14, 1200) == [QueryPeers(PeerVerb.CLAIM, 14, PEERS)]
    assert released(agent, THIRD, 12, 1201) == []
    assert released(agent, THIRD, 14, 1202) == []
    assert released(agent, SECOND, 14, 1203) == [ProbeAddress(14)]


@pytest.mark.parametrize("disturb", [lambda a: down(a, "failed", 12, 1050), lambda a: up(a, 14, 1050)])
def test_address_is_not_taken_if_the_role_changed_during_the_probe(disturb):
    agent = holder()
    up(agent, 12, 1000)
    for peer in PEERS:
        released(agent, peer, 12, 1001)
    disturb(agent)
    assert agent.probe_ended(12, is_free=True, now_ms=1080) == []
    assert agent.phase is not Phase.HOLDING


def test_address_that_another_host_has_is_not_taken_and_probed_again():
    agent = holder()
    up(agent, 12, 1000)
    for peer in PEERS:
        released(agent, peer, 12, 1001)
    assert agent.probe_ended(12, is_free=False, now_ms=1080) == []
    assert agent.tick(1100) == [ProbeAddress(12)]
    assert agent.tick(1150) == [], "one probe at a time"


def test_address_is_not_taken_for_less_than_a_second():
    agent = holder()
    up(agent, 12, 3000, sent_ms=1000)
    for peer in PEERS:
        released(agent, peer, 12, 3001)
    assert agent.probe_ended(12, is_free=True, now_ms=3080) == []
    assert agent.phase is Phase.CLAIMING


def test_lease_counts_from_the_moment_at_which_the_query_left():
    agent = holding(now_ms=10_000)
    assert up(agent, 12, 10_900, sent_ms=10_400) == [RenewAddress(10_400 + LEASE_MS)]
    assert agent.tick(10_400 + LEASE_MS) == [ReleaseAddress(ReleaseCause.LEASE_LAPSED, 12)]


def test_answer_older_than_a_lease_confirms_nothing():
    agent = holder()
    assert up(agent, 12, 5000, sent_ms=5000 - LEASE_MS) == []
    assert agent.phase is Phase.STANDBY


@pytest.mark.parametrize("why", ["failed", "held"])
def test_failed_or_held_broker_loses_the_address_and_keeps_its_sessions(why):
    agent = holding()
    assert down(agent, why, 12, 10_100) == [ReleaseAddress(ReleaseCause.DOWN, 12)]
    assert down(agent, why, 12, 10_300) == []


def test_superseded_broker_loses_address_and_sessions_once():
    agent = holding()
    assert down(agent, "superseded", 13, 10_100) == [ReleaseAddress(ReleaseCause.SUPERSEDED, 13), EndSessions(13)]
    assert down(agent, "superseded", 13, 10_300) == []


def test_sessions_end_when_a_failed_broker_is_superseded_later():
    agent = holding()
    down(agent, "failed", 12, 10_100)
    assert down(agent, "superseded", 13, 10_300) == [EndSessions(13)]


def test_broker_that_serves_again_without_an_election_claims_anew():
    agent = holding()
    down(agent, "held", 12, 10_100)
    assert up(agent, 12, 10_300) == [QueryPeers(PeerVerb.CLAIM, 12, PEERS)]


def test_answer_that_left_before_the_broker_was_down_is_not_followed():
    agent = holding()
    down(agent, "failed", 12, 10_100)
    assert up(agent, 12, 10_150, sent_ms=10_090) == []
    assert agent.phase is Phase.STANDBY


@pytest.mark.parametrize("line", ["up ready #epoch 11", "down #superseded epoch 11", "down #failed epoch 11"])
def test_lower_epoch_is_never_followed(line):
    agent = holding(epoch=12)
    assert agent.controller_answered(role_line(line), 10_100, 10_100) == []
    assert agent.phase is Phase.HOLDING


@pytest.mark.parametrize("line", ["#unknown this controller does not lead", "", "up ready", "down #failed", "nonsense"])
def test_doubt_changes_nothing(line):
    agent = holding()
    assert agent.controller_answered(role_line(line), 10_100, 10_100) == []
    assert (agent.phase, agent.lease_until_ms) == (Phase.HOLDING, 10_000 + LEASE_MS)


def test_holder_queries_the_other_agents_after_a_third_of_its_lease_without_a_controller():
    agent = holding(now_ms=10_000)
    assert agent.tick(10_000 + LEASE_MS // 3 - 1) == []
    assert agent.tick(10_000 + LEASE_MS // 3) == [QueryPeers(PeerVerb.KEEP, 12, PEERS)]


def test_holder_keeps_the_address_while_every_other_agent_grants_it():
    agent = holding(now_ms=10_000)
    for sent_ms in range(11_000, 300_000, 1000):
        assert answered(agent, SECOND, PeerVerb.KEEP, 12, PeerReply.GRANTED, sent_ms + 1, sent_ms=sent_ms) == (
            [] if sent_ms == 11_000 else [RenewAddress(sent_ms - 1000 + LEASE_MS)]
        )
        assert answered(agent, THIRD, PeerVerb.KEEP, 12, PeerReply.GRANTED, sent_ms + 2, sent_ms=sent_ms) == [
            RenewAddress(sent_ms + LEASE_MS)
        ]
    assert agent.phase is Phase.HOLDING


def test_holder_releases_the_address_when_one_agent_does_not_grant_it():
    agent = holding(now_ms=10_000)
    for now_ms in range(11_000, 13_000, 200):
        assert answered(agent, SECOND, PeerVerb.KEEP, 12, PeerReply.GRANTED, now_ms) == []
    assert agent.tick(10_000 + LEASE_MS) == [ReleaseAddress(ReleaseCause.LEASE_LAPSED, 12)]


def test_grants_for_a_former_epoch_confirm_nothing():
    agent = holding(now_ms=10_000)
    answered(agent, SECOND, PeerVerb.KEEP, 12, PeerReply.GRANTED, 11_000)
    up(agent, 14, 11_100)
    assert answered(agent, THIRD, PeerVerb.KEEP, 14, PeerReply.GRANTED, 12_000) == []
    assert answered(agent, SECOND, PeerVerb.KEEP, 12, PeerReply.GRANTED, 12_000) == []


def test_grant_that_arrives_too_late_confirms_nothing():
    agent = holding(now_ms=10_000)
    answered(agent, SECOND, PeerVerb.KEEP, 12, PeerReply.GRANTED, 10_000, sent_ms=9000)
    up(agent, 12, 11_500)
    assert answered(agent, THIRD, PeerVerb.KEEP, 12, PeerReply.GRANTED, 12_000, sent_ms=9000) == []


def test_agent_in_standby_grants_the_known_epoch_and_no_lower_one():
    agent = holder()
    answer, effects = agent.peer_requested(request(PeerVerb.KEEP, 12), 1000)
    assert (answer.reply, answer.epoch, effects) == (PeerReply.GRANTED, 12, [])
    answer, _ = agent.peer_requested(request(PeerVerb.KEEP, 11), 1001)
    assert (answer.reply, answer.epoch) == (PeerReply.REFUSED, 12)


def test_agent_that_claims_a_higher_epoch_grants_none_even_after_its_claim_has_ended():
    agent = holder()
    up(agent, 13, 1000)
    assert agent.peer_requested(request(PeerVerb.KEEP, 12), 1001)[0].reply is PeerReply.REFUSED
    agent.tick(1000 + LEASE_MS)
    assert agent.phase is Phase.STANDBY
    assert agent.peer_requested(request(PeerVerb.KEEP, 12), 5000)[0].reply is PeerReply.REFUSED


def test_refusal_with_a_higher_epoch_releases_the_address_and_ends_its_sessions():
    agent = holding(epoch=12)
    effects = answered(agent, SECOND, PeerVerb.KEEP, 12, PeerReply.REFUSED, 11_000, peer_epoch=13)
    assert effects == [ReleaseAddress(ReleaseCause.CLAIMED, 13), EndSessions(13)]


def test_claim_of_a_higher_epoch_releases_the_address_before_it_is_answered():
    agent = holding(epoch=12)
    answer, effects = agent.peer_requested(request(PeerVerb.CLAIM, 13), 10_100)
    assert effects == [ReleaseAddress(ReleaseCause.CLAIMED, 13), EndSessions(13)]
    assert (answer.reply, answer.epoch) == (PeerReply.RELEASED, 13)
    assert agent.peer_requested(request(PeerVerb.CLAIM, 13), 10_300)[1] == []


@pytest.mark.parametrize("epoch", [11, 12])
def test_claim_of_no_higher_epoch_is_refused_by_who_has_the_address(epoch):
    agent = holding(epoch=12)
    answer, effects = agent.peer_requested(request(PeerVerb.CLAIM, epoch), 10_100)
    assert (answer.reply, answer.epoch, effects) == (PeerReply.REFUSED, 12, [])
    assert agent.phase is Phase.HOLDING


def test_agent_that_has_released_the_address_for_an_epoch_does_not_take_it_for_a_lower_one():
    agent = holding(epoch=12)
    agent.peer_requested(request(PeerVerb.CLAIM, 13), 10_100)
    assert up(agent, 12, 10_300) == []
    assert agent.phase is Phase.STANDBY


def test_clients_are_notified_when_another_host_has_taken_the_address():
    agent = holding(epoch=12)
    agent.peer_requested(request(PeerVerb.CLAIM, 13), 10_100)
    answer, effects = agent.peer_requested(request(PeerVerb.TAKEN, 13), 10_200)
    assert (answer.reply, effects) == (PeerReply.NOTED, [NotifyClients()])


def test_report_of_a_lower_epoch_that_the_address_was_taken_changes_nothing():
    agent = holding(epoch=12)
    assert agent.peer_requested(request(PeerVerb.TAKEN, 11), 10_200)[1] == []
    assert agent.phase is Phase.HOLDING


@pytest.mark.parametrize("act", ["tick", "controller", "request", "answer", "probe"])
def test_agent_that_was_paused_releases_the_address_before_anything_else(act):
    agent = holding(epoch=12, now_ms=10_000)
    late_ms = 10_000 + 2 * LEASE_MS
    effects = {
        "tick": lambda: agent.tick(late_ms),
        "controller": lambda: up(agent, 12, late_ms, sent_ms=10_200),
        "request": lambda: agent.peer_requested(request(PeerVerb.HELLO, 0), late_ms)[1],
        "answer": lambda: answered(agent, SECOND, PeerVerb.KEEP, 12, PeerReply.GRANTED, late_ms, sent_ms=10_200),
        "probe": lambda: agent.probe_ended(12, is_free=True, now_ms=late_ms),
    }[act]()
    assert effects == [ReleaseAddress(ReleaseCause.LEASE_LAPSED, 12)]


def test_restarted_agent_keeps_an_address_that_is_still_there_once_a_controller_confirms_it():
    agent = holder(present_until_ms=12_000)
    assert agent.tick(11_500) == [], "it does not know for which epoch it has the address"
    assert up(agent, 12, 11_600) == [RenewAddress(11_600 + LEASE_MS)]
    assert agent.phase is Phase.HOLDING


def test_restarted_agent_releases_an_address_that_nobody_confirms():
    agent = holder(present_until_ms=12_000)
    assert agent.tick(12_000) == [ReleaseAddress(ReleaseCause.LEASE_LAPSED, 0)]


def test_restarted_agent_with_the_address_grants_it_to_nobody():
    agent = holder(present_until_ms=12_000)
    assert agent.peer_requested(request(PeerVerb.KEEP, 0), 11_000)[0].reply is PeerReply.REFUSED
    assert agent.peer_requested(request(PeerVerb.CLAIM, 13), 11_100)[1] == [
        ReleaseAddress(ReleaseCause.CLAIMED, 13),
        EndSessions(13),
    ]


def test_answer_to_hello_moves_no_address():
    agent = holder(present_until_ms=12_000)
    assert answered(agent, SECOND, PeerVerb.HELLO, 0, PeerReply.NOTED, 11_000, peer_epoch=12) == []
    assert agent.phase is Phase.HOLDING


def test_stop_releases_the_address():
    assert holding().stop() == [ReleaseAddress(ReleaseCause.STOPPED, 12)]
    assert holder().stop() == []
