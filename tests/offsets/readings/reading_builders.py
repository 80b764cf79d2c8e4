"""Readings and heads of readings, with a valid default for everything."""

from set_builders import CLUSTER, SET, an_address

from offsets.proof import Fingerprint
from offsets.readings.files import ReadingHead
from offsets.readings.reading import Reading
from offsets.readings.table import TableOffsets
from offsets.values import SetName

NAME = SetName(CLUSTER, SET)
UNIX_MS = 1_800_000_000_000


def a_reading(**values):
    fields = {"set_name": NAME, "master": an_address(1), "master_epoch": 5, "boot_unix_ms": 1, "began_ms": 0}
    fields |= {"ended_ms": 10, "ended_unix_ms": UNIX_MS, "log_begin": 0, "first_end": 200, "second_end": 200}
    return Reading(**fields | {"epochs": None, "fingerprint": None, "offsets": TableOffsets(())} | values)


def a_head(**values):
    fields = {"master": an_address(1), "master_epoch": 5, "boot_unix_ms": 1, "took_ms": 10, "ended_unix_ms": UNIX_MS}
    fields |= {"log_begin": 0, "first_end": 200, "second_end": 210, "epochs": ((1, 0), (5, 90)), "fingerprints": ()}
    return ReadingHead(**fields | values)


def a_mark(place, *, crc=0):
    return Fingerprint(place, 100, "orders", 0, place // 100, 1, crc)
