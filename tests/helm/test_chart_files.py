"""The chart as files: links to boards and rules, a package that can be installed."""

import tarfile

import helm_python
import pytest
import yaml
from rendered_chart import CHART, FULLNAME, NAMESPACE, RELEASE, chart

from serving import __version__

#: Folder of the chart -> where its files are linked from, and which of them.
LINKED = {"dashboards": ("json", "*.json"), "rules": ("prometheus", "*.yaml")}


@pytest.mark.parametrize("folder", LINKED)
def test_chart_links_each_board_and_rule_of_the_repository(folder):
    source, pattern = LINKED[folder]
    wanted = sorted((CHART.parents[1] / "dashboards" / source).glob(pattern))
    present = sorted((CHART / folder).iterdir())
    assert [path.resolve() for path in present] == wanted
    assert all(path.is_symlink() for path in present)


def test_packaged_chart_holds_the_contents_of_what_it_links(tmp_path):
    with tarfile.open(helm_python.package(CHART, destination=tmp_path)) as archive:
        for folder in LINKED:
            for path in (CHART / folder).iterdir():
                member = archive.getmember(f"rocketmq-control-plane/{folder}/{path.name}")
                assert member.isfile()
                assert archive.extractfile(member).read() == path.read_bytes()


def test_the_chart_is_of_the_release_of_the_servers():
    assert chart().metadata["appVersion"] == __version__
    assert chart().metadata["kubeVersion"] == ">=1.27-0"


def test_the_packaged_chart_renders_the_same(tmp_path):
    archive = helm_python.package(CHART, destination=tmp_path)
    assert archive.endswith(f"rocketmq-control-plane-{chart().version}.tgz")
    packaged = helm_python.Chart.load(archive)
    assert packaged.render({}, name=RELEASE, namespace=NAMESPACE) == chart().render(
        {}, name=RELEASE, namespace=NAMESPACE
    )


def test_the_script_of_the_test_pod_is_handed_over_as_it_is():
    texts = chart().render({}, name=RELEASE, namespace=NAMESPACE)
    (script, pod) = yaml.safe_load_all(texts["rocketmq-control-plane/templates/tests/connection.yaml"])
    assert script["data"]["connection.py"].strip() == (CHART / "files" / "connection.py").read_text().strip()
    assert pod["metadata"]["annotations"]["helm.sh/hook"] == "test"
    assert pod["spec"]["volumes"][0]["configMap"]["name"] == script["metadata"]["name"] == f"{FULLNAME}-test"
