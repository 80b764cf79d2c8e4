"""What one NameServer is sent to change or list write permissions, topics and KV entries, and what it answers."""

import pytest

from remoting.admin.name_servers import (
    add_write_perm,
    delete_kv,
    delete_topic_route,
    kv_namespace,
    kv_value,
    put_kv,
    topics_of_cluster,
    wipe_write_perm,
)
from remoting.protocol.command import RemotingCommand
from remoting.protocol.errors import Refused


@pytest.mark.parametrize(
    ("wanted", "code", "field"),
    [(wipe_write_perm("b"), 205, "wipeTopicCount"), (add_write_perm("b"), 327, "addTopicCount")],
)
def test_write_permission_of_a_set_is_changed_and_its_topics_are_counted(wanted, code, field):
    assert (wanted.request.code, wanted.request.ext_fields) == (code, {"brokerName": "b"})
    assert wanted.read_response(RemotingCommand(0, ext_fields={field: "12"})) == 12
    assert wanted.read_response(RemotingCommand(0)) == 0


def test_topics_of_a_cluster_are_listed_unless_that_is_off():
    wanted = topics_of_cluster("C")

    assert wanted.read_response(RemotingCommand(0, body=b'{"topicList":["a","b"]}')) == {"a", "b"}
    with pytest.raises(Refused, match="disable"):
        wanted.read_response(RemotingCommand(1, remark="disable"))


@pytest.mark.parametrize(("cluster", "fields"), [("C", {"topic": "t", "clusterName": "C"}), (None, {"topic": "t"})])
def test_route_is_removed_of_one_cluster_or_of_all(cluster, fields):
    assert delete_topic_route("t", cluster).request.ext_fields == fields


def test_entries_are_written_read_and_removed():
    assert put_kv("n", "k", "v").request.ext_fields == {"namespace": "n", "key": "k", "value": "v"}
    assert delete_kv("n", "k").request.ext_fields == {"namespace": "n", "key": "k"}
    assert kv_value("n", "k").read_response(RemotingCommand(0, ext_fields={"value": "v"})) == "v"
    assert kv_value("n", "k").read_response(RemotingCommand(22)) is None
    assert kv_namespace("n").read_response(RemotingCommand(0, body=b'{"table":{"k":"v"}}')) == {"k": "v"}
    assert kv_namespace("n").read_response(RemotingCommand(22)) is None
