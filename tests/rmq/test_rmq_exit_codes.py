"""Every exit code of docs/rmq.md, and a sentence instead of a traceback whatever the server is."""

import re
import signal
import subprocess
import sys

import pytest
from answering_peer import AnsweringPeer, answer
from peers.etcd import certificate
from peers.jars import REPOSITORY
from peers.lab import Lab
from peers.programs import require
from peers.servers import OurNameServer
from peers.waiting import wait_until
from rmq_brokers import SITE, TOPIC_CONFIG, UPDATE_TOPIC
from rmq_runs import Rmq

from rmq.cli.command_line import Noun
from rmq.commands.table import COMMANDS
from rmq.failures import ExitCode
from rmq.site.settings import VARIABLES

CLUSTER_INFO = 106
PUT_KV = 100
ALL_TOPICS = 206
KV_LIST = 219


@pytest.fixture
def rmq(tmp_path):
    return Rmq(tmp_path / "operator")


@pytest.fixture
def peer():
    """Something that listens where a NameServer is expected."""
    started = []

    def start(answers):
        started.append(AnsweringPeer(answers))
        return started[-1].address

    yield start
    for each in started:
        each.close()


def test_codes_are_those_of_the_document():
    rows = re.findall(r"^\| (\d+) \|", (REPOSITORY / "docs" / "rmq.md").read_text(), re.MULTILINE)

    assert [int(row) for row in rows] == sorted(ExitCode)


def test_no_server_is_not_reachable_and_says_how_to_name_one(rmq):
    ran = rmq.run("topic", "list", "-n", "127.0.0.1:1")

    assert (ran.code, ran.err) == (3, "rmq: 127.0.0.1:1: cannot connect: connection refused\n")


def test_unknown_host_is_not_reachable(rmq):
    assert rmq.run("topic", "list", "-n", "no-such-host.invalid:9876").code == 3


@pytest.mark.parametrize(
    ("answers", "code", "sentence"),
    [
        ({KV_LIST: answer("{")}, 1, "the answer cannot be read"),
        ({KV_LIST: answer('{"table":7}')}, 1, "the answer cannot be read"),
        ({KV_LIST: answer(code=1, remark="disable\nat java.lang")}, 1, "refused with code 1: disable\n"),
        ({KV_LIST: answer(code=16, remark="no right")}, 5, "refused with code 16: no right"),
        ({KV_LIST: answer(code=1, remark="org.apache.rocketmq.acl.common.AclException: x")}, 5, "AclException"),
        ({}, 6, "does not know this request"),
    ],
)
def test_every_answer_has_its_code_and_sentence(rmq, peer, answers, code, sentence):
    ran = rmq.run("kv", "list", "N", "-n", peer(answers))

    assert (ran.code, sentence in ran.err) == (code, True), ran


def test_silent_server_is_not_reachable_after_the_timeout(rmq, peer):
    ran = rmq.run("topic", "list", "-n", peer({ALL_TOPICS: None, CLUSTER_INFO: None}), "--timeout", "0.3")

    assert (ran.code, "no answer within 300 ms" in ran.err) == (3, True)


def test_refusal_with_escape_sequences_does_not_reach_the_terminal(rmq, peer):
    ran = rmq.run("topic", "list", "-n", peer({ALL_TOPICS: answer(code=1, remark="\x1b]0;title\x07")}))

    assert (ran.code, "\x1b" in ran.err, r"\x1b]0;title\x07" in ran.err) == (1, False, True)


def test_part_of_a_change_is_partly_done(rmq, peer):
    broker = peer({UPDATE_TOPIC: answer(), TOPIC_CONFIG: answer(code=17)})
    away = {"cluster": "C", "brokerName": "b", "brokerAddrs": {"0": "127.0.0.1:1"}}
    here = {"cluster": "C", "brokerName": "a", "brokerAddrs": {"0": broker}}
    brokers = answer({"brokerAddrTable": {"a": here, "b": away}, "clusterAddrTable": {"C": ["a", "b"]}})
    namesrv = peer({CLUSTER_INFO: brokers, 105: answer(code=17)})
    ran = rmq.run("topic", "create", "T", "--cluster", "C", "--yes", "-n", namesrv)

    assert ran.code == 7
    assert ran.err == "rmq: 1 of 2 changes are done; failed at 127.0.0.1:1\n"


def test_broker_without_a_request_is_not_supported(rmq, peer):
    broker = peer({})
    here = {"cluster": "C", "brokerName": "a", "brokerAddrs": {"0": broker}}
    namesrv = peer({CLUSTER_INFO: answer({"brokerAddrTable": {"a": here}, "clusterAddrTable": {"C": ["a"]}})})

    assert rmq.run("broker", "show", "a", "-n", namesrv).code == 6
    assert rmq.run("broker", "show", "z", "-n", namesrv).code == 4
    assert rmq.run("broker", "show", broker, "-n", namesrv).code == 6


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("topic",),
        ("nonsense",),
        ("topic", "list", "--timeout", "soon"),
        ("config", "set", "namesrv", "noEquals"),
        ("topic", "create", "T", "--attribute", "x", "--broker", "b"),
    ],
)
def test_wrong_use_is_two(rmq, peer, words):
    namesrv = peer({CLUSTER_INFO: answer({"brokerAddrTable": {}, "clusterAddrTable": {}})})
    rmq.environment["NAMESRV_ADDR"] = namesrv
    ran = rmq.run(*words)

    # The last one names a broker that is not there: that is found first.
    assert ran.code == (4 if "create" in words else 2), ran
    assert ran.err
    assert "\\x0a" not in ran.err


@pytest.mark.parametrize(
    ("words", "redirection", "code", "sentence"),
    [
        ("nonsense", "> /dev/full", 2, "no command nonsense"),
        ("topic list -o json", "> /dev/full", 1, "No space left on device"),
        ("topic list", ">&-", 0, ""),
        ("kv put N k v", "<&-", 2, "Add --yes to do it"),
        ("mqadmin topicList", "| true", 0, ""),
    ],
)
def test_streams_that_are_closed_or_full_end_in_a_sentence(rmq, peer, words, redirection, code, sentence):
    namesrv = peer({ALL_TOPICS: answer({"topicList": ["T"]}), CLUSTER_INFO: SITE})
    rmq.environment["NAMESRV_ADDR"] = namesrv
    command = f"set -o pipefail; {sys.executable} -m rmq {words} {redirection}"
    ran = subprocess.run(
        ["bash", "-c", command], env=rmq.environment, stderr=subprocess.PIPE, text=True, timeout=60, check=False
    )

    assert (ran.returncode, sentence in ran.stderr, "Traceback" in ran.stderr) == (code, True, False), ran


def test_interrupt_is_130(rmq, peer):
    silent = AnsweringPeer({ALL_TOPICS: None, CLUSTER_INFO: None})
    command = [sys.executable, "-m", "rmq", "topic", "list", "-n", silent.address, "--timeout", "60"]
    process = subprocess.Popen(command, env=rmq.environment, stderr=subprocess.PIPE, text=True)
    try:
        wait_until(lambda: silent.received, seconds=60, what="the request")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    finally:
        silent.close()

    assert (process.returncode, err) == (130, "\n")


def test_interrupt_while_it_starts_is_130_and_no_traceback(rmq, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "import signal, sys\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'rmq.commands.table':\n"
        "            signal.raise_signal(signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupting())\n"
    )
    rmq.environment["PYTHONPATH"] = f"{tmp_path}:{rmq.environment['PYTHONPATH']}"
    ran = rmq.run("topic", "list")

    assert (ran.code, ran.err) == (130, ""), ran


def test_value_may_be_blank(rmq, peer):
    namesrv = peer({PUT_KV: answer()})
    ran = rmq.run("kv", "put", "NS", "key", "", "--yes", "-n", namesrv)

    assert ran.code == 0, ran


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    """A NameServer that insists on TLS, its certificate, and that of somebody else."""
    require("openssl")
    folder = tmp_path_factory.mktemp("tls")
    authority, cert, key = certificate(folder, "own")
    tls = folder / "tls.properties"
    tls.write_text(f"tls.test.mode.enable=false\ntls.server.certPath={cert}\ntls.server.keyPath={key}\n")
    lab = Lab(folder)
    server = lab.kept(OurNameServer(folder, tls_mode="enforcing", **{"tls.config.file": tls}))
    try:
        yield server.start(), authority, certificate(folder, "other")[0]
    finally:
        lab.close()


def test_tls_with_its_authority_and_without_a_look_at_it_is_answered(rmq, secured):
    server, authority, _ = secured

    assert rmq.run("config", "get", "namesrv", "-n", server.address, "--tls-ca", authority).code == 0
    assert rmq.run("config", "get", "namesrv", "-n", server.address, "--tls").code == 0


def test_certificate_of_nobody_known_is_no_rights(rmq, secured):
    server, _, other = secured
    ran = rmq.run("cluster", "list", "-n", server.address, "--tls-ca", other)

    assert (ran.code, "no TLS session" in ran.err) == (5, True), ran


def test_plain_request_where_tls_is_enforced_names_the_option(rmq, secured):
    ran = rmq.run("cluster", "list", "-n", secured[0].address)

    assert (ran.code, "--tls" in ran.err) == (3, True), ran


def test_tls_to_a_plain_server_names_the_option(rmq, server_without_tls):
    ran = rmq.run("cluster", "list", "-n", server_without_tls.address, "--tls")

    assert (ran.code, "does the server speak TLS" in ran.err) == (5, True), ran


@pytest.fixture
def server_without_tls(tmp_path):
    lab = Lab(tmp_path)
    try:
        yield lab.kept(OurNameServer(tmp_path, tls_mode="disabled")).start()
    finally:
        lab.close()


def test_fault_of_ours_is_a_sentence(rmq, tmp_path):
    """A home folder that is a file is nothing that the command expects."""
    rmq.environment["RMQ_CONFIG"] = str(tmp_path)
    ran = rmq.run("topic", "list")

    assert (ran.code, "cannot be read" in ran.err) == (2, True), ran


def test_requests_are_signed_with_the_keys_of_a_file(rmq, tmp_path):
    broker = AnsweringPeer({ALL_TOPICS: answer({"topicList": []}), CLUSTER_INFO: SITE})
    keys = tmp_path / "tools.yml"
    keys.write_text("accessKey: operator\nsecretKey: password\n")
    keys.chmod(0o600)
    try:
        code = rmq.run("topic", "list", "-n", broker.address, "--access-key-file", str(keys)).code
    finally:
        broker.close()

    signed = [fields for _, fields in broker.received]
    assert (code, {fields["AccessKey"] for fields in signed}) == (0, {"operator"})
    assert all(fields["Signature"] for fields in signed)


def test_unknown_command_is_answered_with_names_like_it(rmq):
    assert "no command topik; did you mean topic?" in rmq.run("topik", "list").err
    assert "no command lst; did you mean list?" in rmq.run("topic", "lst").err


def test_argument_that_is_no_utf_8_is_wrong_use(rmq):
    ran = rmq.run("topic", "route", b"\xff".decode(errors="surrogateescape"))

    assert (ran.code, "argument 3 is not UTF-8" in ran.err) == (2, True), ran


def test_command_loads_nothing_that_only_others_need(rmq):
    """Each of these takes 5 to 150 ms, of the 0.3 s in which a command answers."""
    slow = {"aiohttp", "csv", "http.client", "rich", "rmq.commands.config", "tomllib", "uvloop"}
    code = (
        "import sys; sys.argv = ['rmq', 'topic', 'list', '-n', '127.0.0.1:1']\n"
        "from rmq.__main__ import main\n"
        "try: main()\n"
        "except SystemExit: print(*sys.modules)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], env=rmq.environment, capture_output=True, text=True, timeout=60, check=True
    )

    assert slow & set(ran.stdout.split()) == set()
    assert "rmq.commands.topics" in ran.stdout


def test_document_names_every_command_and_variable():
    text = (REPOSITORY / "docs" / "rmq.md").read_text()
    commands = [
        f"{name} {verb}"
        for name, entry in COMMANDS.items()
        for verb in (entry.verbs if isinstance(entry, Noun) else [""])
    ]

    assert [each for each in commands if f"`{each.strip()}" not in text] == []
    assert [each for each in VARIABLES.values() if f"`{each}`" not in text] == []
