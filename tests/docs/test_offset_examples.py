"""The requests of docs/offsets.md that have an answer there get it from a real offset manager."""

import json
import re
import subprocess
from pathlib import Path

from peers.offset_managers import OffsetManager

from offsets.values import QUEUES_MAX
from rmq.commands.table import COMMANDS

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "offsets.md"
_EXAMPLE = re.compile(r"```sh\n(curl[^`]*)```\n\n```json\n([^`]*)```")
_COMMAND = re.compile(r"rmq (offsets|group) ([a-z-]+)")


def test_the_page_names_the_last_queue_id() -> None:
    assert f"queue ids below {QUEUES_MAX:,}" in PAGE.read_text()


def test_the_requests_of_the_page_get_its_answers(tmp_path: Path) -> None:
    manager = OffsetManager(tmp_path).start()
    examples = _EXAMPLE.findall(PAGE.read_text())
    assert len(examples) == PAGE.read_text().count("```json")
    try:
        for command, answer in examples:
            script = command.replace("localhost:9883", manager.address)
            done = subprocess.run(["bash", "-ec", script], capture_output=True, text=True, timeout=60, check=True)
            assert json.loads(done.stdout) == json.loads(answer), command
    finally:
        assert manager.process.stop() == 0


def test_the_pages_name_commands_that_exist() -> None:
    text = "".join((DOCS / f"offset{page}.md").read_text() for page in ("s", "-repairs", "-restores"))
    missing = {(noun, verb) for noun, verb in _COMMAND.findall(text) if verb not in COMMANDS[noun].verbs}
    assert missing == set()
