"""Streams of events as the console reads them, however they are cut into pieces."""

import pytest

from serving.http.console.live import EventHead, EventHeads

STREAM = b":\n\nid: a-1\nevent: route\ndata: {}\n\nevent: closing\r\nretry: 1000\ndata: {}\r\n\r\nid:b-2\nevent:gap\n\n"
EVENTS = [EventHead("route", "a-1"), EventHead("closing", ""), EventHead("gap", "b-2")]


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_events_are_found_whatever_the_pieces(size):
    heads = EventHeads()
    found = [event for at in range(0, len(STREAM), size) for event in heads.take(STREAM[at : at + size])]
    assert found == EVENTS


def test_ids_that_no_header_can_have_are_left_out():
    assert EventHeads().take(b"id: a\rb\nevent: route\n\n") == [EventHead("route", "")]


def test_data_of_any_length_takes_no_memory():
    heads = EventHeads()
    for _ in range(1000):
        assert heads.take(b"data: " + b"x" * 10_000) == []
    assert len(heads._line) <= 512
    assert heads.take(b"\nevent: route\n\n") == [EventHead("route", "")]
