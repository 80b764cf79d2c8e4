"""Answers to who leads a set that stand ready: they end with what they tell."""

from controller_builders import SET, a_set
from fakes.in_process_controller import APeer

from controller.wire.handlers import ReplicaInfoCache
from remoting.protocol.codes import RequestCode
from remoting.protocol.command import RemotingCommand
from remoting.server.response_cache import PreparedResponse

PEER = APeer(1)
QUERY = RemotingCommand(RequestCode.CONTROLLER_GET_REPLICA_INFO, ext_fields={"brokerName": SET})


def test_response_of_a_set_is_cached_until_the_set_changes():
    infos = ReplicaInfoCache()
    answer = infos.of(a_set())
    assert infos.of(a_set()) is answer
    infos.discard("another")
    assert answer.is_valid
    infos.discard(SET)
    assert not answer.is_valid
    assert infos.of(a_set()).is_valid


def test_all_cached_responses_end_with_a_change_of_the_leader():
    infos = ReplicaInfoCache()
    answers = [infos.of(a_set(broker_name=name)) for name in ("a", "b")]
    infos.clear()
    assert not any(answer.is_valid for answer in answers)


async def test_election_ends_the_cached_response_at_once(controller):
    await controller.a_set(1, 2)
    before = controller.handlers.dispatch(QUERY, PEER)
    assert isinstance(before, PreparedResponse)
    await controller.elect(2, designate=True)
    assert not before.is_valid
    after = controller.handlers.dispatch(QUERY, PEER)
    assert after.ext_fields["masterBrokerId"] == "2"
