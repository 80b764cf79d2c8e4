"""The chart as files: copies that are equal, a package that can be installed."""

import json
import tarfile

import helm_python
import pytest
import yaml
from rendered_chart import CHART, FULLNAME, NAMESPACE, RELEASE, chart

from helm import sync
from serving import __version__


def test_the_chart_holds_the_dashboards_and_alerts_of_the_repository():
    """Renewed by `python helm/sync.py`."""
    wanted, present = sync.wanted_files(), sync.present_files()
    assert sorted(path.name for path in present) == sorted(path.name for path in wanted)
    assert [path.name for path, content in wanted.items() if present[path] != content] == []


def test_dashboards_and_alerts_that_are_copied_can_be_read():
    for path, content in sync.present_files().items():
        if path.suffix == ".json":
            assert json.loads(content)["uid"]
        else:
            assert set(yaml.safe_load(content)) == {"groups"}


def test_the_chart_is_of_the_release_of_the_servers():
    assert chart().metadata["appVersion"] == __version__
    assert chart().metadata["kubeVersion"] == ">=1.27-0"


def test_the_chart_needs_nothing_that_is_not_in_it():
    assert helm_python.dependency_list(CHART) == []


def test_the_packaged_chart_renders_the_same(tmp_path):
    archive = helm_python.package(CHART, destination=tmp_path)
    assert archive.endswith(f"rocketmq-control-plane-{chart().version}.tgz")
    packaged = helm_python.Chart.load(archive)
    assert packaged.render({}, name=RELEASE, namespace=NAMESPACE) == chart().render(
        {}, name=RELEASE, namespace=NAMESPACE
    )


@pytest.mark.parametrize("name", ["values-dev.yaml", "values-production.yaml", "values-tls.yaml", "README.md"])
def test_profiles_and_readme_are_in_the_package(tmp_path, name):
    with tarfile.open(helm_python.package(CHART, destination=tmp_path)) as archive:
        assert f"rocketmq-control-plane/{name}" in archive.getnames()


def test_the_script_of_the_test_pod_is_handed_over_as_it_is():
    texts = chart().render({}, name=RELEASE, namespace=NAMESPACE)
    (script, pod) = yaml.safe_load_all(texts["rocketmq-control-plane/templates/tests/connection.yaml"])
    assert script["data"]["connection.py"].strip() == (CHART / "files" / "connection.py").read_text().strip()
    assert pod["metadata"]["annotations"]["helm.sh/hook"] == "test"
    assert pod["spec"]["volumes"][0]["configMap"]["name"] == script["metadata"]["name"] == f"{FULLNAME}-test"
