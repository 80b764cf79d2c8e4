"""What `rmq sample` can be told, and what it says to what it cannot do."""

import re
from pathlib import Path

import pytest

from remoting.protocol.addresses import named_addresses
from remoting.protocol.signing import Credentials, Signer
from rmq.commands.sample import TOPICS_MAX
from rmq.sampling import service

NEEDED = {"--namesrv": "ns1:9876", "--topics": "orders", "--history": "/h"}
KEYS = {"RMQ_SAMPLER_BROKER_ACCESS_KEY": "somebody", "RMQ_SAMPLER_BROKER_SECRET_KEY": "hunter2"}


@pytest.fixture
def sample(run_here, monkeypatch):
    """Runs the command; returns the options of the sampler that it would start, or its exit code and its complaint."""
    started = []

    async def serve(options):
        started.append(options)

    monkeypatch.setattr(service, "serve", serve)
    monkeypatch.setattr("socket.gethostname", lambda: "a host:1")

    def run(environment=None, **changed):
        for name, value in (environment or {}).items():
            monkeypatch.setenv(name, value)
        words = NEEDED | {f"--{name.replace('_', '-')}": value for name, value in changed.items()}
        ran = run_here("sample", *(str(word) for pair in words.items() if pair[1] is not None for word in pair))
        return started.pop() if started else (ran.code, " ".join(ran.err.split()))

    return run


def test_repeated_list_items_count_once(sample):
    options = sample(namesrv=" ns1:9876;ns2:9876;", topics="a, b,a,,ns%c")
    assert options.name_servers == ("ns1:9876", "ns2:9876")
    assert options.topics == ("a", "b", "ns%c")


def test_default_name_is_the_host_and_default_interval_a_minute(sample):
    options = sample()
    assert (options.name, options.interval_s, options.history) == ("sampler_a_host_1", 60, Path("/h"))


def test_history_folder_expands_the_home_folder(sample):
    assert sample(history="~/h").history == Path("~/h").expanduser()


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"topics": None}, "Missing option '--topics'"),
        ({"history": None}, "with --history"),
        ({"topics": " , "}, "give the topics to sample"),
        (
            {"topics": ",".join(f"t{n}" for n in range(TOPICS_MAX + 1))},
            "201 topics are more than 200: .*another --name",
        ),
        ({"topics": "a;b"}, "a;b is not a topic: separate topics by commas"),
        ({"history": "hdfs://nn/h"}, "hdfs://nn/h is a URI: .* local or mounted folder"),
        ({"interval": "0"}, "0 is not in the range 1<=x<=3600"),
        ({"name": "a/b"}, "a/b must consist of at most 100 letters, digits"),
    ],
)
def test_invalid_options_are_refused_with_advice(sample, changed, reason):
    code, complaint = sample(**changed)
    assert (code, bool(re.search(reason, complaint))) == (2, True), complaint


def test_samples_are_not_taken_over_tls(sample):
    assert sample(tls_ca="/ca.pem") == (6, "rmq: rmq sample does not support TLS")


def test_requests_are_unsigned_without_keys(sample):
    assert sample().signer is None
    assert sample(broker_access_addresses="10.0.0.0/8").signer is None


def test_keys_are_read_from_files(sample, tmp_path):
    (tmp_path / "user").write_text("somebody\n")
    (tmp_path / "password").write_text("a secret\n")
    signer = Signer(credentials=Credentials("somebody", "a secret"), named=named_addresses("10.0.0.0/8"))
    files = {"broker_access_key_path": tmp_path / "user", "broker_secret_key_path": tmp_path / "password"}
    assert sample(broker_access_addresses="10.0.0.0/8", **files).signer == signer
    named = {f"RMQ_SAMPLER_{name.upper()}": str(path) for name, path in files.items()}
    assert sample(named, broker_access_addresses="10.0.0.0/8").signer == signer


def test_keys_are_read_from_the_environment(sample):
    signer = Signer(credentials=Credentials("somebody", "hunter2"), named=named_addresses("10.0.0.0/8"))
    assert sample(KEYS, broker_access_addresses="10.0.0.0/8").signer == signer
    assert sample({"RMQ_SAMPLER_BROKER_ACCESS_ADDRESSES": "10.0.0.0/8"}).signer == signer


@pytest.mark.parametrize(
    ("addresses", "reason"), [(None, "10.0.0.0/16: RMQ_SAMPLER_BROKER_ACCESS_ADDRESSES"), ("10.0.0.1/8", "must be IP")]
)
def test_keys_without_addresses_are_refused(sample, addresses, reason):
    code, complaint = sample(KEYS, broker_access_addresses=addresses)
    assert (code, reason in complaint, "hunter2" in complaint) == (2, True, False)


@pytest.mark.parametrize("given", ["ACCESS", "SECRET"])
def test_single_key_is_refused_without_showing_it(sample, given):
    code, complaint = sample({f"RMQ_SAMPLER_BROKER_{given}_KEY": "hunter2"})
    assert (code, "need both" in complaint, "hunter2" in complaint) == (2, True, False)
    assert "RMQ_SAMPLER_BROKER_SECRET_KEY" in complaint


def test_missing_key_file_is_named(sample):
    code, complaint = sample({"RMQ_SAMPLER_BROKER_ACCESS_KEY": "somebody"}, broker_secret_key_path="/nowhere/key")
    assert (code, "--broker-secret-key-path: /nowhere/key cannot be read" in complaint) == (2, True)
