"""Offset managers of the chart: their store, whom they follow, who reaches them, and what is refused."""

import pytest
from rendered_chart import FULLNAME, VALUE_SETS, container, merged, objects, objects_of, properties, refusal

NAME = f"{FULLNAME}-offset-manager"
SMALL = VALUE_SETS["offset manager"]


def manager_file(values):
    """Return the properties of the managers."""
    rendered = objects_of(values) if isinstance(values, str) else objects(values)
    return dict(line.split("=", 1) for line in properties(rendered, "offset-manager").splitlines() if line)


def policy_of(values):
    return objects_of(values)["NetworkPolicy", NAME]["spec"]


def ports_of(rules):
    return {port["port"] for rule in rules for port in rule.get("ports", ())}


def test_offset_manager_keeps_everything_on_its_volume():
    rendered = objects_of("offset manager")
    (claim,) = rendered["StatefulSet", NAME]["spec"]["volumeClaimTemplates"]
    (mount,) = (each for each in container(rendered, "offset-manager")["volumeMounts"] if each["name"] == "data")
    assert claim["metadata"]["name"] == "data"
    file = manager_file("offset manager")
    assert file["storePath"] == f"{mount['mountPath']}/offsets"
    assert file["historyDir"] == f"{mount['mountPath']}/history"


def test_offset_manager_has_an_etcd_of_its_own():
    file = manager_file("everything")
    assert file["etcdEndpoints"] == "offsets-etcd-0:2379;offsets-etcd-1:22379"
    pod = objects_of("everything")["StatefulSet", NAME]["spec"]["template"]["spec"]
    secrets = {each["name"]: each["secret"]["secretName"] for each in pod["volumes"] if "secret" in each}
    assert (secrets["etcd-tls"], secrets["clients"], secrets["admin"]) == (
        "offsets-etcd-tls",
        "offset-clients",
        "rocketmq-admin",
    )
    environment = container(objects_of("everything"), "offset-manager")["env"]
    users = [
        each["valueFrom"]["secretKeyRef"]["name"]
        for each in environment
        if each["name"].startswith("RMQ_OFFSET_MANAGER_ETCD")
    ]
    assert users == ["offsets-etcd-user"] * 2


def test_managers_follow_the_nameservers_where_no_controller_elects():
    file = manager_file("offset manager")
    assert file["namesrvAddr"].endswith(".mq.svc.cluster.local:9876")
    assert "controllerHttpAddr" not in file
    nobody = manager_file(merged(SMALL, {"offsetManager": {"follow": "none"}}))
    assert not {"namesrvAddr", "controllerHttpAddr"} & nobody.keys()


def test_repairs_are_reported_unless_somebody_wants_them_written():
    file = manager_file("offset manager")
    assert (file["repair"], file["repairGroups"]) == ("report", "*")
    file = manager_file("everything")
    assert (file["repair"], file["repairGroups"]) == ("act", "orders-*;billing")
    assert (file["readingPeriodMs"], file["readingsBytesMax"]) == ("2000", str(1 << 31))


def test_network_policy_lets_managers_reach_brokers_their_etcd_and_whom_they_follow():
    everything = policy_of("everything")
    assert ports_of(everything["ingress"]) == {9883}
    assert ports_of(everything["egress"]) == {53, 10911, 30911, 9881, 19881, 2379, 22379}
    small = objects_of("offset manager")
    assert 9876 in ports_of(small["NetworkPolicy", NAME]["spec"]["egress"])
    followed = objects(merged(SMALL, {"offsetManager": {"follow": "controllers"}}))
    assert 9881 in ports_of(followed["NetworkPolicy", f"{FULLNAME}-controller"]["spec"]["ingress"])


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"admin": {"tokenSecret": {"name": ""}}}, "admin.tokenSecret.name is blank"),
        ({"offsetManager": {"replicas": 2}}, "offsetManager.store=embedded is a file of one manager alone"),
        ({"offsetManager": {"store": "etcd"}}, "offsetManager.etcd.endpoints is empty"),
        ({"offsetManager": {"etcd": {"endpoints": ["etcd:2379"]}}}, "offsetManager.store is embedded"),
        (
            {"offsetManager": {"store": "etcd", "etcd": {"endpoints": ["e:1"], "tls": {"clientCertificate": True}}}},
            "names no secret with the certificate",
        ),
        (
            {"offsetManager": {"follow": "controllers"}, "controller": {"enabled": False}},
            "offsetManager.follow is controllers, but the chart has none",
        ),
        ({"offsetManager": {"follow": "none", "repair": "act"}}, "tell who is master"),
        ({"offsetManager": {"controllers": ["c-0:9881"]}}, "offsetManager.follow is nameServers"),
        ({"offsetManager": {"persistence": {"enabled": False}}}, "readings and acknowledged commits are in a pod"),
        ({"offsetManager": {"terminationGracePeriodSeconds": 34}}, "20 s for the last flush"),
    ],
)
def test_values_of_offset_managers_that_do_not_go_together_are_refused(values, sentence):
    assert sentence in refusal(merged(SMALL, values))


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({}, "needs offsetManager.store=etcd"),
        (
            {"offsetManager": {"store": "etcd", "replicas": 2, "etcd": {"endpoints": ["e:2379"]}}},
            "needs offsetManager.clientTokenSecret.name",
        ),
    ],
)
def test_production_needs_two_offset_managers_and_a_token_of_clients(values, sentence):
    assert sentence in refusal(merged(VALUE_SETS["production"], SMALL, values))
