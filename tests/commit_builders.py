"""Builders of committed offsets: each value has a default, and a test names what it is about."""

from offsets.commits.rules import Entry, Writer
from offsets.commits.stored import Change, RowName, Source, StoredOffset
from offsets.commits.table import OffsetTable

CLUSTER = "DefaultCluster"
#: A day whose resets have epochs that a person can read.
UNIX_MS = 1_800_000_000_000


def a_row(group="billing", topic="orders", broker="broker-a", *, namespace="", cluster=CLUSTER):
    return RowName(cluster, namespace, group, topic, broker)


def a_value(offset, *, epoch=0, writer="client-1", unix_ms=UNIX_MS, source=Source.CLIENT):
    return StoredOffset(offset, epoch, source, writer, unix_ms)


def an_offset(offset, queue=0, *, epoch=0, row=None):
    """Return an entry of a commit or a reset."""
    return Entry(row or a_row(), queue, offset, epoch)


def a_change(offset, queue=0, *, row=None, before=None, **value):
    return Change(row or a_row(), queue, before, a_value(offset, **value))


def a_writer(name="client-1", unix_ms=UNIX_MS):
    return Writer(name, unix_ms)


def a_table(queues=None, *, row=None, offsets_max=1000, lead=0):
    """Return a loaded table with the values of one row, by queue."""
    table = OffsetTable(offsets_max, lead)
    if queues:
        table.merge(row or a_row(), queues)
    table.is_loaded = True
    return table


def applied(table, decision):
    """Store a decision at once, and return its results."""
    table.stage(decision.changes)
    table.confirm(decision.changes)
    return decision.results
