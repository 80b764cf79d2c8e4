"""Proposals that wait for an operator: approved, dismissed, replaced, expired."""

import pytest
from fakes.scaled_topic import TOPIC
from fakes.watched_site import LOOKS_UNTIL_DECIDED, watched_site

from controller.scaling.autoscaler.decision import ScalingVerdict
from controller.scaling.autoscaler.policies import PolicyMode
from controller.scaling.watching.decisions import DISMISSED_MS, UNCONFIRMED_MS, WAIT_MS, Proposals, ProposalUnknown
from remoting.protocol.codes import BrokerRequestCode, ResponseCode

NOW_MS = 1_800_000_000_000


def a_verdict(unix_ms=NOW_MS, before=4, target=8):
    return ScalingVerdict(
        topic=TOPIC, unix_ms=unix_ms, mode=PolicyMode.APPROVE, before=before, target=target, reason="needed"
    )


# The table


def test_confirmed_proposal_keeps_its_id():
    proposals = Proposals()
    first = proposals.propose(a_verdict())
    again = proposals.propose(a_verdict(NOW_MS + 15_000))
    assert again.id == first.id
    assert again.expires_unix_ms == NOW_MS + 15_000 + UNCONFIRMED_MS


def test_other_target_is_another_proposal():
    proposals = Proposals()
    first = proposals.propose(a_verdict())
    second = proposals.propose(a_verdict(NOW_MS + 15_000, target=16))
    assert [each.id for each in proposals.waiting(NOW_MS + 15_000)] == [second.id]
    with pytest.raises(ProposalUnknown, match="may have expired, or been replaced"):
        proposals.find(first.id, NOW_MS + 15_000)


def test_proposal_ends_that_no_verdict_confirms():
    proposals = Proposals()
    proposals.propose(a_verdict())
    assert proposals.waiting(NOW_MS + UNCONFIRMED_MS - 1)
    assert not proposals.waiting(NOW_MS + UNCONFIRMED_MS)


def test_proposal_ends_after_a_day_however_often_it_is_confirmed():
    proposals = Proposals()
    first = proposals.propose(a_verdict())
    for after_ms in range(60_000, WAIT_MS + 60_000, 60_000):
        proposals.propose(a_verdict(NOW_MS + after_ms))
    assert proposals.waiting(NOW_MS + WAIT_MS + 60_000)[0].id != first.id


def test_proposal_of_a_clock_that_was_set_back_ends():
    proposals = Proposals()
    proposals.propose(a_verdict(NOW_MS + 86_400_000))
    assert not proposals.waiting(NOW_MS)


def test_dismissed_count_is_not_proposed_for_a_day():
    proposals = Proposals()
    first = proposals.propose(a_verdict())
    proposals.dismiss(first.id, NOW_MS)
    assert proposals.propose(a_verdict(NOW_MS + DISMISSED_MS - 1)) is None
    assert proposals.propose(a_verdict(NOW_MS + 1, target=16)) is not None
    assert proposals.propose(a_verdict(NOW_MS + DISMISSED_MS)) is not None


# Over HTTP


@pytest.fixture
async def site(tmp_path):
    async with watched_site(tmp_path) as site:
        await site.put(site.mode("approve"))
        await site.look(LOOKS_UNTIL_DECIDED)
        yield site


async def proposals(site):
    status, body = await site.request("GET", "proposals")
    assert status == 200
    return body["proposals"]


async def test_approved_proposal_starts_its_resize(site):
    (proposal,) = await proposals(site)
    assert (proposal["topic"], proposal["before"], proposal["target"]) == (TOPIC, 4, 8)
    assert not site.operations()
    status, body = await site.request("POST", f"proposals/{proposal['id']}/approve", {"reason": "sale at noon"})
    assert status == 201
    (operation,) = site.operations()
    assert (body["id"], body["requestedBy"]) == (operation.id, "autoscaler, approved by an operator")
    assert body["reason"].endswith("approved: sale at noon")
    assert await proposals(site) == []
    assert site.outcome() == "resized"
    assert site.events("scaling_proposal_approved")[0]["audit"] is True
    assert len(site.events("scaling_resize_requested")) == 1


async def test_refused_approval_says_why_and_goes_on_waiting(site):
    (proposal,) = await proposals(site)
    site.broker.instead[BrokerRequestCode.GET_TIMER_METRICS] = ResponseCode.INVALID_PARAMETER
    status, body = await site.request("POST", f"proposals/{proposal['id']}/approve", {})
    assert status == 422
    assert "imed messages at" in body["error"]["message"]
    assert [each["id"] for each in await proposals(site)] == [proposal["id"]]
    assert len(site.events("scaling_resize_refused")) == 1


async def test_dismissed_proposal_does_not_come_back(site):
    (proposal,) = await proposals(site)
    status, body = await site.request("POST", f"proposals/{proposal['id']}/dismiss", {"reason": "not today"})
    assert (status, body["id"]) == (200, proposal["id"])
    await site.look(2)
    assert await proposals(site) == []
    assert site.outcome() == "proposed"
    assert site.events("scaling_proposal_dismissed")[0]["reason"] == "not today"
    assert not site.operations()


async def test_proposal_that_is_not_needed_any_more_expires(site):
    assert await proposals(site)
    await site.look(12, written=0, consumed=0)
    assert await proposals(site) == []


async def test_proposal_for_a_count_that_changed_is_withdrawn(site):
    assert await proposals(site)
    site.broker.topic |= {"readQueueNums": 8, "writeQueueNums": 8}
    site.clock.pass_ms(120_000)
    await site.look()
    assert await proposals(site) == []


@pytest.mark.parametrize("command", ["approve", "dismiss"])
async def test_unknown_proposal_is_not_found(site, command):
    status, body = await site.request("POST", f"proposals/nope/{command}", {})
    assert (status, body["error"]["message"][:30]) == (404, "there is no proposal nope: it ")


async def test_decisions_have_findings_numbers_and_changes(site):
    status, body = await site.request("GET", "decisions?prefix=Topic")
    assert status == 200
    (decision,) = body["decisions"]
    assert (decision["outcome"], decision["queues"], decision["target"], decision["sets"]) == ("proposed", 4, 8, 1)
    assert (decision["clients"], decision["putTps"], decision["lag"]) == (8, 800.0, 24_000)
    assert decision["proposalId"]
    (finding,) = decision["findings"]
    assert (finding["kind"], finding["subject"], finding["effect"]) == ("clients_without_queue", "g1", "queues help")
    assert finding["numbers"]["clients_without_queue"] == 4
    assert [each["outcome"] for each in body["changes"]] == ["proposed", "kept", "kept"]
    assert (await site.request("GET", "decisions?prefix=Other"))[1]["decisions"] == []
