"""Values that cannot be meant are refused with a sentence that tells which and what to do."""

import json

import pytest
import yaml
from rendered_chart import CHART, ETCD, FULLNAME, merged, objects, profile, properties, refusal

from helm import values_table
from serving import __version__
from serving.process.system_limits import share_bytes

#: Kubernetes' own, or the servers': any key may stand in them.
PASSED_ON = {"global", "labels", "properties", "kubernetesObject", "kubernetesObjects"}

SCHEMA = json.loads((CHART / "values.schema.json").read_text())
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())


def paths(value, above=""):
    """Yield the paths of all keys of nested objects that the schema describes key by key."""
    for key, below in value.items():
        yield f"{above}{key}"
        if isinstance(below, dict):
            yield from paths(below, f"{above}{key}.")


def schema_paths(schema, above=""):
    for key, below in schema.get("properties", {}).items():
        yield f"{above}{key}"
        yield from schema_paths(below, f"{above}{key}.")


def without_volume(limit):
    """Return values of NameServers whose history lies on an emptyDir of that limit."""
    return {"namesrv": {"persistence": {"enabled": False}}, "history": {"emptyDirSizeLimit": limit}}


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ({"namesrv": {"replica": 3}}, "replica"),
        ({"namesrv": {"extraEnv": [{"name": "A", "values": "b"}]}}, "values"),
    ],
)
def test_a_misspelled_key_is_refused_by_its_name(values, key):
    assert f"'{key}'" in refusal(values)


@pytest.mark.parametrize(
    ("values", "where"),
    [
        ({"namesrv": {"replicas": 0}}, "/namesrv/replicas"),
        ({"controller": {"store": "raft"}}, "/controller/store"),
        ({"etcd": {"endpoints": ["http://etcd:2379"]}}, "/etcd/endpoints/0"),
        ({"namesrv": {"config": {"orderMessageEnable": {"a": 1}}}}, "/namesrv/config/orderMessageEnable"),
        ({"namesrv": {"config": {"productEnvName": "a\nlistenPort=1"}}}, "/namesrv/config/productEnvName"),
        ({"image": {"digest": "sha256:12"}}, "/image/digest"),
        ({"brokers": {"auth": {"addresses": ["10.0.0.0/8;a"]}}}, "/brokers/auth/addresses/0"),
        ({"admin": {"tokenSecret": {"name": "a", "key": "../token"}}}, "/admin/tokenSecret/key"),
        ({"analytics": {"run": {"schedule": "daily"}}}, "/analytics/run/schedule"),
    ],
)
def test_a_value_of_another_kind_is_refused_with_its_place(values, where):
    assert where in refusal(values)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (
            {"controller": {"replicas": 3}},
            "but controller.store=embedded is a file of one controller alone: set controller.store=etcd, or",
        ),
        ({"controller": {"store": "etcd"}}, "there is no etcd: set etcd.endpoints"),
        ({"controller": {"store": "etcd"}, "etcd": {**ETCD, "embedded": {"enabled": True}}}, "decide for one etcd"),
        ({"etcd": {"embedded": {"enabled": True}}}, "nobody would use it"),
        (
            {"controller": {"store": "etcd"}, "etcd": {"embedded": {"enabled": True}, "auth": {"existingSecret": "a"}}},
            "the embedded etcd has neither users nor TLS",
        ),
        ({"etcd": {"tls": {"clientCertificate": True}}}, "etcd.tls.existingSecret names no secret"),
        ({"tls": {"enabled": True}}, "tls.existingSecret names no secret"),
        ({"tls": {"mode": "enforcing"}}, "need tls.enabled=true"),
        ({"tls": {"enabled": True, "existingSecret": "a", "verifyBrokers": True}}, "needs tls.toBrokers=true"),
        ({"analytics": {"enabled": True}}, "needs history.enabled=true and history.volume=shared"),
        (
            {"analytics": {"enabled": True, "master": "spark://m:7077"}, "history": {"volume": "shared"}},
            "analytics.master is spark://m:7077, but the jobs bind loopback and may talk to nobody: set local[N]",
        ),
        ({"history": {"shared": {"existingClaim": "a"}}}, "history.volume is not shared"),
        (
            {"namesrv": {"roleAddresses": {"rules": "[[roleAddress]]", "existingConfigMap": "a"}}},
            "namesrv.roleAddresses.existingConfigMap are both set: decide for one",
        ),
        ({"namesrv": {"memberPort": 9880}}, "namesrv.memberPort is 9880, which the NameServers have already"),
        (
            {"namesrv": {"external": {"nodePorts": [30001, 30002, 30003], "type": "LoadBalancer"}}},
            "needs namesrv.external.type=NodePort",
        ),
        ({"namesrv": {"config": {"listenPort": 1}}}, "config.listenPort is set by the chart to 9876, and fixed"),
        ({"namesrv": {"config": {"historyDir": "/h"}}}, "use the value of the chart that it follows from"),
        (
            {"brokers": {"auth": {"existingSecret": "s"}}},
            "but not for whom requests are signed: set brokers.auth.addresses",
        ),
        (
            {"controller": {"scaling": {"enabled": False, "policies": {"existingConfigMap": "p"}}}},
            "controller.scaling.policies.existingConfigMap is set, but controller.scaling.enabled is false",
        ),
        (
            {"controller": {"config": {"brokerSecretKey": "s"}}},
            "brokerSecretKey would stand in the values as plain text",
        ),
        (
            without_volume("1.5Gi"),
            "history.emptyDirSizeLimit is 1.5Gi, but the chart computes with it: set a whole number",
        ),
        (without_volume("85Mi"), "history.emptyDirSizeLimit is 85Mi, but three quarters of it are for the history"),
        (
            {"namesrv": {"extraEnv": [{"name": "RMQ_NAMESRV_TLS_SERVER_KEY_PASSWORD", "value": "x"}]}},
            "use valueFrom.secretKeyRef",
        ),
        ({"namesrv": {"drainSeconds": 50}}, "preStopSeconds and drainSeconds with 10 s for the close need 65"),
    ],
)
def test_values_that_do_not_go_together_are_refused_with_a_sentence(values, sentence):
    assert sentence in refusal(values)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"namesrv": {"replicas": 1}}, "namesrv.replicas of 2 or more"),
        ({"controller": {"replicas": 1}}, "controller.replicas of 2 or more"),
        ({"controller": {"store": "embedded", "replicas": 1}}, "needs controller.store=etcd"),
        ({"etcd": {"endpoints": [], "embedded": {"enabled": True}}}, "the embedded etcd is for trials"),
        ({"namesrv": {"persistence": {"enabled": False}}}, "needs namesrv.persistence.enabled=true"),
        ({"controller": {"podDisruptionBudget": {"enabled": False}}}, "podDisruptionBudget.enabled=true"),
        ({"image": {"tag": "latest"}}, "an image.tag that does not move"),
    ],
)
def test_the_production_profile_refuses_what_loses_data_or_availability(values, sentence):
    base = merged(profile("production"), {"etcd": ETCD})
    objects(base)
    assert sentence in refusal(merged(base, values))


def test_the_schema_and_the_values_know_the_same_keys():
    described = set(schema_paths(SCHEMA))
    inside = {f"{path}." for path in described if not any(other.startswith(f"{path}.") for other in described)}
    there = {path for path in paths(VALUES) if not any(path.startswith(above) for above in inside)}
    assert described == there


def test_no_object_of_the_schema_takes_just_any_key():
    def check(schema, place):
        if schema.get("type") == "object" and place not in PASSED_ON:
            assert schema.get("additionalProperties") is False, place
        for key, below in schema.get("properties", {}).items():
            check(below, key)

    check(SCHEMA, "values")
    for name, definition in SCHEMA["definitions"].items():
        check(definition, name)


def test_every_value_is_explained():
    explained = {row.path for row in values_table.rows((CHART / "values.yaml").read_text())}
    parts = {path for path in schema_paths(SCHEMA) if not any(p.startswith(f"{path}.") for p in schema_paths(SCHEMA))}
    assert explained == parts


def test_the_table_in_the_readme_is_that_of_the_values():
    """Renewed by `python helm/values_table.py`."""
    readme = (CHART / "README.md").read_text()
    assert readme == values_table.with_table(readme, (CHART / "values.yaml").read_text())


@pytest.mark.parametrize(
    ("value", "line"),
    [
        (1048576, "connectionsMax=1048576"),
        (2147483647, "connectionsMax=2147483647"),
        (0.5, "connectionsMax=0.5"),
        (True, "connectionsMax=true"),
        ("a\\b", "connectionsMax=a\\\\b"),
        ("", "connectionsMax="),
    ],
)
def test_a_property_is_written_as_java_reads_it(value, line):
    text = properties(objects({"namesrv": {"config": {"connectionsMax": value}}}), "namesrv")
    assert line in text.splitlines()


def history_limits(values):
    """Return component -> what limits its history, None where the chart leaves that to the server."""
    rendered = objects(values)
    texts = {component: properties(rendered, component) for component in ("namesrv", "controller")}
    found = {component: dict(line.split("=", 1) for line in text.splitlines()) for component, text in texts.items()}
    return {component: given.get("historyBytesMax") for component, given in found.items()}


@pytest.mark.parametrize(
    ("limit", "bytes_max"),
    [
        ("4Gi", 3221225472),
        ("90000k", 67500000),
        ("86Mi", 67633152),
        ("89478486", 67108865),
    ],
)
def test_history_on_an_empty_dir_may_have_three_quarters_of_it_and_on_a_volume_the_servers_default(limit, bytes_max):
    assert history_limits(without_volume(limit)) == {"namesrv": str(bytes_max), "controller": None}


def test_the_history_is_limited_by_the_chart_only_where_a_profile_has_no_volume():
    assert history_limits({}) == {"namesrv": None, "controller": None}
    assert history_limits(profile("dev")) == {"namesrv": "805306368", "controller": "805306368"}


@pytest.mark.parametrize(
    ("limits", "share"),
    [
        ({"memory": "1Gi"}, 128 * 2**20),
        ({"memory": "256Mi"}, 64 * 2**20),
        ({"memory": "64Gi"}, 512 * 2**20),
        ({"memory": 2147483648}, 256 * 2**20),
        # The server takes its share itself.
        ({"memory": "1.5Gi"}, None),
        ({"memory": None}, None),
        (None, None),
    ],
)
def test_what_peers_can_make_a_server_keep_is_a_part_of_the_memory_limit(limits, share):
    rendered = objects({each: {"resources": {"limits": limits}} for each in ("namesrv", "controller")})
    for component in ("namesrv", "controller"):
        given = dict(line.split("=", 1) for line in properties(rendered, component).splitlines())
        for key in ("partialFrameBytesMax", "responseBufferBytesMax", "queuedBytesMax"):
            assert given.get(key) == (None if share is None else str(share)), (component, key)


def test_the_share_that_the_chart_computes_is_that_of_the_server():
    text = properties(objects({}), "namesrv")
    assert f"responseBufferBytesMax={share_bytes(2**30)}" in text.splitlines()


def test_what_a_property_of_the_operator_may_replace_is_replaced():
    own = {"httpBindAddress": "::", "logFormat": "console", "responseBufferBytesMax": 1000}
    text = properties(objects({"namesrv": {"config": own}}), "namesrv")
    assert {"httpBindAddress=::", "logFormat=console", "bindAddress=0.0.0.0", "responseBufferBytesMax=1000"} <= set(
        text.splitlines()
    )


def test_an_image_is_named_by_registry_and_digest_or_by_tag():
    def image(**fields):
        sets = objects({"image": fields})
        (container,) = sets["StatefulSet", f"{FULLNAME}-namesrv"]["spec"]["template"]["spec"]["containers"]
        return container["image"]

    assert image() == f"rocketmq-control-plane:{__version__}"
    assert image(registry="r.example.org", tag="7") == "r.example.org/rocketmq-control-plane:7"
    digest = "sha256:" + "ab" * 32
    assert image(tag="7", digest=digest) == f"rocketmq-control-plane@{digest}"
