"""The option that names the servers of a console."""

import pytest

from serving.config.console_options import PEERS_MAX, ConsolePeerList, console_peers


def test_peers_are_listed_in_their_order_and_once():
    text = (
        " namesrv=http://a:9880 ;controller=https://b.example.org/;; namesrv=http://a:9880; Offsets=http://[::1]:9882"
    )
    found = [(each.kind, each.url, each.host, each.port) for each in console_peers(text)]
    assert found == [
        ("namesrv", "http://a:9880", "a", 9880),
        ("controller", "https://b.example.org:443", "b.example.org", 443),
        ("offsets", "http://[::1]:9882", "::1", 9882),
    ]
    assert ConsolePeerList().value_of("") == ""


@pytest.mark.parametrize(
    "text",
    [
        "http://a:9880",
        "broker=http://a:9880",
        "namesrv=a:9880",
        "namesrv=ftp://a:9880",
        "namesrv=http://:9880",
        "namesrv=http://a:0",
        "namesrv=http://a:65536",
        "namesrv=http://user@a:9880",
        "namesrv=http://a:9880/v1",
        "namesrv=http://a:9880?x=1",
        "namesrv=http://a:9880#x",
        "namesrv=http://a b:9880",
        "namesrv=http://ä:9880",
        "namesrv=http://[::1:9880",
        ";".join(f"namesrv=http://a:{1 + number}" for number in range(PEERS_MAX + 1)),
    ],
)
def test_list_with_a_bad_entry_is_refused(text):
    assert ConsolePeerList().value_of(text) is None
