"""The Dockerfile, as far as it can be judged where no daemon builds it."""

import json
import re
import tomllib

import pytest
from rendered_chart import EVERYTHING, REPOSITORY, objects, pod_specs

from serving import __version__

PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
#: Instructions, each on one line.
INSTRUCTIONS = re.sub(r"\\\n\s*", " ", (REPOSITORY / "Dockerfile").read_text()).splitlines()


def arguments(instruction, stage=None):
    """Return the arguments of each such instruction, of one stage or of all."""
    found, now = [], None
    for line in INSTRUCTIONS:
        word, _, rest = line.partition(" ")
        if word == "FROM":
            now = rest.split(" AS ")[1]
        if word == instruction and stage in (None, now):
            found.append(rest)
    return found


def sources():
    """Return what is copied out of the repository."""
    copied = [line.split() for line in arguments("COPY") if not line.startswith("--from")]
    return [source for words in copied for source in words[:-1]]


def test_all_that_is_copied_exists():
    assert [source for source in sources() if not (REPOSITORY / source).exists()] == []


def test_every_package_of_the_distribution_is_copied():
    packages = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    files = [PROJECT["project"]["readme"], *PROJECT["project"]["license-files"], "pyproject.toml"]
    assert sorted(sources()) == sorted([f"{package}/" for package in packages] + files)


def test_the_build_is_shown_nothing_but_what_is_copied():
    lines = (REPOSITORY / ".dockerignore").read_text().splitlines()
    assert lines[1] == "*"
    assert sorted(line[1:] for line in lines if line.startswith("!")) == sorted(sources())


def test_each_stage_stands_on_one_before_it_or_on_python():
    known = set()
    for line in arguments("FROM"):
        base, name = line.split(" AS ")
        assert base in known or re.fullmatch(r"python:\$\{PYTHON_VERSION\}-slim-\$\{DEBIAN_RELEASE\}", base)
        known.add(name)
    for line in arguments("COPY"):
        if line.startswith("--from="):
            assert line.split()[0].removeprefix("--from=") in known


def test_the_python_of_the_image_is_one_that_the_project_takes():
    (version,) = (line.split("=")[1] for line in arguments("ARG") if line.startswith("PYTHON_VERSION"))
    assert PROJECT["project"]["requires-python"] == f">={version}"


@pytest.mark.parametrize("stage", ["servers", "analytics"])
def test_images_run_as_nobody_in_particular_and_without_a_shell(stage):
    assert arguments("USER", stage) == ["10001:10001"]
    assert INSTRUCTIONS.index("USER 10001:10001") > 0
    (command,) = arguments("CMD", stage)
    assert isinstance(json.loads(command), list)
    assert arguments("USER", "runtime") == arguments("ENTRYPOINT") == []


def test_the_user_of_the_images_is_the_one_that_pods_run_as():
    (made,) = (line for line in arguments("RUN", "runtime") if "useradd" in line)
    for spec in pod_specs(objects(EVERYTHING)).values():
        assert f"--uid {spec['securityContext']['runAsUser']} " in made
        assert f"--gid {spec['securityContext']['runAsGroup']} " in made


def started_programs():
    """Return what images and pods start, but for etcd and python itself."""
    by_images = {json.loads(line)[0] for line in arguments("CMD")}
    by_pods = {each["command"][0] for spec in pod_specs(objects(EVERYTHING)).values() for each in spec["containers"]}
    return (by_images | by_pods) - {"python"}


def test_what_images_and_pods_start_are_programs_of_the_distribution():
    assert started_programs() == {"rmq-namesrv", "rmq-controller", "rmq-offset-manager", "rmq-analytics"}
    assert started_programs() <= set(PROJECT["project"]["scripts"])


def test_the_analytics_image_has_the_extra_and_a_java():
    assert any(".[analytics]" in line for line in arguments("RUN", "build-analytics"))
    assert "analytics" in PROJECT["project"]["optional-dependencies"]
    assert any("openjdk-17-jre-headless" in line for line in arguments("RUN", "analytics"))


def test_the_servers_are_what_is_built_by_default():
    assert arguments("FROM")[-1].endswith(" AS servers")


def test_ports_and_labels_are_declared():
    assert arguments("EXPOSE", "servers") == ["9876 9880 9878 9881"]
    (labels,) = arguments("LABEL")
    for name in ("title", "description", "licenses", "version", "revision"):
        assert f"org.opencontainers.image.{name}=" in labels
    assert f"VERSION={__version__}" in arguments("ARG", "runtime")
