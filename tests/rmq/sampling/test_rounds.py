"""A round asks everybody once over real connections, a few requests at a time, and goes on without who fails."""

import re

import pytest
from fakes.answering_peer import NOTHING, peers, refusal, success
from peers.processes import free_port
from sampling_site import Topics, a_route

from remoting.client import RemotingClient
from remoting.clock import SystemClock
from remoting.protocol.codes import BrokerRequestCode
from rmq.sampling import service
from rmq.sampling.samples import GroupProgress, Subject
from rmq.sampling.service import REQUESTS_MAX, Round

MANY = [f"t{number}" for number in range(3 * REQUESTS_MAX)]


@pytest.fixture
async def take_round():
    """Return a function that takes a round."""
    client = RemotingClient(SystemClock())

    async def take(name_servers, topics):
        addresses = [each if isinstance(each, str) else each.address for each in name_servers]
        return await Round(client, addresses, SystemClock()).run(topics)

    yield take
    await client.close()


def routed_to(*brokers):
    """Return how a NameServer answers whose topics are all on these brokers; None is a set without master."""
    return lambda _, __: a_route(**{f"b{n}": each and each.address for n, each in enumerate(brokers)})


async def test_round_returns_ends_groups_and_members_of_all_sets(take_round):
    first = Topics({"t": 10}, groups={"g": {"t": 4}}, members={"g": ["x", "y"]})
    async with peers(first, Topics({"t": 7})) as (one, two), peers(routed_to(one, two, None)) as (namesrv,):
        sampled = await take_round([namesrv], ["t"])
    ends = {each.master.broker_name: (each.end, dict(each.progress)) for each in sampled.answers["t"]}
    assert ends == {"b0": (10, {"g": GroupProgress(10, 4)}), "b1": (7, {}), "b2": (None, {})}
    assert {there: {each.client_id for each in found.clients} for there, found in sampled.members.items()} == {
        (one.address, "g"): {"x", "y"}
    }
    assert sampled.failed == {}
    assert sampled.answered >= {Subject("broker", one.address), Subject("broker", two.address)}


async def test_topic_counts_as_answered_when_all_sets_answered(take_round):
    gone = f"127.0.0.1:{free_port()}"

    def route(_, fields):
        more = {"all": {}, "leaderless": {"c": None}, "broken": {"c": gone}}
        return a_route(b=broker.address, **more[fields["topic"]])

    topics = ["all", "leaderless", "broken"]
    async with peers(Topics(dict.fromkeys(topics, 1))) as (broker,), peers(route) as (namesrv,):
        sampled = await take_round([namesrv], topics)
    assert {each.name for each in sampled.answered if each.kind == "topic"} == {"all"}
    assert set(sampled.failed) == {Subject("broker", gone)}


async def test_topic_whose_broker_fails_after_its_end_counts_as_failed(take_round, monkeypatch):
    monkeypatch.setattr(service, "TIMEOUT_MS", 200)
    works = Topics({"t": 5})

    def breaks(code, fields):
        return NOTHING if code == BrokerRequestCode.QUERY_TOPIC_CONSUME_BY_WHO else works(code, fields)

    async with peers(breaks) as (broker,), peers(routed_to(broker)) as (namesrv,):
        sampled = await take_round([namesrv], ["t"])
    assert [each.end for each in sampled.answers["t"]] == [5]
    assert Subject("topic", "t") not in sampled.answered


async def test_refused_members_fail_all_topics_of_the_group(take_round):
    works = Topics({"t": 1, "u": 1, "v": 1}, groups={"g": {"t": 1, "u": 1}})

    def refuses(code, fields):
        return refusal(1) if code == BrokerRequestCode.GET_CONSUMER_CONNECTION_LIST else works(code, fields)

    async with peers(refuses) as (broker,), peers(routed_to(broker)) as (namesrv,):
        sampled = await take_round([namesrv], ["t", "u", "v"])
    assert set(sampled.failed) == {Subject("topic", "t"), Subject("topic", "u")}


async def test_members_of_a_group_are_requested_once_for_all_its_topics(take_round):
    topics = Topics({"t": 1, "u": 1}, groups={"g": {"t": 1, "u": 1}}, members={"g": ["x"]})
    async with peers(topics) as (broker,), peers(routed_to(broker)) as (namesrv,):
        await take_round([namesrv], ["t", "u"])
        assert broker.count(BrokerRequestCode.GET_CONSUMER_CONNECTION_LIST) == 1


async def test_round_has_at_most_eight_requests_in_flight(take_round):
    async with peers(Topics(dict.fromkeys(MANY, 1))) as (broker,), peers(routed_to(broker)) as (namesrv,):
        # Long enough for all requests that are sent together to be here.
        broker.pause_s = namesrv.pause_s = 0.02
        sampled = await take_round([namesrv], MANY)
    assert len(sampled.answers) == len(MANY)
    assert max(broker.under_way_most, namesrv.under_way_most) == REQUESTS_MAX


async def test_hanging_broker_costs_the_others_one_timeout(take_round, monkeypatch):
    monkeypatch.setattr(service, "TIMEOUT_MS", 2000)
    works = Topics(dict.fromkeys(MANY, 5))
    async with (
        peers(works, lambda _, __: NOTHING) as (broker, hanging),
        peers(routed_to(broker, hanging)) as (namesrv,),
    ):
        sampled = await take_round([namesrv], MANY)
    assert all([each.end for each in sampled.answers[topic]] == [5, None] for topic in MANY)
    assert list(sampled.failed) == [Subject("broker", hanging.address)]
    assert "no answer within" in sampled.failed[Subject("broker", hanging.address)]
    assert len(hanging.received) <= REQUESTS_MAX


async def test_failed_or_ignorant_name_server_is_skipped(take_round):
    gone = f"127.0.0.1:{free_port()}"
    async with (
        peers(Topics({"t": 5})) as (broker,),
        peers(lambda _, __: refusal(17), routed_to(broker)) as (new, knowing),
    ):
        sampled = await take_round([gone, new, knowing], ["t"])
    assert [each.end for each in sampled.answers["t"]] == [5]
    assert list(sampled.failed) == [Subject("namesrv", gone)]


async def test_unknown_topic_fails_and_the_others_are_sampled(take_round):
    def route(_, fields):
        return refusal(17) if fields["topic"] == "nope" else a_route(b=broker.address)

    async with peers(Topics({"t": 5})) as (broker,), peers(route) as (namesrv,):
        sampled = await take_round([namesrv], ["nope", "t"])
    assert list(sampled.answers) == ["t"]
    assert sampled.failed == {Subject("topic", "nope"): f"{namesrv.address} answered code 17: no"}


async def test_unreachable_name_servers_are_reported_instead_of_every_topic(take_round):
    gone = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    sampled = await take_round(gone, MANY)
    assert sampled.answers == {}
    assert set(sampled.failed) == {Subject("namesrv", each) for each in gone}


@pytest.mark.parametrize(
    ("answer", "why"), [(refusal(1), "code 1: no"), (success(b"{["), "not readable|malformed|invalid|object")]
)
async def test_invalid_response_fails_the_topic_not_the_broker(take_round, answer, why):
    works = Topics({"t": 5, "u": 6})

    def broker_answers(code, fields):
        return (
            answer
            if (code, fields.get("topic")) == (BrokerRequestCode.GET_TOPIC_STATS_INFO, "t")
            else works(code, fields)
        )

    async with peers(broker_answers) as (broker,), peers(routed_to(broker)) as (namesrv,):
        sampled = await take_round([namesrv], ["t", "u"])
    assert [each.end for topic in "tu" for each in sampled.answers[topic]] == [None, 6]
    (subject,) = sampled.failed
    assert subject == Subject("topic", "t")
    assert f"{broker.address} answered request 202 with " in sampled.failed[subject]
    assert re.search(why, sampled.failed[subject], re.IGNORECASE)
