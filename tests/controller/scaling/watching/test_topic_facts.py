"""How a group consumes, as the autoscaler takes it from what its clients answered."""

from controller.scaling.resize.observation import ClientView, GroupKind, GroupView
from controller.scaling.watching.topic_requests import group_facts


def a_view(kind, *answered):
    clients = tuple(ClientView(client_id=f"client-{i}", queues={} if each else None) for i, each in enumerate(answered))
    return GroupView(name="billing", kind=kind, clients=clients)


def test_group_of_which_one_client_does_not_tell_how_it_consumes_stays_unknown():
    facts = group_facts(a_view(GroupKind.UNKNOWN, True, False), None)
    assert (facts.kind, facts.holders) == (None, None)
    known = group_facts(a_view(GroupKind.ORDERLY, True, True), None)
    assert known.kind is GroupKind.ORDERLY
    assert group_facts(a_view(GroupKind.UNKNOWN, True, False), known).kind is GroupKind.ORDERLY


def test_group_that_goes_offline_keeps_its_kind_though_no_store_tells_it():
    known = group_facts(a_view(GroupKind.ORDERLY, True), None)
    assert group_facts(a_view(GroupKind.OFFLINE), known).kind is GroupKind.ORDERLY
    assert group_facts(a_view(GroupKind.OFFLINE), None).kind is GroupKind.CONCURRENT
