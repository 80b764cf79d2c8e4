"""The worked example of CONTRIBUTING.md, carried out in a copy of the repository."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from documents import ROOT

#: Where a block goes: the last of these before it. "Below" names a whole line, or a part of one that occurs once.
_STEP: Final = re.compile(
    r"(?:(?P<end>At\s+the\s+end\s+of)|(?P<new>New\s+file)|In)\s+`(?P<path>[^`]+)`(?:,\s+below\s+`(?P<anchor>[^`]+)`)?:\n\n"
    r"```python\n(?P<code>.*?)```",
    re.DOTALL,
)
_EXAMPLE: Final = "## Example: add a request code"


class Step(NamedTuple):
    """One block of the example: what is pasted where."""

    path: str
    #: What the line above the block contains; None for a new file and for the end of one.
    anchor: str | None
    is_new: bool
    code: str

    def paste(self, folder: Path) -> None:
        """Paste the block into the copy in `folder`."""
        file = folder / self.path
        if self.is_new:
            assert not file.exists()
            file.write_text(self.code)
        elif self.anchor is None:
            file.write_text(file.read_text() + self.code)
        else:
            lines = file.read_text().splitlines(keepends=True)
            (above,) = (number for number, line in enumerate(lines) if self.anchor in line)
            file.write_text("".join([*lines[: above + 1], self.code, *lines[above + 1 :]]))


def steps() -> list[Step]:
    example = (ROOT / "CONTRIBUTING.md").read_text().partition(_EXAMPLE)[2]
    return [
        Step(found["path"], found["anchor"], bool(found["new"]), found["code"]) for found in _STEP.finditer(example)
    ]


@pytest.fixture
def followed(tmp_path: Path) -> Path:
    """A copy of the repository in which somebody has followed the example."""
    folder = tmp_path / "repository"
    shutil.copytree(
        ROOT, folder, ignore=shutil.ignore_patterns(".*", "__pycache__", "golden", "java", "json", "mutants")
    )
    for step in steps():
        step.paste(folder)
    return folder


def run(*command: str, folder: Path) -> str:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join((str(folder), str(folder / "tests")))}
    environment = {name: value for name, value in environment.items() if not name.startswith(("PYTEST_", "COV_"))}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_block_of_the_example_is_a_step() -> None:
    example = (ROOT / "CONTRIBUTING.md").read_text().partition(_EXAMPLE)[2]

    assert len(steps()) == example.count("```python\n") > 0


def test_whoever_follows_the_example_ends_with_a_passing_test(followed: Path) -> None:
    (test,) = (step.path for step in steps() if step.is_new)

    assert "2 passed" in run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", test, folder=followed)


def test_whoever_follows_the_example_has_formatted_and_typed_code(followed: Path) -> None:
    changed = sorted({step.path for step in steps()})
    product = [path for path in changed if not path.startswith("tests/")]

    run(sys.executable, "-m", "ruff", "format", "--no-cache", "--check", *changed, folder=followed)
    run(sys.executable, "-m", "ruff", "check", "--no-cache", *changed, folder=followed)
    run(sys.executable, "-m", "mypy", "--cache-dir", str(followed / "types"), *product, folder=followed)


def test_documents_agree_on_how_long_make_test_takes() -> None:
    texts = [(ROOT / name).read_text() for name in ("README.md", "CONTRIBUTING.md", "Makefile")]
    times = {re.search(r"smoke of each real peer\W+(.+?) on two cores", text)[1] for text in texts}  # type: ignore[index]
    assert len(times) == 1
