"""Codes and releases as metrics and log lines spell them."""

import pytest

from serving.metrics.label_values import release_of


@pytest.mark.parametrize(
    ("ordinal", "release"),
    [
        (212, "4.0.0-SNAPSHOT"),
        (213, "4.0.0"),
        (317, "4.5.2"),
        (333, "4.6.0"),
        (401, "4.9.4"),
        (409, "4.9.8"),
        (413, "5.0.0"),
        (441, "5.1.4"),
        (474, "5.3.1-SNAPSHOT"),
        (513, "5.5.0"),
        (611, "5.9.9"),
        (211, "unknown"),
        (612, "unknown"),
        (37, "unknown"),
        (-1, "unknown"),
        (2**31 - 1, "unknown"),
    ],
)
def test_an_ordinal_names_the_release(ordinal, release):
    assert release_of(ordinal) == release
