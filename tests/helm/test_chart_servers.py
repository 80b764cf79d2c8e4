"""The servers themselves take what the chart renders for them."""

import http.client
import json
import os
import re
import shutil
import subprocess
import sys

import pytest
from peers.processes import Process, free_port
from peers.waiting import wait_until
from rendered_chart import (
    CHART,
    FULLNAME,
    REPOSITORY,
    VALUE_SETS,
    container,
    objects,
    objects_of,
    properties,
)

from controller.config import CONTROLLER
from namesrv.settings.config import NAMESRV
from offsets.config import OFFSET_MANAGER
from remoting.protocol.properties import parse
from serving.config.sources import PropertiesFile, Sources, from_sources, ignored_keys

KINDS = {"namesrv": NAMESRV, "controller": CONTROLLER, "offset-manager": OFFSET_MANAGER}
#: The port of RocketMQ peers; of an offset manager that of HTTP.
PORTS = {"namesrv": 9876, "controller": 9878, "offset-manager": 9883}


def components(values):
    """Yield each server of a value set, and what Kubernetes gives it."""
    rendered, fullname = objects_of(values), VALUE_SETS[values].get("fullnameOverride", FULLNAME)
    for component in KINDS:
        if ("StatefulSet", f"{fullname}-{component}") in rendered:
            environment = {
                each["name"]: each.get("value", "from a secret")
                for each in container(rendered, component, fullname)["env"]
            }
            environment["POD_NAME"] = f"{fullname}-{component}-0"
            expanded = {
                name: text.replace("$(POD_NAME)", environment["POD_NAME"]) for name, text in environment.items()
            }
            yield component, properties(rendered, component, fullname), expanded


@pytest.mark.parametrize("values", VALUE_SETS)
def test_every_property_is_one_that_the_server_knows_and_its_value_is_taken(values):
    for component, text, environment in components(values):
        file = PropertiesFile(f"{component}.conf", tuple(parse(text.encode())))
        sources = Sources(file=file, environment={"HOME": "/var/lib/rocketmq", **environment})
        config = from_sources(KINDS[component], sources)
        assert (config.listen_port or config.http_port) == PORTS[component]
        assert ignored_keys(KINDS[component], sources) == ()
        records = VALUE_SETS[values].get("history", {}).get("enabled", True)
        assert config.history_dir == ("/var/lib/rocketmq/history" if records else "")


def test_the_variables_of_a_pod_are_the_properties_they_are_meant_to_be():
    ((_, text, environment),) = (each for each in components("everything") if each[0] == "controller")
    file = PropertiesFile("controller.conf", tuple(parse(text.encode())))
    config = from_sources(CONTROLLER, Sources(file=file, environment={"HOME": "/", **environment}))
    name = f"{FULLNAME}-controller-0"
    assert config.controller_id == name
    assert config.advertised_address == f"{name}.{FULLNAME}-controller-headless.mq.svc.cluster.local:9878"
    assert config.etcd_user == config.etcd_password == config.tls_server_key_password == "from a secret"
    assert config.etcd_endpoints == "etcd-0:2379;etcd-1:2379;etcd-2:12379"


def test_all_servers_read_the_admin_token_from_the_key_of_the_secret():
    rendered = objects_of("everything")
    for component, text, _ in components("everything"):
        pod = rendered["StatefulSet", f"{FULLNAME}-{component}"]["spec"]["template"]["spec"]
        (secret,) = (each["secret"] for each in pod["volumes"] if each["name"] == "admin")
        assert (secret["secretName"], secret["items"]) == ("rocketmq-admin", [{"key": "http", "path": "token"}])
        mounts = container(rendered, component)["volumeMounts"]
        (folder,) = (each["mountPath"] for each in mounts if each["name"] == "admin")
        config = from_sources(
            KINDS[component],
            Sources(file=PropertiesFile("server.conf", tuple(parse(text.encode()))), environment={"HOME": "/"}),
        )
        assert config.http_admin_token_file == f"{folder}/token"


def controller_config(values):
    """Return what the controller makes of its file."""
    ((_, text, _),) = (each for each in components(values) if each[0] == "controller")
    file = PropertiesFile("controller.conf", tuple(parse(text.encode())))
    return from_sources(CONTROLLER, Sources(file=file, environment={"HOME": "/"}))


def test_controllers_look_topics_up_at_other_nameservers_and_read_policies_of_a_config_map():
    config = controller_config("everything")
    assert config.namesrv_addr == "ns.example.org:9876;other.example.org:19876"
    rendered = objects_of("everything")
    pod = rendered["StatefulSet", f"{FULLNAME}-controller"]["spec"]["template"]["spec"]
    (source,) = (each["configMap"] for each in pod["volumes"] if each["name"] == "policies")
    assert source == {"name": "queue-policies", "items": [{"key": "prod.toml", "path": "policies.toml"}]}
    mounts = container(rendered, "controller")["volumeMounts"]
    (mount,) = (each for each in mounts if each["name"] == "policies")
    # A mount of one path of the volume would not follow changes of the ConfigMap.
    assert "subPath" not in mount
    assert config.scaling_policy_file == f"{mount['mountPath']}/policies.toml"
    assert "policies" not in [each["name"] for each in container(rendered, "namesrv")["volumeMounts"]]


class Pod:
    """A server with the file of the chart, whose absolute folders lie below a temporary one; on loopback."""

    def __init__(self, folder, component, values, **environment):
        self.folder = folder / component
        self.folder.mkdir()
        self.port, self.http_port = free_port(), free_port()
        text = properties(objects(values), component)
        for path in ("/var/lib/rocketmq", "/etc/rocketmq/tls"):
            text = text.replace(path, str(folder / path.rpartition("/")[2]))
        self.file = self.folder / f"{component}.conf"
        self.file.write_text(text)
        command = [sys.executable, "-m", component, "-c", self.file]
        command += ["--listen-port", self.port, "--http-port", self.http_port]
        command += ["--bind-address", "127.0.0.1", "--http-bind-address", "127.0.0.1"]
        env = os.environ | {"PYTHONPATH": str(REPOSITORY), "HOME": str(self.folder)} | environment
        self.process = Process(component, command, folder=self.folder, env=env)

    def get(self, path):
        """Return status and body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.http_port, timeout=10)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except OSError:
            return 0, ""
        finally:
            connection.close()

    def answers(self, path, status=200):
        wait_until(lambda: self.get(path)[0] == status, seconds=240, what=f"{path} answers {status}")


@pytest.fixture
def pod(tmp_path):
    """Makes pods, and ends them."""
    made = []

    def make(component, values, **environment):
        made.append(Pod(tmp_path, component, values, **environment))
        return made[-1]

    yield make
    for each in made:
        each.process.stop()


def probes(component):
    each = container(objects_of("defaults"), component)
    return [each[f"{name}Probe"]["httpGet"]["path"] for name in ("startup", "liveness", "readiness")]


def run_connection_check(pods, **environment):
    """Run the script of `helm test` as its pod does."""
    env = {
        "PATH": os.environ["PATH"],
        "BROKER_NAME": "rmq-test",
        "NAMESRV_ADDR": ";".join(f"127.0.0.1:{each.port}" for each in pods),
        "ADDRESS_SERVER": f"http://127.0.0.1:{pods[0].http_port}/rocketmq/nsaddr",
    }
    script = [sys.executable, CHART / "files" / "connection.py"]
    return subprocess.run(script, env=env | environment, capture_output=True, text=True, check=False, timeout=240)


def test_a_nameserver_starts_with_the_file_and_is_what_probes_and_the_connection_check_look_for(pod):
    namesrv = pod("namesrv", {"namesrv": {"drainSeconds": 0}})
    for path in probes("namesrv"):
        namesrv.answers(path)
    names = f"{FULLNAME}-namesrv-0.{FULLNAME}-namesrv-headless.mq.svc.cluster.local:9876"
    assert namesrv.get("/rocketmq/nsaddr") == (200, namesrv.get("/rocketmq/nsaddr")[1])
    assert namesrv.get("/rocketmq/nsaddr")[1].startswith(names)
    assert namesrv.get("/metrics")[0] == 200

    done = run_connection_check([namesrv])
    assert done.returncode == 0, done.stdout + done.stderr
    assert "registered, found, unregistered" in done.stdout
    assert json.loads(namesrv.get("/v1/brokers")[1])["total"] == 0, "it leaves nothing behind"

    assert namesrv.process.stop() == 0
    down = run_connection_check([namesrv])
    assert down.returncode == 1
    assert f"127.0.0.1:{namesrv.port}: " in down.stdout


def test_the_connection_check_fails_where_a_nameserver_has_no_routes_to_give(pod):
    namesrv = pod("namesrv", {"namesrv": {"drainSeconds": 0, "config": {"needWaitForService": True}}})
    namesrv.answers("/readyz")
    done = run_connection_check([namesrv])
    assert done.returncode == 1
    assert "request 105 is answered" in done.stdout
    assert json.loads(namesrv.get("/v1/brokers")[1])["total"] == 0, "it leaves nothing behind"


def test_a_controller_starts_with_the_file_and_is_what_probes_look_for(pod):
    name = f"{FULLNAME}-controller-0"
    expected = f"{name}.{FULLNAME}-controller-headless.mq.svc.cluster.local:9878"
    variables = {"RMQ_CONTROLLER_CONTROLLER_ID": name, "RMQ_CONTROLLER_ADVERTISED_ADDRESS": expected}
    controller = pod("controller", {"controller": {"drainSeconds": 0}}, **variables)
    for path in probes("controller"):
        controller.answers(path)
    (itself,) = json.loads(controller.get("/v1/controllers")[1])["members"]
    assert (itself["id"], itself["address"]) == (name, expected)


def test_with_tls_enforced_the_connection_check_is_served_by_its_certificate(pod, tmp_path):
    folder = tmp_path / "tls"
    folder.mkdir()
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-keyout", folder / "tls.key", "-out", folder / "tls.crt", "-days", "2", "-subj", "/CN=rmq"]
    subprocess.run(command, check=True, capture_output=True)
    # Signed by itself, so it is its own authority.
    shutil.copy(folder / "tls.crt", folder / "ca.crt")
    own = {"enabled": True, "mode": "enforcing", "existingSecret": "a", "clientAuth": "require", "toBrokers": True}
    namesrv = pod("namesrv", {"namesrv": {"drainSeconds": 0}, "tls": own | {"verifyBrokers": True}})
    namesrv.answers("/readyz")
    plain = run_connection_check([namesrv])
    assert plain.returncode == 1, "TLS is not enforced"
    secured = run_connection_check([namesrv], TLS_FOLDER=str(folder))
    assert secured.returncode == 0, secured.stdout + secured.stderr


@pytest.mark.etcd
def test_the_embedded_etcd_starts_with_the_arguments_and_a_controller_works_with_it(pod, tmp_path):
    values = {
        "controller": {"store": "etcd", "drainSeconds": 0},
        "etcd": {"embedded": {"enabled": True}},
    }
    client, peer = free_port(), free_port()
    (its_container,) = objects(values)["StatefulSet", f"{FULLNAME}-etcd"]["spec"]["template"]["spec"]["containers"]
    name = f"{FULLNAME}-etcd-0"

    def here(text):
        text = text.replace("$(POD_NAME)", name).replace("/var/lib/etcd", str(tmp_path / "etcd-data"))
        text = text.replace(f"{name}.{FULLNAME}-etcd-headless.mq.svc.cluster.local", "127.0.0.1")
        ports = {":2379": f":{client}", ":2380": f":{peer}"}
        # In one pass: a free port may begin with the digits of the other one.
        return re.sub(r":23(79|80)\b", lambda found: ports[found[0]], text.replace("0.0.0.0", "127.0.0.1"))

    command = [here(word) for word in its_container["command"]]
    assert f"127.0.0.1:{client}" in " ".join(command)
    etcd = Process("etcd", command, folder=tmp_path / "etcd", env=dict(os.environ))
    try:
        env = {"RMQ_CONTROLLER_ETCD_ENDPOINTS": f"127.0.0.1:{client}", "RMQ_CONTROLLER_CONTROLLER_ID": "c-0"}
        controller = pod("controller", values, **env)
        controller.answers("/readyz")
        assert controller.process.stop() == 0
    finally:
        etcd.stop()


RULES = '[[roleAddress]]\nset = "broker-a"\nmaster = "10.9.0.5:10911"\n'


def test_other_rules_of_role_addresses_restart_no_nameserver():
    one, other = (
        objects({"namesrv": {"roleAddresses": {"rules": rules}}}) for rules in (RULES, RULES.replace(".5:", ".6:"))
    )
    assert one["StatefulSet", f"{FULLNAME}-namesrv"] == other["StatefulSet", f"{FULLNAME}-namesrv"]


def test_member_port_is_open_and_where_controllers_look_brokers_up_and_clients_get_the_other_one():
    rendered = objects({"namesrv": {"memberPort": 9866, "replicas": 2}})
    assert {"name": "member", "containerPort": 9866} in container(rendered, "namesrv")["ports"]
    for purpose in ("headless", "discovery"):
        ports = rendered["Service", f"{FULLNAME}-namesrv-{purpose}"]["spec"]["ports"]
        assert {"name": "member", "port": 9866, "targetPort": "member"} in ports
    hosts = [f"{FULLNAME}-namesrv-{n}.{FULLNAME}-namesrv-headless.mq.svc.cluster.local" for n in range(2)]
    found = {
        component: dict(line.split("=", 1) for line in properties(rendered, component).splitlines())
        for component in ("namesrv", "controller")
    }
    assert found["namesrv"]["memberPort"] == "9866"
    assert found["namesrv"]["namesrvAddrList"] == ";".join(f"{host}:9876" for host in hosts)
    for component, asked in (("controller", "namesrvAddr"), ("namesrv", "peers")):
        assert found[component][asked] == ";".join(f"{host}:9866" for host in hosts)
