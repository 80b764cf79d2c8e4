"""An upgrade changes what was asked for and nothing else, and so does taking a value out again."""

import helm_python
import pytest
import yaml
from rendered_chart import (
    CHART,
    EVERYTHING,
    FULLNAME,
    KUBERNETES,
    merged,
    objects,
    parsed,
    pod_templates,
    problems,
    profile,
    render,
)

from helm import values_table

#: Kubernetes refuses a change of these; all else of a StatefulSet may change.
MUTABLE = {
    "replicas",
    "template",
    "updateStrategy",
    "minReadySeconds",
    "persistentVolumeClaimRetentionPolicy",
    "ordinals",
    "revisionHistoryLimit",
}

#: Without dashboards and alerts, which are long and the same in all of it.
NEARLY_EVERYTHING = merged(
    EVERYTHING, {"metrics": {"dashboards": {"enabled": False}, "prometheusRule": {"enabled": False}}}
)


def changed(before, after):
    """Return (made, removed, changed) names of objects."""
    made, removed = after.keys() - before.keys(), before.keys() - after.keys()
    return made, removed, {name for name in before.keys() & after.keys() if before[name] != after[name]}


def fixed(rendered):
    """Return what an upgrade must not change, by StatefulSet."""
    return {
        name: {key: value for key, value in each["spec"].items() if key not in MUTABLE}
        for (kind, name), each in rendered.items()
        if kind == "StatefulSet"
    }


def restarted(before, after):
    """Return whose pods an upgrade replaces."""
    was, now = pod_templates(before), pod_templates(after)
    servers = {name for name in was.keys() & now.keys() if name.startswith("StatefulSet/")}
    return {name for name in servers if was[name] != now[name]}


def name_of(component, kind="StatefulSet"):
    return kind, f"{FULLNAME}-{component}"


@pytest.mark.parametrize(
    "values",
    [
        {"namesrv": {"replicas": 5}},
        {"commonLabels": {"team": "other"}},
        {"commonAnnotations": {"owner": "other"}},
        {"image": {"tag": "9.9.9"}},
        {"namesrv": {"podLabels": {"a": "b"}, "resources": {"limits": {"memory": "4Gi"}}}},
        {"history": {"volume": "shared"}},
        {"networkPolicy": {"enabled": False}},
        {"tls": {"enabled": True, "existingSecret": "a"}},
        {"controller": {"store": "etcd", "replicas": 3}, "etcd": {"endpoints": ["e:2379"]}},
        {"nameOverride": ""},
    ],
)
def test_an_upgrade_never_touches_what_kubernetes_holds_fixed(values):
    before, after = fixed(objects({})), fixed(objects(values))
    assert {name: after[name] for name in before} == before


def test_a_newer_chart_neither_restarts_pods_nor_changes_what_is_fixed(tmp_path):
    """Its version stands in labels: not in those of pods, selectors and claims."""
    archive = helm_python.package(CHART, destination=tmp_path, version="0.2.0")
    newer = helm_python.Chart.load(archive)
    texts = newer.render({}, name="rmq", namespace="mq")
    after = parsed(texts)
    before = objects({})
    assert changed(before, after) == (set(), set(), set(before)), "the version stands in all labels"
    assert fixed(after) == fixed(before)
    assert restarted(before, after) == set()


def test_a_property_of_nameservers_restarts_them_alone():
    before, after = objects({}), objects({"namesrv": {"config": {"scanNotActiveBrokerInterval": 5000}}})
    assert changed(before, after) == (set(), set(), {name_of("namesrv"), name_of("namesrv", "ConfigMap")})
    assert restarted(before, after) == {f"StatefulSet/{FULLNAME}-namesrv"}


def test_more_controllers_restart_nobody():
    values = merged(profile("production"), {"etcd": {"endpoints": ["e:2379"]}})
    before, after = objects(values), objects(merged(values, {"controller": {"replicas": 5}}))
    # Running consoles show the new ones from their next start on.
    lists = {name_of("namesrv", "ConfigMap"), name_of("controller", "ConfigMap")}
    assert changed(before, after) == (set(), set(), {name_of("controller"), *lists})
    assert restarted(before, after) == set()


def test_another_image_changes_servers_and_the_test_and_not_the_jobs():
    before, after = objects(EVERYTHING), objects(merged(EVERYTHING, {"image": {"digest": "sha256:" + "ff" * 32}}))
    assert changed(before, after) == (
        set(),
        set(),
        {name_of("namesrv"), name_of("controller"), name_of("offset-manager"), name_of("test", "Pod")},
    )


def test_probes_resources_and_budgets_change_only_the_server_they_are_of():
    probe = {"namesrv": {"probes": {"liveness": {"failureThreshold": 9}}}}
    assert changed(objects({}), objects(probe)) == (set(), set(), {name_of("namesrv")})
    budget = {"controller": {"podDisruptionBudget": {"maxUnavailable": 0}}}
    assert changed(objects({}), objects(budget)) == (set(), set(), {name_of("controller", "PodDisruptionBudget")})


def leaves(values, above=()):
    """Yield the paths of all values of a value set."""
    for key, value in values.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, (*above, key))
        else:
            yield (*above, key)


def with_value(values, path, value):
    """Return the values with another one at a path."""
    first, *rest = path
    return values | {first: with_value(values.get(first) or {}, rest, value) if rest else value}


def without(values, path):
    first, *rest = path
    below = without(values[first], rest) if rest else {}
    return {key: value for key, value in values.items() if key != first} | ({first: below} if below else {})


def default_of(path):
    value = yaml.safe_load((CHART / "values.yaml").read_text())
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def outcome(values):
    """Return what is rendered, or why not."""
    try:
        return render(values)
    except helm_python.HelmError as error:
        return str(error)


@pytest.mark.broad
def test_a_value_that_is_taken_out_again_returns_to_its_default():
    """Each of them, out of all: the others stay as they are."""
    for path in leaves(NEARLY_EVERYTHING):
        default = default_of(path)
        if default is not None:
            taken_out = outcome(without(NEARLY_EVERYTHING, path))
            assert taken_out == outcome(with_value(NEARLY_EVERYTHING, path, default)), ".".join(path)


@pytest.mark.broad
def test_a_value_set_to_null_is_refused_by_its_name_or_harmless():
    """Null takes away the default too, so templates find nothing there."""
    harmless, before = set(), objects(NEARLY_EVERYTHING)
    for row in values_table.rows((CHART / "values.yaml").read_text()):
        path = row.path.split(".")
        rendered_or_refused = outcome(with_value(NEARLY_EVERYTHING, path, None))
        if isinstance(rendered_or_refused, str):
            assert f"'{path[-1]}'" in rendered_or_refused, row.path
        else:
            harmless.add(path[-1])
            rendered = parsed(rendered_or_refused)
            others = [each for name, each in rendered.items() if each != before.get(name)]
            assert [found for each in others if (found := problems(each, KUBERNETES[-1]))] == [], row.path
    assert {"tolerations", "affinity", "podAnnotations", "commonLabels"} <= harmless
