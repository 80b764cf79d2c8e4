"""The requests of docs/offsets.md, sent one after the other to a real offset manager, get the answers of the page."""

import json
import re
import subprocess
from pathlib import Path

from peers.offset_managers import OffsetManager

from controller.offsets.values import QUEUES_MAX

PAGE = Path(__file__).parents[2] / "docs" / "offsets.md"
_EXAMPLE = re.compile(r"```sh\n((?:SESSION=|curl)[^`]*)```\n\n```json\n([^`]*)```")
#: What differs in each run.
_VARYING = frozenset({"unixMs", "revision"})


def fixed(value):
    """Return an answer without what differs in each run."""
    if isinstance(value, dict):
        # A reset epoch has the time in it.
        named = {key: item > 0 if key == "resetEpoch" else item for key, item in value.items()}
        return {key: fixed(item) for key, item in named.items() if key not in _VARYING}
    return [fixed(item) for item in value] if isinstance(value, list) else value


def test_the_page_names_the_last_queue_id() -> None:
    assert f"| queue ids | 0 to {QUEUES_MAX - 1:,} at a broker" in PAGE.read_text()


def test_the_requests_of_the_page_get_its_answers(tmp_path: Path) -> None:
    manager = OffsetManager(tmp_path).start()
    examples = _EXAMPLE.findall(PAGE.read_text())
    assert len(examples) == PAGE.read_text().count("```json")
    session = ""
    try:
        for commands, answer in examples:
            script = f"SESSION={session}\n{commands}".replace("localhost:9883", manager.address)
            done = subprocess.run(
                ["bash", "-ec", script + "\necho; echo $SESSION"],
                capture_output=True,
                text=True,
                timeout=60,
                check=True,
            )
            *output, session = done.stdout.splitlines()
            assert fixed(json.loads("".join(output))) == fixed(json.loads(answer)), commands
    finally:
        assert manager.process.stop() == 0
