"""The text of GET_BROKER_CLUSTER_INFO (106): all broker sets, and which of them each cluster lists.

Every 5.x broker queries it each 5 s, and any change of a set makes another text of it. So each set is encoded once,
when it changes, and the texts of all are put together on request: in slices where they are many. Answers to
`RouteInfoManager.getBrokerClusterInfo`.
"""

from collections.abc import Container, Iterable
from typing import Final

from namesrv.core import fitting, routes
from namesrv.core.tables.broker_table import BrokerTable, RegisteredSet, additions
from namesrv.core.values.cooperative import BATCH_TOPICS, CooperativeTask, in_batches
from remoting.protocol.fastjson import Dialect, encode

#: Up to so many sets are encoded at once: some milliseconds.
AT_ONCE_MAX: Final = BATCH_TOPICS
#: A longer text of all sets and clusters, in bytes, is cut to what fits of each host: Java's peers close the connection
#: at frames of more than 16 MiB, and what `cluster_gaps` lists has 1.5 MiB.
TEXT_BYTES_MAX: Final = 14 * 1024 * 1024


class ClusterInfoText:
    """Broker name -> what peers receive of the set, in the table's order; and the text of all that was made last."""

    def __init__(self, brokers: BrokerTable) -> None:
        self._brokers = brokers
        self._sets: dict[str, bytes] = {}
        #: Of all sets, and of each where clusters list them.
        self._text_bytes = 0
        self._listed_bytes: dict[str, int] = {}
        #: How many changes of sets there were, and how many of them the last text knows.
        self.changes = 0
        self._made_at = -1
        self._made = b""
        self.builds = 0

    @property
    def is_long(self) -> bool:
        """Whether a text has to be made, of so many sets that it is made in slices."""
        return len(self._sets) > AT_ONCE_MAX and self._made_at < self.changes

    def put(self, broker_set: RegisteredSet) -> None:
        """Follow a set that has changed; one without members is gone."""
        self.changes += 1
        name = broker_set.broker_name
        self._text_bytes -= len(self._sets.pop(name, b"")) + self._listed_bytes.pop(name, 0)
        if not broker_set.members:
            return
        self._sets[name] = text = _set_text(broker_set)
        clusters = {member.cluster for member in broker_set.members.values()}
        # Of four bytes each, at most.
        self._listed_bytes[name] = listed = sum(4 * (len(cluster) + len(name)) + 6 for cluster in clusters)
        self._text_bytes += len(text) + listed

    def since(self, changes: int) -> CooperativeTask[bytes]:
        """Return a text that knows at least so many changes: the last one, or else one of all when it begins.

        So one text is enough for all who wait.
        """
        if self._made_at < changes:
            yield from self._build_text()
        return self._made

    def _build_text(self) -> CooperativeTask[None]:
        # A copy: sets come and go while others are served in between.
        made_at, sets = self.changes, self._sets.copy()
        if self._text_bytes > TEXT_BYTES_MAX:
            sets = yield from self._fitting_texts()
        brokers = yield from _joined(sets.values())
        # Java looks at the clusters later than at the sets, too; but here they list no set that is left out.
        clusters = []
        for cluster in list(self._brokers.clusters()):
            names = yield from _names(self._brokers.names_in(cluster), sets)
            if names:
                clusters.append(b"%b:[%b]" % (_text(cluster), names))
        tables = b'{"brokerAddrTable":{', *brokers, b'},"clusterAddrTable":{', *(yield from _joined(clusters)), b"}}"
        self._made = b"".join(tables)
        self._made_at = made_at
        self.builds += 1

    def _fitting_texts(self) -> CooperativeTask[dict[str, bytes]]:
        """Return the texts of the sets that fit, with those of their members that do."""
        texts: dict[str, bytes] = {}
        for part in in_batches((yield from fitting.fitting(list(self._brokers.sets()), additions))):
            texts |= {each.broker_name: _set_text(each) for each in part}
            yield
        return texts


def _set_text(broker_set: RegisteredSet) -> bytes:
    data = encode(routes.broker_data(broker_set), Dialect.BARE_INTEGER_KEYS)
    return b"%b:%b" % (_text(broker_set.broker_name), data)


def _joined(texts: Iterable[bytes]) -> CooperativeTask[list[bytes]]:
    """Return a few long texts that are all these with commas in between."""
    joined: list[bytes] = []
    for part in in_batches(texts):
        joined += (b",", b",".join(part))
        yield
    # The first comma has nothing before it.
    return joined[1:]


def _names(names: Iterable[str], listed: Container[str]) -> CooperativeTask[bytes]:
    """Return those names that are listed, without the brackets of a list."""
    texts = []
    for part in in_batches(names):
        if some := [name for name in part if name in listed]:
            texts.append(_text(some)[1:-1])
        yield
    return b",".join(texts)


def _text(value: object) -> bytes:
    return encode(value, Dialect.STANDARD)
