"""The chart as Helm's own engine renders it, as objects that a test can look at."""

import copy
import functools
import json
from pathlib import Path

import helm_python
import yaml
from kubernetes_validate import utils as kubernetes

REPOSITORY = Path(__file__).parents[2]
CHART = REPOSITORY / "helm" / "rocketmq-control-plane"
CUSTOM_RESOURCES = Path(__file__).parent / "custom_resources"

RELEASE = "rmq"
NAMESPACE = "mq"
#: Beginning of all names of that release.
FULLNAME = "rmq-rocketmq-control-plane"

KUBERNETES = [f"1.{minor}" for minor in range(27, 38)]

ETCD = {"endpoints": ["etcd-0:2379", "etcd-1:2379", "etcd-2:12379"]}
#: All that can be turned on together.
EVERYTHING = {
    "commonLabels": {"team": "messaging"},
    "commonAnnotations": {"owner": "messaging@example.org"},
    "imagePullSecrets": [{"name": "pull"}],
    "image": {"registry": "registry.example.org", "digest": "sha256:" + "0a" * 32},
    "serviceAccount": {"annotations": {"a": "b"}},
    "namesrv": {
        "config": {"orderMessageEnable": True, "scanNotActiveBrokerInterval": 5000, "connectionsMax": 1000000},
        "external": {"enabled": True, "nodePorts": [30001, 30002, 30003], "annotations": {"x": "y"}},
        "roleAddresses": {"existingConfigMap": "role-addresses", "key": "prod.toml"},
        "memberPort": 9866,
        "addressServer": {"addresses": ["ns.example.org:30001", "[2001:db8::1]:30002"]},
        "service": {"annotations": {"s": "t"}},
        "persistence": {"storageClass": "fast", "annotations": {"backup": "no"}, "whenScaled": "Delete"},
        "spread": "hard",
        "podAnnotations": {"p": "q"},
        "podLabels": {"l": "m"},
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "infra", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
        "priorityClassName": "high",
        "extraEnv": [{"name": "RMQ_NAMESRV_LOG_LEVEL", "value": "debug"}],
        "extraVolumes": [{"name": "more", "emptyDir": {}}],
        "extraVolumeMounts": [{"name": "more", "mountPath": "/more"}],
    },
    "controller": {
        "replicas": 3,
        "store": "etcd",
        "config": {"suspectTimeoutMs": 4000},
        "scaling": {
            "nameServers": ["ns.example.org:9876", "other.example.org:19876"],
            "policies": {"existingConfigMap": "queue-policies", "key": "prod.toml"},
        },
    },
    "offsetManager": {
        "enabled": True,
        "replicas": 2,
        "store": "etcd",
        "controllers": ["c-0.example.org:9881", "c-1.example.org:19881"],
        "clientTokenSecret": {"name": "offset-clients", "key": "http"},
        "etcd": {
            "endpoints": ["offsets-etcd-0:2379", "offsets-etcd-1:22379"],
            "auth": {"existingSecret": "offsets-etcd-user"},
            "tls": {"existingSecret": "offsets-etcd-tls", "clientCertificate": True},
        },
        "repair": "act",
        "repairGroups": "orders-*;billing",
        "config": {"flushIntervalMs": 50, "readingPeriodMs": 2000, "readingsBytesMax": 1 << 31},
    },
    "etcd": {
        **ETCD,
        "auth": {"existingSecret": "etcd-user"},
        "tls": {"existingSecret": "etcd-tls", "clientCertificate": True},
    },
    "admin": {"tokenSecret": {"name": "rocketmq-admin", "key": "http"}},
    "console": {
        "peers": ["namesrv=http://ns.example.org:19880", "controller=https://[2001:db8::7]"],
        "hosts": ["192.0.2.0/24", "console.example.org:8443"],
        "readTokenSecret": {"name": "console-readers", "key": "http"},
        "ingress": {
            "enabled": True,
            "host": "rocketmq.example.org",
            "tlsSecret": "rocketmq-example-org",
            "className": "nginx",
            "annotations": {"i": "j"},
            "pod": 2,
        },
    },
    "brokers": {"auth": {"existingSecret": "broker-user", "addresses": ["10.0.0.0/16", "[2001:db8::5]:10911"]}},
    "tls": {"enabled": True, "existingSecret": "rocketmq-tls", "keyPasswordKey": "password", "clientAuth": "optional"},
    "history": {"volume": "shared", "shared": {"storageClass": "nfs"}},
    "analytics": {"enabled": True, "run": {"suspend": False, "extraArgs": ["--job=A5"]}},
    "networkPolicy": {
        "enabled": True,
        "clients": [{"namespaceSelector": {"matchLabels": {"rocketmq": "yes"}}}],
        "console": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ingress-nginx"}}}],
        "brokerPorts": [10911, 30911],
    },
    "metrics": {
        "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
        "prometheusRule": {
            "enabled": True,
            "labels": {"release": "prometheus"},
            "runbooks": "https://wiki.example.org/rocketmq/",
            "wellKnownNames": True,
        },
        "dashboards": {"enabled": True},
    },
}


def merged(*layers):
    """Return values of which the last layer counts, as `helm -f` and `--set` lay them."""
    whole = {}
    for layer in layers:
        for key, value in copy.deepcopy(layer).items():
            both = isinstance(value, dict) and isinstance(whole.get(key), dict)
            whole[key] = merged(whole[key], value) if both else value
    return whole


def profile(name):
    return yaml.safe_load((CHART / f"values-{name}.yaml").read_text())


#: Name -> values. Each is rendered, validated and looked at.
VALUE_SETS = {
    "defaults": {},
    "dev": profile("dev"),
    "production": merged(profile("production"), {"etcd": ETCD}),
    "production with TLS": merged(profile("production"), profile("tls"), {"etcd": ETCD}),
    "dev with TLS": merged(profile("dev"), profile("tls")),
    "embedded etcd": {"controller": {"store": "etcd", "replicas": 2}, "etcd": {"embedded": {"enabled": True}}},
    "three members without volumes": merged(
        profile("dev"),
        {
            "controller": {"store": "etcd"},
            "etcd": {"embedded": {"enabled": True, "replicas": 3, "persistence": {"enabled": False}}},
            "networkPolicy": {"enabled": True},
        },
    ),
    "no controller": {"controller": {"enabled": False}, "networkPolicy": {"enabled": True, "monitoring": []}},
    "load balancers": {
        "namesrv": {
            "external": {"enabled": True, "type": "LoadBalancer", "loadBalancerSourceRanges": ["192.0.2.0/24"]},
            "addressServer": {"enabled": False},
            "podDisruptionBudget": {"enabled": False},
        },
        "serviceAccount": {"create": False},
        "history": {"enabled": False},
    },
    "one claim for all": {
        "history": {"volume": "shared", "shared": {"existingClaim": "old"}},
        "fullnameOverride": "messaging",
    },
    "role proxy": {
        "controller": {"roleCheckPort": 9879},
        "roleProxy": {
            "enabled": True,
            "sets": [
                {"name": "broker-a", "port": 10911, "brokerPort": 10911, "brokerIds": [1, 2, 3]},
                {"name": "Broker_B", "port": 10921, "brokerPort": 30911, "brokerIds": [2, 1]},
            ],
            "service": {"clusterIP": "10.96.0.50"},
        },
        "networkPolicy": {"enabled": True},
    },
    "offset manager": {
        "offsetManager": {"enabled": True, "follow": "nameServers"},
        "admin": {"tokenSecret": {"name": "rocketmq-admin"}},
        "networkPolicy": {"enabled": True},
    },
    "everything": EVERYTHING,
}


@functools.cache
def chart():
    return helm_python.Chart.load(CHART)


def refusal(values):
    """Return what Helm says of values that it refuses; fail if it takes them."""
    try:
        render(values)
    except helm_python.HelmError as error:
        return str(error)
    raise AssertionError("these values were taken")


def render(values, *, release=RELEASE):
    """Return file of the chart -> text, as `helm install` does it: the schema first."""
    chart().validate_schema(values)
    files = chart().render(values, name=release, namespace=NAMESPACE)
    return {path.removeprefix("rocketmq-control-plane/templates/"): text for path, text in files.items()}


def objects(values, *, release=RELEASE):
    """Return (kind, name) -> object."""
    return parsed(render(values, release=release))


def parsed(files):
    """Return (kind, name) -> object of what was rendered."""
    texts = (text for path, text in files.items() if path.endswith(".yaml"))
    found = [each for text in texts for each in yaml.load_all(text, yaml.CSafeLoader) if each]
    by_name = {(each["kind"], each["metadata"]["name"]): each for each in found}
    assert len(by_name) == len(found), "two objects have the same name"
    return by_name


@functools.cache
def objects_of(set_name):
    """Return the objects of a value set; not to be changed."""
    return objects(VALUE_SETS[set_name])


def of_kind(rendered, kind):
    return {name: each for (its_kind, name), each in rendered.items() if its_kind == kind}


def pod_specs(rendered):
    """Return name -> pod specification, of all that makes pods."""
    return {name: template["spec"] for name, template in pod_templates(rendered).items()}


def pod_templates(rendered):
    """Return `<kind>/<name>` -> template of pods."""
    found = {}
    for (kind, name), each in rendered.items():
        if kind in ("StatefulSet", "Deployment"):
            found[f"{kind}/{name}"] = each["spec"]["template"]
        elif kind == "CronJob":
            found[f"{kind}/{name}"] = each["spec"]["jobTemplate"]["spec"]["template"]
        elif kind == "Pod":
            found[f"{kind}/{name}"] = each
    return found


def server(rendered, component, fullname=FULLNAME):
    """Return the StatefulSet of a component."""
    return rendered["StatefulSet", f"{fullname}-{component}"]


def container(rendered, component, fullname=FULLNAME):
    (only,) = server(rendered, component, fullname)["spec"]["template"]["spec"]["containers"]
    return only


def properties(rendered, component, fullname=FULLNAME):
    """Return the text of the properties file that a server is given."""
    return rendered["ConfigMap", f"{fullname}-{component}"]["data"][f"{component}.conf"]


_schema_contents = functools.cache(kubernetes.schema_contents)


def problems(each, version):
    """Return what is wrong with an object by the schemas of a Kubernetes version, empty if nothing."""
    custom = CUSTOM_RESOURCES / f"{each['kind'].lower()}.json"
    if custom.exists() and each["apiVersion"] == "monitoring.coreos.com/v1":
        found = kubernetes.jsonschema.Draft7Validator(json.loads(custom.read_text())).iter_errors(each)
        return [f"{error.json_path}: {error.message}" for error in found]
    # Reading its definitions, 1 MB for each version, is nearly all of its work.
    kubernetes.schema_contents = _schema_contents
    try:
        kubernetes.validate(each, version, strict=True)
    except kubernetes.ValidationError as error:
        return [f"{'.'.join(map(str, error.path))}: {error.message}"]
    except kubernetes.SchemaNotFoundError as error:
        return [error.message]
    return []
