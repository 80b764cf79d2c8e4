"""Which groups are the brokers' own, or of tools. Pure. Source: Java's `MixAll` and `SubscriptionGroupManager`."""

from typing import Final

from remoting.protocol.shapes.broker_clients import SYSTEM_GROUP_PREFIX, TOOL_GROUP

#: Groups that brokers create at their start, and that their tools use.
SYSTEM_GROUPS: Final = frozenset(
    {
        TOOL_GROUP,
        "DEFAULT_CONSUMER",
        "SCHEDULE_CONSUMER",
        "FILTERSRV_CONSUMER",
        "__MONITOR_CONSUMER",
        "SELF_TEST_C_GROUP",
        "CID_ONS-HTTP-PROXY",
        "CID_ONSAPI_PERMISSION",
        "CID_ONSAPI_OWNER",
        "CID_ONSAPI_PULL",
    }
)


def is_system_group(group: str) -> bool:
    """Return whether a group is no application's."""
    return group in SYSTEM_GROUPS or group.startswith(SYSTEM_GROUP_PREFIX)


def is_of_brokers(group: str) -> bool:
    """Return whether a group of these belongs to brokers or administrators: nobody waits for its messages."""
    return group == TOOL_GROUP or group.startswith(SYSTEM_GROUP_PREFIX)
