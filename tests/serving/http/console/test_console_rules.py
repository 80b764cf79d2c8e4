"""Rules of the console that no request shows at once: which servers it has, and how wrong tokens are counted."""

import socket

from serving.config.console_options import console_peers
from serving.http.admin_access import FAILURES_MAX, NETWORKS_MAX, WINDOW_MS, TokenTries
from serving.http.console.peers import peer_table


def urls(bind_address, text):
    table = peer_table("namesrv", bind_address, 9880, console_peers(text))
    return {key: peer.url for key, peer in table.items()}


def test_server_is_number_0_of_its_kind_and_others_follow_in_their_order():
    assert urls("127.0.0.1", "namesrv=http://b:9880;controller=http://c:9881;namesrv=http://d:9880") == {
        ("namesrv", 0): "http://127.0.0.1:9880",
        ("namesrv", 1): "http://b:9880",
        ("controller", 0): "http://c:9881",
        ("namesrv", 2): "http://d:9880",
    }


def test_entry_that_names_the_server_itself_is_left_out_so_that_all_may_have_one_list():
    name = socket.gethostname().lower()
    everywhere = f"namesrv=http://{name}:9880;namesrv=http://{name}.pods.local:9880;namesrv=http://other:9880"
    assert urls("0.0.0.0", everywhere) == {
        ("namesrv", 0): "http://127.0.0.1:9880",
        ("namesrv", 1): "http://other:9880",
    }
    assert len(urls("127.0.0.1", "namesrv=http://localhost:9880")) == 1
    assert len(urls("127.0.0.1", "namesrv=http://localhost:9890;controller=http://localhost:9880")) == 3


def test_server_on_all_addresses_of_ipv6_reaches_itself_over_loopback():
    assert urls("::", "") == {("namesrv", 0): "http://[::1]:9880"}


def test_network_waits_until_its_first_try_that_did_not_succeed_is_a_minute_ago():
    tries = TokenTries()
    assert [tries.begin("10.0.0.1", now_ms) for now_ms in range(FAILURES_MAX)] == [0] * FAILURES_MAX
    assert tries.begin("10.0.0.1", 1000) == WINDOW_MS - 1000
    assert tries.begin("10.0.0.2", 1000) == 0
    assert tries.begin("10.0.0.1", WINDOW_MS) == 0


def test_right_tokens_are_no_tries():
    tries = TokenTries()
    for now_ms in range(3 * FAILURES_MAX):
        assert tries.begin("10.0.0.1", now_ms) == 0
        tries.end("10.0.0.1")


def test_program_that_shows_an_old_token_again_and_again_keeps_nobody_out():
    tries = TokenTries()
    for now_ms in range(3 * FAILURES_MAX):
        assert tries.begin("10.0.0.1", now_ms) == 0
        tries.end("10.0.0.1", "the old token")
    for number in range(FAILURES_MAX - 1):
        assert tries.begin("10.0.0.1", 1000) == 0
        tries.end("10.0.0.1", f"guess {number}")
    assert tries.begin("10.0.0.1", 1000) == WINDOW_MS - 1000


def test_sign_in_that_ends_takes_back_no_try_of_another_program():
    tries = TokenTries()
    for number in range(3 * FAILURES_MAX):
        # Its body comes later.
        assert tries.begin("10.0.0.1", number) == 0
        assert tries.begin("10.0.0.1", number) == 0
        tries.end("10.0.0.1", "the old token")
        tries.end("10.0.0.1")


def test_addresses_of_one_ipv6_network_count_as_one():
    tries = TokenTries()
    for number in range(FAILURES_MAX):
        tries.begin(f"2001:db8::{number}", 0)
    assert tries.begin("2001:db8::ffff", 0) == WINDOW_MS
    assert tries.begin("2001:db8:0:1::1", 0) == 0


def test_networks_that_are_remembered_are_limited():
    tries = TokenTries()
    for _ in range(FAILURES_MAX):
        tries.begin("10.0.0.1", 0)
    for number in range(NETWORKS_MAX):
        tries.begin(f"192.0.{number // 256}.{number % 256}", 0)
    assert tries.begin("10.0.0.1", 0) == 0
