"""Every object of the chart is one that Kubernetes takes."""

import re

import helm_python
import pytest
from rendered_chart import (
    CHART,
    EVERYTHING,
    KUBERNETES,
    VALUE_SETS,
    objects,
    objects_of,
    problems,
)

#: Names of objects that become part of a DNS name, with the number of a pod or an instance behind them.
NAME_CHARS_MAX = {"Service": 63, "StatefulSet": 63 - len("-0123456789") - len("-10"), "CronJob": 52}


def wrong(rendered, version):
    return {name: found for name, each in rendered.items() if (found := problems(each, version))}


@pytest.mark.parametrize("version", KUBERNETES)
def test_everything_is_valid_on_every_kubernetes(version):
    assert wrong(objects_of("everything"), version) == {}


@pytest.mark.parametrize("values", VALUE_SETS)
def test_every_value_set_is_valid_on_the_oldest_and_the_newest(values):
    assert wrong(objects_of(values), KUBERNETES[0]) == {}
    assert wrong(objects_of(values), KUBERNETES[-1]) == {}


def test_names_stay_within_their_limits_for_the_longest_release():
    rendered = objects(EVERYTHING, release="r" * 53)
    for kind, name in rendered:
        assert len(name) <= NAME_CHARS_MAX.get(kind, 253), f"{kind} {name}"
        assert re.fullmatch(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", name), name


@pytest.mark.parametrize("version", [KUBERNETES[0], KUBERNETES[-1]])
@pytest.mark.parametrize("values", ["defaults", "dev", "production", "everything"])
def test_helm_finds_no_fault(values, version):
    report = helm_python.lint(CHART, VALUE_SETS[values], strict=True, kube_version=f"v{version}.0")
    assert report["errors"] == []
    # An icon is recommended, and there is none.
    assert [each for each in report["messages"] if each["severity"] > 1] == []
