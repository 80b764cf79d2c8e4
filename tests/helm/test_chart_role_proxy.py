"""The proxy of role addresses: what it serves, what controllers may do for it, and which values are refused."""

import json
import shlex
import subprocess

import pytest
from controller_builders import a_set
from peers.programs import require
from rendered_chart import FULLNAME, VALUE_SETS, merged, objects, objects_of, of_kind, refusal

from controller.endpoint_slices.wanted import wanted_slices
from rmq.cli import command_line
from rmq.commands.table import COMMANDS
from rmq.haproxy_config.configuration import ProxyOptions, configuration
from rmq.haproxy_config.frontends import Frontends, MasterFrontend
from serving.config.service_sets import service_sets

VALUES = VALUE_SETS["role proxy"]
DOMAIN = "mq.svc.cluster.local"
SET_A, SET_B = f"{FULLNAME}-set-broker-a", f"{FULLNAME}-set-broker-b-b5aa258d"


def sets_of(rendered):
    return rendered["ConfigMap", f"{FULLNAME}-role-proxy"]["data"]["sets.json"].encode()


def proxy_spec(rendered):
    return rendered["Deployment", f"{FULLNAME}-role-proxy"]["spec"]["template"]["spec"]


def with_sets(*sets, **proxy):
    defaults = {"brokerPort": 10911, "brokerIds": [1]}
    return merged(VALUES, {"roleProxy": {"sets": [defaults | each for each in sets], **proxy}})


def generated(rendered, tmp_path, **replaced):
    """Return what the init container writes; `replaced` are paths of this machine."""
    (init,) = proxy_spec(rendered)["initContainers"]
    program, what, *options = init["command"]
    assert (program, what) == ("rmq", "haproxy-config")
    (tmp_path / "sets.json").write_bytes(sets_of(rendered))
    words = [each for each in options if not each.startswith(("--service-sets=", "--output="))]
    output = tmp_path / "haproxy.cfg"
    more = [f"--service-sets={tmp_path / 'sets.json'}", f"--output={output}", f"--run-folder={tmp_path}"]
    assert command_line.run(COMMANDS, [what, *words, *more]) == 0
    return output


def test_each_set_has_a_headless_service_without_selector_below_which_its_brokers_are():
    rendered = objects_of("role proxy")
    assert [each.service for each in service_sets(sets_of(rendered))] == [f"{SET_A}.{DOMAIN}", f"{SET_B}.{DOMAIN}"]
    for name in (SET_A, SET_B):
        spec = rendered["Service", name]["spec"]
        assert spec["clusterIP"] == "None"
        assert "selector" not in spec


def test_configuration_of_the_proxy_is_that_of_the_command_and_haproxy_takes_it(tmp_path):
    require("haproxy")
    file = generated(objects_of("role proxy"), tmp_path)
    checked = subprocess.run(["haproxy", "-c", "-f", file], capture_output=True, text=True, timeout=60, check=False)
    assert checked.returncode == 0, checked.stderr
    text = file.read_text()
    assert f'server broker_3 b3.{SET_A}.{DOMAIN}:10911 agent-send "broker-a/3\\n"' in text
    assert f'server broker_1 b1.{SET_B}.{DOMAIN}:30911 agent-send "Broker_B/1\\n"' in text
    assert f"server controller_1 {FULLNAME}-controller-0.{FULLNAME}-controller-headless.{DOMAIN}:9879" in text
    assert "bind 0.0.0.0:10911" in text


def test_proxy_in_the_cluster_acts_on_checks_as_one_outside_of_it(tmp_path):
    """But for names that are looked up, its health port and limits, the directives are the same."""

    def directives(text):
        lines = [line.strip() for line in text.splitlines()]
        return [line for line in lines if line and not line.startswith("#")]

    outside = configuration(
        Frontends((MasterFrontend("broker-a", ("0.0.0.0:10911",), {1: "10.0.0.1:10911"}),), ()),
        ProxyOptions(role_checks=("10.0.0.1:9879",), run_folder=str(tmp_path)),
        "x",
    )
    rendered = objects(with_sets({"name": "broker-a", "port": 10911}))
    inside = generated(rendered, tmp_path).read_text()
    for name in (f"b1.{SET_A}.{DOMAIN}", f"{FULLNAME}-controller-0.{FULLNAME}-controller-headless.{DOMAIN}"):
        inside = inside.replace(name, "10.0.0.1")
    for resolvers in ("brokers", "controllers"):
        inside = inside.replace(f"init-addr none resolvers {resolvers} resolve-prefer ipv4", "init-addr libc,none")
    for section in ("frontend health", "resolvers brokers", "resolvers controllers"):
        inside = inside.replace(inside[inside.index(section) :].split("\n\n")[0], "")
    added = set(directives(inside)) - set(directives(outside))
    assert added == {"maxconn 6000", "maxconn 4000", "srvtcpka-idle 2s", "srvtcpka-intvl 1s", "srvtcpka-cnt 3"}
    assert set(directives(outside)) <= set(directives(inside))


def test_controllers_may_read_and_write_the_slices_of_the_sets_and_nothing_else():
    rendered = objects_of("role proxy")
    role = rendered["Role", f"{FULLNAME}-controller"]
    names = [
        each.metadata.name for one in service_sets(sets_of(rendered)) for each in wanted_slices(one, a_set()).slices
    ]
    slices = {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"]}
    assert role["rules"] == [
        slices | {"verbs": ["get", "update"], "resourceNames": names},
        slices | {"verbs": ["create"]},
    ]
    binding = rendered["RoleBinding", f"{FULLNAME}-controller"]
    assert binding["roleRef"]["name"] == f"{FULLNAME}-controller"
    assert [(each["kind"], each["name"], each["namespace"]) for each in binding["subjects"]] == [
        ("ServiceAccount", f"{FULLNAME}-controller", "mq")
    ]
    accounts = {name: spec["serviceAccountName"] for name, spec in _specs(rendered).items()}
    assert [name for name, account in accounts.items() if account == f"{FULLNAME}-controller"] == ["controller"]


def _stateful(rendered):
    return {name: each["spec"]["template"]["spec"] for name, each in of_kind(rendered, "StatefulSet").items()}


def _specs(rendered):
    found = _stateful(rendered)
    found[f"{FULLNAME}-role-proxy"] = proxy_spec(rendered)
    return {name.removeprefix(f"{FULLNAME}-"): spec for name, spec in found.items()}


def test_without_the_proxy_there_is_nothing_of_it():
    values = {"networkPolicy": {"enabled": True}}
    rendered = objects(values)
    assert not {kind for kind, _ in rendered} & {"Deployment", "Role", "RoleBinding"}
    text = json.dumps(list(rendered.values()))
    added = json.dumps(list(objects(merged(VALUES, values)).values()))
    words = [
        "role-proxy",
        "roleCheckPort",
        "kubernetesSetsFile",
        "serviceAccountToken",
        "endpointslices",
        "6443",
        "haproxy",
    ]
    assert [word for word in words if word not in added] == []
    assert [word for word in words if word in text] == []
    accounts = {spec["serviceAccountName"] for spec in _stateful(rendered).values()}
    assert accounts == {FULLNAME}
    assert [name for kind, name in rendered if kind == "ServiceAccount"] == [FULLNAME]


def test_policies_let_checks_clients_and_nameservers_through():
    rendered = objects_of("role proxy")
    policies = of_kind(rendered, "NetworkPolicy")

    def ports(component, side):
        rules = policies[f"{FULLNAME}-{component}"]["spec"][side]
        return [[port["port"] for port in rule["ports"]] for rule in rules]

    assert ports("role-proxy", "ingress") == [[10911, 10921], [10911, 10921]]
    assert ports("role-proxy", "egress") == [[53, 53], [9879], [10911, 30911]]
    assert [9879] in ports("controller", "ingress")
    assert [443, 6443] in ports("controller", "egress")
    assert [10911, 10921] in ports("namesrv", "egress")


def test_probes_wait_for_a_controller_once_and_never_again():
    (proxy,) = proxy_spec(objects_of("role proxy"))["containers"]
    paths = {name: proxy[f"{name}Probe"]["httpGet"]["path"] for name in ("startup", "liveness", "readiness")}
    assert paths == {"startup": "/started", "liveness": "/", "readiness": "/"}
    assert shlex.join(proxy["command"]) == "haproxy -W -db -f /run/haproxy/haproxy.cfg"


@pytest.mark.parametrize(
    "name", ["b", "broker-a", "Broker_B", "-x-", "%&", "a" * 255, "a.b", "broker-a-with-a-long-name", "br-"]
)
def test_every_broker_name_gets_a_service_that_kubernetes_and_the_servers_take(name):
    (one,) = service_sets(sets_of(objects(with_sets({"name": name, "port": 10911}))))
    assert one.name == name
    assert len(one.service_name) <= 63


def test_names_that_differ_in_what_dns_does_not_take_get_services_that_differ():
    sets = [{"name": name, "port": 10911 + 10 * i} for i, name in enumerate(["a_b", "a.b", "A-B", "a-b"])]
    found = json.loads(sets_of(objects(with_sets(*sets, connectionsMax=1000))))
    assert len({each["service"] for each in found}) == 4


def many_sets(number, **proxy):
    return with_sets(*({"name": f"s{i}", "port": 10_911 + 10 * i} for i in range(number)), **proxy)


def test_memory_of_the_proxy_limits_how_many_connections_it_may_have():
    memory = {"resources": {"limits": {"memory": "8Gi"}}}
    assert objects(many_sets(3, connectionsMax=4000))
    assert objects(many_sets(50, connectionsMax=4000, **memory))
    assert objects(many_sets(50, connectionsMax=4000, resources={"limits": {"memory": None}}))
    assert "16000 connections need 626Mi" in refusal(many_sets(4, connectionsMax=4000))
    assert "for 250000 connections" in refusal(many_sets(63, connectionsMax=4000, **memory))


PRODUCTION = merged(VALUE_SETS["production"], {"controller": {"roleCheckPort": 9879}, "roleProxy": VALUES["roleProxy"]})


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (merged(VALUES, {"controller": {"roleCheckPort": 0}}), "set controller.enabled=true and"),
        (with_sets(), "roleProxy.sets names no broker set"),
        (with_sets({"name": "a", "port": 10911}, {"name": "a", "port": 10921}), "two sets a"),
        (with_sets({"name": "a", "port": 10911}, {"name": "b", "port": 10911}), "10911 and 10911 are the same or"),
        (with_sets({"name": "a", "port": 10911}, {"name": "b", "port": 10909}), "10911 and 10909 are the same or"),
        (with_sets({"name": "a", "port": 8404}), "port 8404 is that of HAProxy's health"),
        (with_sets({"name": "a b", "port": 10911}), "roleProxy/sets/0/name"),
        (merged(VALUES, {"roleProxy": {"service": {"clusterIP": "proxy.example.org"}}}), "clusterIP"),
        (with_sets({"name": "a", "port": 10911, "brokerIds": [0, 1]}), "brokerIds"),
        (merged(VALUES, {"serviceAccount": {"create": False}}), "alone in controller.serviceAccountName"),
        (
            merged(VALUES, {"serviceAccount": {"name": f"{FULLNAME}-controller"}}),
            "alone in controller.serviceAccountName",
        ),
        (
            merged(VALUES, {"controller": {"serviceAccountName": FULLNAME}}),
            "alone in controller.serviceAccountName",
        ),
        ({"controller": {"roleCheckPort": 9878}}, "which the controllers have already"),
        (merged(PRODUCTION, {"roleProxy": {"replicas": 1}}), "needs roleProxy.replicas of 2 or more"),
        (PRODUCTION, "needs roleProxy.image.digest"),
    ],
)
def test_values_of_the_proxy_that_do_not_go_together_are_refused(values, sentence):
    assert sentence in refusal(values)
