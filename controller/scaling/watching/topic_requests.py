"""What requests something of NameServers and brokers for the autoscaler, with limits of its own.

Requests that clients answer have turns of their own: a client that hangs holds up no offsets.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from controller.scaling.execution.client_queries import ClientQueries
from controller.scaling.execution.group_kinds import GroupKinds
from controller.scaling.execution.group_views import GroupObserver
from controller.scaling.execution.observer import ElectedMasters, TopicObserver
from controller.scaling.watching.failed_peers import FailedPeers
from controller.scaling.watching.policy_topics import PolicyTopics
from controller.scaling.watching.slot_readings import SlotReadings
from controller.scaling.watching.topic_facts import TopicFactsObserver
from remoting.admin.client import AdminClient, AdminLimits
from remoting.client import Requester
from remoting.clock import Clock

_REQUESTS: Final = AdminLimits(timeout_ms=3_000, requests_max=32, requests_per_peer_max=8)
_REQUESTS_OF_GROUPS: Final = AdminLimits(timeout_ms=3_000, requests_max=16, requests_per_peer_max=4)


class TopicRequests(NamedTuple):
    """What finds topics, what changes rarely about them, and where they are now."""

    names: PolicyTopics
    facts: TopicFactsObserver
    readings: SlotReadings

    @classmethod
    def over(
        cls,
        client: Requester,
        clock: Clock,
        name_servers: Callable[[], tuple[str, ...]],
        masters: ElectedMasters,
        kinds: GroupKinds,
    ) -> "TopicRequests":
        """Return what sends its requests by a client."""
        peers = FailedPeers(client, clock)
        admin = AdminClient(peers, _REQUESTS)
        of_groups = AdminClient(peers, _REQUESTS_OF_GROUPS)
        clients = ClientQueries(of_groups, clock)
        groups = GroupObserver(of_groups, clients, kinds)
        topics = TopicObserver(admin, name_servers, masters, clients, kinds, clock)
        return cls(
            names=PolicyTopics(admin, name_servers, clock.now_ms),
            facts=TopicFactsObserver(admin, topics, groups, clock.now_ms),
            readings=SlotReadings(admin, clock),
        )
