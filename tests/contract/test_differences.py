"""The pages of differences from Java: whoever looks a difference up by its name finds one row."""

import re
from collections import Counter

import pytest
from peers.jars import REPOSITORY

ROW = re.compile(r"^\| `([a-z0-9-]+)` \|", re.MULTILINE)


@pytest.mark.parametrize("server", ["namesrv", "controller"])
def test_each_difference_has_one_row(server):
    names = Counter(ROW.findall((REPOSITORY / server / "DIFFERENCES.md").read_text()))
    assert len(names) > 10
    assert [name for name, rows in names.items() if rows > 1] == []
