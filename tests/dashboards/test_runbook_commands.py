"""The commands on the pages of alerts: programs, options and paths are those that there are."""

import re
from pathlib import Path

import pytest
from runbook_commands import asking_servers, everything, pages
from server_paths import CONTROLLER_ENDPOINTS, NAMESRV_ENDPOINTS, OFFSET_MANAGER_ENDPOINTS

from rmq.cli.command_line import root
from rmq.commands.table import COMMANDS
from rmq.failures import NotReachable, WrongUse

#: Commands of RocketMQ 5.5.0 with their options: `mqadmin help COMMAND`.
MQADMIN = {
    words[0]: set(words[1:])
    for words in map(str.split, Path(__file__).with_name("mqadmin_5.5.0.txt").read_text().splitlines())
}
OF_SHELLS = {"h", "n"}
#: The servers by the names that stand for them.
ENDPOINTS_OF = {"N": NAMESRV_ENDPOINTS, "H": CONTROLLER_ENDPOINTS, "M": OFFSET_MANAGER_ENDPOINTS}


#: What stands for a part of a path.
PART = re.compile(r"\{\w+\}|\$[A-Z_]+")


def called(program):
    return [
        pytest.param(words, id=f"{typed.page}: {' '.join(words)}")
        for typed in everything()
        for words in typed.commands(program)
    ]


def parsed(parser, words):
    """Return what a program understands; it leaves with a sentence where it does not."""
    return parser.parse_args([word.replace("$FROM", "2026-11-21").replace("$TO", "2026-11-22") for word in words])


@pytest.mark.parametrize("words", called("mqadmin"))
def test_mqadmin_has_the_command_and_its_options(words):
    assert {word for word in words[1:] if word.startswith("-")} <= MQADMIN[words[0]]


@pytest.mark.parametrize("words", called("rmq"))
def test_rmq_understands(words, monkeypatch):
    """It finds everything right until it looks for the folder, or for servers."""
    for variable in ("NAMESRV_ADDR", "RMQ_CONTROLLER"):
        monkeypatch.setenv(variable, "127.0.0.1:1")
    for variable in ("RMQ_CONTROLLER_HTTP", "RMQ_OFFSET_MANAGER"):
        monkeypatch.setenv(variable, "http://127.0.0.1:1")
    words = ["7" if word in ("$RUN", "RUN") else word for word in words]
    replaced = [word.replace("$FROM", "2026-11-21").replace("$TO", "2026-11-22") for word in words]
    with pytest.raises((WrongUse, NotReachable), match=r"there is no history in \$HISTORY_FOLDER|127.0.0.1:1: "):
        root(COMMANDS).main(replaced, prog_name="rmq", standalone_mode=False)


@pytest.mark.parametrize("words", called("rmq-analytics"))
def test_rmq_analytics_understands(words):
    analytics = pytest.importorskip("analytics.__main__")
    tasks = {task.name for task in analytics.TASKS}
    assert words[0] in tasks
    if words[1:]:
        assert parsed(analytics._parser(), words).history == "$HISTORY_FOLDER"


def test_commands_of_this_project_are_found():
    assert {"mqadmin", "rmq", "rmq-analytics"} == {
        program for program in ("mqadmin", "rmq", "rmq-analytics") if called(program)
    }


@pytest.mark.parametrize("typed", asking_servers(), ids=str)
def test_a_server_has_the_path_with_its_parameters(typed):
    requests = re.findall(r"\$(N|n|H|h|M)(/[\w/$.-]+)\??([\w=&$]*)", typed.text)
    assert requests or "$ETCD/metrics" in typed.text or '"$PROMETHEUS/api/v1/' in typed.text
    for server, path, query in requests:
        endpoints = ENDPOINTS_OF[server.upper()]
        known = {PART.sub("*", each.path): each for each in endpoints if each.method == "GET"}
        assert PART.sub("*", path) in known
        parameters = {parameter.name for parameter in known[PART.sub("*", path)].parameters or ()}
        assert {each.partition("=")[0] for each in query.split("&") if each} <= parameters


def test_the_readme_explains_every_name_that_stands_for_something():
    explained = set(re.findall(r"\$\w+", re.search(r"^\| \|.*?\n\n", pages()["README"], re.MULTILINE | re.DOTALL)[0]))
    used = {name for typed in everything() for name in re.findall(r"\$[A-Za-z]\w*", typed.text)}
    in_loops = {f"${name}" for name in OF_SHELLS}
    assert used - in_loops <= explained
    assert explained <= used | {"$CLUSTER"}
