"""Permissions that an operator set, until the broker's topics change."""

import pytest
from builders import BROKER, READ_ONLY, WRITABLE

from namesrv.core.tables.topic_table import PermissionOverrides


@pytest.fixture
def table():
    return PermissionOverrides()


def test_outside_of_maintenance_every_topic_has_its_registered_permission(table):
    assert table.of(BROKER) == {}


def test_permission_override_applies_to_its_set_alone(table):
    table.put(BROKER, {"A": READ_ONLY, "B": READ_ONLY})
    assert table.of(BROKER) == {"A": READ_ONLY, "B": READ_ONLY}
    assert table.of("broker-b") == {}


def test_latest_permission_override_of_a_topic_counts(table):
    table.put(BROKER, {"A": READ_ONLY, "B": READ_ONLY})
    table.put(BROKER, {"B": WRITABLE, "C": WRITABLE})
    assert table.of(BROKER) == {"A": READ_ONLY, "B": WRITABLE, "C": WRITABLE}


def test_lifted_override_ends_and_others_of_the_set_stay(table):
    table.put(BROKER, {"A": READ_ONLY, "B": READ_ONLY})
    table.remove(BROKER, ["A", "never overridden"])
    assert table.of(BROKER) == {"B": READ_ONLY}


def test_lifting_at_one_set_changes_nothing_at_another(table):
    table.put(BROKER, {"A": READ_ONLY})
    table.remove("broker-b", ["A"])
    assert table.of(BROKER) == {"A": READ_ONLY}


def test_nothing_is_left_behind_once_maintenance_is_over(table):
    table.put(BROKER, {"A": READ_ONLY, "B": READ_ONLY})
    table.remove(BROKER, ["A", "B"])
    table.put(BROKER, {})
    assert vars(table) == vars(PermissionOverrides())
