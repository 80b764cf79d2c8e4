"""The file with the admin token: what it must hold, and what becomes of the token when it changes."""

import asyncio
import contextlib
from pathlib import Path

import pytest
from fakes.clock import FakeClock
from fakes.lines import Lines

from serving.logging.logs import Logs, json_line
from serving.process import admin_token_file
from serving.process.admin_token_file import AdminTokenFile
from serving.process.start import StartFailed

FIRST, SECOND = "first-token-0123", "second-token-0123"


class TokenSite:
    """A file that is looked at each 10 ms."""

    def __init__(self, folder, logs):
        self.path = folder / "token"
        self.path.write_text(f"  {FIRST} \nwhat follows is no token\n")
        self.path.chmod(0o600)
        self.file = AdminTokenFile(str(self.path), logs)

    @property
    def token(self):
        return next(each for each in (FIRST, SECOND) if self.file.token.is_same(each))


@pytest.fixture
def lines():
    return Lines()


@pytest.fixture
async def site(tmp_path, lines, monkeypatch):
    monkeypatch.setattr(admin_token_file, "_LOOK_S", 0.01)
    logs = Logs(lines, json_line(), FakeClock(), {})
    site = TokenSite(tmp_path, logs)
    site.file.load_first()
    watching = asyncio.create_task(site.file.watch())
    yield site
    watching.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await watching
    logs.close(1)


async def logged(lines, *events):
    async with asyncio.timeout(30):
        while [line["event"] for line in lines.decoded()] != list(events):
            await asyncio.sleep(0.01)


LOADED, FAILED = "http_admin_token_loaded", "http_admin_token_load_failed"


async def test_token_is_the_first_line_without_blanks(site, lines):
    assert site.token == FIRST
    await logged(lines, LOADED)
    assert FIRST not in str(lines)


async def test_token_is_rotated_without_a_restart(site, lines):
    site.path.write_text(SECOND)
    await logged(lines, LOADED, LOADED)
    assert site.token == SECOND


async def test_token_of_a_mounted_secret_is_rotated_when_its_link_changes(site, lines):
    for name, token in (("one", FIRST), ("two", SECOND)):
        (site.path.parent / name).write_text(token)
    site.path.unlink()
    site.path.symlink_to(site.path.parent / "two")
    async with asyncio.timeout(30):
        while site.token != SECOND:
            await asyncio.sleep(0.01)


def replace_file(path, text):
    """Change what a file holds at once: a writer that empties it first shows an empty file in between."""
    new = path.with_name("new")
    new.write_text(text)
    new.replace(path)


@pytest.mark.parametrize("break_it", [Path.unlink, lambda path: replace_file(path, "short")], ids=["gone", "too short"])
async def test_token_stays_in_force_while_the_file_holds_none(site, lines, break_it):
    break_it(site.path)
    await logged(lines, LOADED, FAILED)
    # Looked at many times, logged once.
    await asyncio.sleep(0.2)
    assert site.token == FIRST
    line = lines.decoded()[-1]
    assert (line["path"], line["level"]) == (str(site.path), "error")
    assert "httpAdminTokenFile" in line["error"]
    replace_file(site.path, FIRST)
    await logged(lines, LOADED, FAILED, LOADED)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n\n",
        b"fifteen-chars-x",
        b"with blanks in the token",
        "umlauts-ää-0123456".encode(),
        b"\xff" * 20,
        b"x" * 5000,
    ],
)
def test_file_without_a_token_ends_the_start_with_the_names_of_option_and_file(tmp_path, content):
    path = tmp_path / "token"
    path.write_bytes(content)
    with pytest.raises(StartFailed, match=f"httpAdminTokenFile: .*{path}") as refused:
        AdminTokenFile(str(path), Logs(Lines(), json_line(), FakeClock(), {})).load_first()
    assert not content.strip() or content.decode(errors="replace").strip() not in str(refused.value)


def test_file_that_is_not_there_ends_the_start():
    file = AdminTokenFile("/nowhere/token", Logs(Lines(), json_line(), FakeClock(), {}))
    with pytest.raises(StartFailed, match="httpAdminTokenFile: /nowhere/token cannot be read"):
        file.load_first()


def test_without_a_path_there_is_no_token():
    file = AdminTokenFile("", Logs(Lines(), json_line(), FakeClock(), {}))
    file.load_first()
    assert not file.token.is_set
