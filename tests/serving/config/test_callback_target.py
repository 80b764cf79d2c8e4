"""A program by its absolute path, or a URL without secrets; nothing else."""

import pytest

from serving.config.callback_target import CallbackTarget, is_url, program_of

TARGET = CallbackTarget()


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("/usr/local/bin/move-address", ("/usr/local/bin/move-address",)),
        ("  /bin/x --region 'eu west' \"a b\" $HOME;ls ", ("/bin/x", "--region", "eu west", "a b", "$HOME;ls")),
        ("'/opt/my program' https://example.com/", ("/opt/my program", "https://example.com/")),
    ],
)
def test_program_is_its_path_and_its_arguments(text, arguments):
    value = TARGET.value_of(text)
    assert value == text.strip()
    assert not is_url(value)
    assert program_of(value) == arguments


@pytest.mark.parametrize(
    "text",
    ["http://10.0.0.1:8080/roles", "https://example.com/a?b=c", "https://[fd00::1]:443/", "http://localhost"],
)
def test_url_is_taken_as_it_is(text):
    assert TARGET.value_of(text) == text
    assert is_url(text)


def test_blank_is_nothing():
    assert TARGET.value_of("  ") == ""


@pytest.mark.parametrize(
    "text",
    [
        "move-address",
        "./move-address",
        "~/move-address",
        "sh -c 'x'",
        "/bin/x 'open",
        "/bin/x \\",
        "''",
        "/bin/x\ny",
        "/" + "x" * 4096,
        "ftp://example.com/",
        "file:///etc/passwd",
        "http://",
        "http:///path",
        "http://user@example.com/",
        "http://user:secret@example.com/",
        "http://example.com/#part",
        "http://example.com:0/",
        "http://example.com:port/",
        "http://example.com:65536/",
        "http://exa mple.com/",
        "http://ex\u00e4mple.com/",
        "http://[::1/",
    ],
)
def test_anything_else_is_refused(text):
    assert TARGET.value_of(text) is None
