"""A valid offset, key and change for tests of the offset manager; each argument is optional."""

from hypothesis import strategies as st

from controller.offsets.commits.changes import OffsetChange
from controller.offsets.values import GroupTopic, OffsetSource, QueueKey, StoredOffset

NOW_UNIX_MS = 1_800_000_000_000


def row_name(group="payments", topic="orders", broker_name="broker-a", *, cluster="DefaultCluster", namespace=""):
    return GroupTopic(cluster, namespace, group, topic, broker_name)


def queue_key(queue_id=0, group="payments", **more):
    return QueueKey(row_name(group, **more), queue_id)


def an_offset(offset=100, epoch=0, *, source=OffsetSource.CLIENT, writer="10.0.0.1@7", token=0, unix_ms=NOW_UNIX_MS):
    return StoredOffset(offset, epoch, source, writer, token, unix_ms)


def a_commit(offset=100, queue_id=0, group="payments", *, before=None, epoch=0, **more):
    return OffsetChange(queue_key(queue_id, group), before, an_offset(offset, epoch, **more))


def a_deletion(before, queue_id=0, group="payments"):
    return OffsetChange(queue_key(queue_id, group), before, None)


#: Names as they come: with slashes, percent signs, blanks, other scripts; nothing that UTF-8 cannot encode.
names = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.sampled_from(
    ["", "/", "%", "..", "a/b", "a%2Fb", "%RETRY%payments", "订单", "{", '"', ",", "@", "a@b@c", "\0", "~", " "]
)
row_names = st.builds(GroupTopic, names, names, names, names, names)
longs = st.integers(0, 2**63 - 1)
offsets = st.builds(StoredOffset, longs, longs, st.sampled_from(OffsetSource), names, longs, longs)
