"""The Dockerfile, as far as it can be judged where no daemon builds it."""

import json
import re
import tomllib

import pytest
from rendered_chart import EVERYTHING, REPOSITORY, objects, pod_specs

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
