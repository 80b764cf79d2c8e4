"""One odd row in the answers of a NameServer, which any stranger may have registered there, and what `rmq` shows."""

import asyncio
import json
import os
import sys

import pytest
from fakes.answering_peer import peers, refusal, success

CLUSTERS = {
    "brokerAddrTable": {
        "broker-a": {"brokerName": "broker-a", "cluster": "c", "brokerAddrs": {"0": "127.0.0.1:1"}},
        "evil\x9b2J": {"brokerName": "evil", "cluster": None, "brokerAddrs": {"0": "127.0.0.1:1"}},
    },
    "clusterAddrTable": {"c": ["broker-a", None]},
}
BODIES = {106: CLUSTERS, 206: {"topicList": ["Orders", None]}, 304: {"topicList": ["c", None]}}


def answer(code, _):
    return success(BODIES[code]) if code in BODIES else refusal(3)


@pytest.mark.parametrize(
    ("words", "good", "sentences", "code"),
    [
        (["broker", "list"], "broker-a", 1, None),
        (["topic", "list"], "Orders", 1, 0),
        (["mqadmin", "clusterList"], "broker-a", 1, None),
        (["broker", "drain-write", "broker-a", "--dry-run"], "broker-a", 1, 0),
    ],
)
async def test_odd_row_is_named_and_hides_no_other(words, good, sentences, code, tmp_path):
    async with peers(answer) as [name_server]:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "rmq", *words, "-n", name_server.address),
            env=os.environ | {"HOME": str(tmp_path), "RMQ_OFFSET_MANAGER": "", "RMQ_TIMEOUT": "20"},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = (text.decode() for text in await process.communicate())

    assert good in out, (out, err)
    assert err.count("rows of the answer that cannot be read are left out") == sentences, err
    assert "\x9b" not in out + err
    assert code in {process.returncode, None}, json.dumps([out, err])
