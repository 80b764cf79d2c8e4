"""Readings and heads of readings, with a valid default for everything."""

from set_builders import CLUSTER, SET, an_address

from offsets.proof import Fingerprint
from offsets.readings.reading import Reading, ReadingHead
from offsets.readings.table import TableOffsets
from offsets.values import SetName
from remoting.admin.log_epochs import LogEpoch

NAME = SetName(CLUSTER, SET)
UNIX_MS = 1_800_000_000_000


def a_reading(**values):
    fields = {"set_name": NAME, "master": an_address(1), "master_epoch": 5, "boot_unix_ms": 1, "began_ms": 0}
    fields |= {"ended_ms": 10, "ended_unix_ms": UNIX_MS, "first_end": 200, "second_end": 200}
    return Reading(**fields | {"epochs": None, "offsets": TableOffsets(())} | values)


def a_head(**values):
    fields = {"master": an_address(1), "master_epoch": 5, "boot_unix_ms": 1, "began_ms": 0, "ended_ms": 10}
    epochs = (LogEpoch(epoch=1, start_offset=0), LogEpoch(epoch=5, start_offset=90))
    fields |= {"ended_unix_ms": UNIX_MS, "first_end": 200, "second_end": 210, "epochs": epochs}
    return ReadingHead(**fields | values)


def a_mark(place, *, crc=0):
    return Fingerprint(place, 100, "orders", 0, place // 100, 1, crc)
