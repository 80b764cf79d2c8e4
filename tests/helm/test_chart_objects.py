"""Every object of the chart is one that Kubernetes takes."""

import re

import helm_python
import pytest
from rendered_chart import (
    CHART,
    CUSTOM_RESOURCES,
    EVERYTHING,
    KUBERNETES,
    NAMESPACE,
    VALUE_SETS,
    objects,
    objects_of,
    problems,
    render,
)
from yamllint import linter
from yamllint.config import YamlLintConfig

#: What no schema of Kubernetes knows.
CUSTOM = {"ServiceMonitor", "PrometheusRule"}
#: Names of objects that become part of a DNS name, with the number of a pod or an instance behind them.
NAME_CHARS_MAX = {"Service": 63, "StatefulSet": 63 - len("-0123456789") - len("-10"), "CronJob": 52}

LINT = YamlLintConfig("""
extends: relaxed
rules:
  line-length: disable
  key-duplicates: {level: error}
  # Helm's toYaml writes lists as it likes.
  indentation: disable
  empty-lines: disable
  trailing-spaces: disable
  new-line-at-end-of-file: disable
""")


def wrong(rendered, version):
    return {name: found for name, each in rendered.items() if (found := problems(each, version))}


@pytest.mark.parametrize("version", KUBERNETES)
def test_everything_is_valid_on_every_kubernetes(version):
    assert wrong(objects_of("everything"), version) == {}


@pytest.mark.parametrize("values", VALUE_SETS)
def test_every_value_set_is_valid_on_the_oldest_and_the_newest(values):
    assert wrong(objects_of(values), KUBERNETES[0]) == {}
    assert wrong(objects_of(values), KUBERNETES[-1]) == {}


def test_the_schemas_see_a_wrong_field_an_unknown_kind_and_a_wrong_custom_resource():
    rendered = objects_of("everything")
    (budget,) = (each for (kind, name), each in rendered.items() if kind == "PodDisruptionBudget" and "namesrv" in name)
    assert "unhealthyPods" in problems(budget | {"spec": budget["spec"] | {"unhealthyPods": 1}}, "1.30")[0]
    assert "policy/v1beta1" in problems(budget | {"apiVersion": "policy/v1beta1"}, "1.30")[0]
    (monitor, *_) = (each for (kind, _), each in rendered.items() if kind == "ServiceMonitor")
    assert "selectors" in problems(monitor | {"spec": monitor["spec"] | {"selectors": {}}}, "1.30")[0]


def test_only_known_custom_resources_are_made():
    made = {kind for kind, _ in objects_of("everything")}
    ours = {path.stem for path in CUSTOM_RESOURCES.glob("*.json")}
    assert ours == {kind.lower() for kind in CUSTOM}
    assert {each["kind"] for each in objects_of("everything").values() if "coreos" in each["apiVersion"]} <= CUSTOM
    assert {"StatefulSet", "PodDisruptionBudget", "NetworkPolicy", "CronJob", "ServiceMonitor", "Service"} <= made


@pytest.mark.parametrize("values", VALUE_SETS)
def test_all_objects_are_in_the_namespace_of_the_release(values):
    assert {each["metadata"]["namespace"] for each in objects_of(values).values()} == {NAMESPACE}


def test_names_stay_within_their_limits_for_the_longest_release():
    rendered = objects(EVERYTHING, release="r" * 53)
    for kind, name in rendered:
        assert len(name) <= NAME_CHARS_MAX.get(kind, 253), f"{kind} {name}"
        assert re.fullmatch(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", name), name


@pytest.mark.parametrize("values", VALUE_SETS)
def test_what_is_rendered_is_clean_yaml(values):
    for path, text in render(VALUE_SETS[values]).items():
        if path.endswith(".yaml"):
            errors = [problem for problem in linter.run(text, LINT) if problem.level == "error"]
            assert errors == [], path


@pytest.mark.parametrize("file", sorted(CHART.glob("*.yaml")), ids=lambda path: path.name)
def test_values_files_are_clean_yaml(file):
    assert (
        list(linter.run(file.read_text(), YamlLintConfig("extends: relaxed\nrules: {line-length: {max: 140}}"))) == []
    )


@pytest.mark.parametrize("version", [KUBERNETES[0], KUBERNETES[-1]])
@pytest.mark.parametrize("values", ["defaults", "dev", "production", "everything"])
def test_helm_finds_no_fault(values, version):
    report = helm_python.lint(CHART, VALUE_SETS[values], strict=True, kube_version=f"v{version}.0")
    assert report["errors"] == []
    # An icon is recommended, and there is none.
    assert [each for each in report["messages"] if each["severity"] > 1] == []
