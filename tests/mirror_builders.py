"""Answers of masters to 43, and readings of them, with a valid default for everything."""

import json
from dataclasses import replace

from controller.offsets.mirror.changes import ReadState
from controller.offsets.mirror.comparison import MasterReading
from controller.offsets.mirror.masters import MasterRun, SetName
from controller.offsets.mirror.saved_offsets import RawTable
from remoting.admin.offset_table import OffsetTable

SET = SetName("DefaultCluster", "broker-a")
ADDRESS = "10.0.0.1:10911"
BOOT_MS = 1_700_000_000_000


def a_run(*, address=ADDRESS, epoch=1, boot_ms=BOOT_MS):
    return MasterRun(address=address, master_epoch=epoch, boot_unix_ms=boot_ms)


def a_read(*, unix_ms=1000, log_max_offset=None, **run):
    return ReadState(a_run(**run), unix_ms - 1, unix_ms, log_max_offset)


def body_of(table, lmq=None, pulled=None):
    """Return an answer as a broker of 5.5 writes it."""
    keys = ",".join(f"{json.dumps(key, ensure_ascii=False)}:{_queues(queues)}" for key, queues in table.items())
    lmq_field = "" if lmq is None else f'"lmqOffsetTable":{json.dumps(lmq, separators=(",", ":"))},'
    pulled_keys = ",".join(f"{json.dumps(key)}:{_queues(queues)}" for key, queues in (pulled or table).items())
    return (
        f'{{"dataVersion":{{"counter":7}},"groupTopicMap":{{"g":["t"]}},{lmq_field}"offsetTable":{{{keys}}},'
        f'"pullOffsetTable":{{{pulled_keys}}}}}'
    ).encode(errors="replace")


def a_reading(table=None, *, body=None, lmq=None, **read):
    text = body_of(table or {}, lmq) if body is None else body
    return MasterReading(read=a_read(**read), table=OffsetTable(text), requested_ms=0)


def unreadable(saved):
    """Return a reading of t@g that no comparison saves, as a fault might."""
    table = RawTable(is_lmq=False, entries=(b'"t@g":{0:07}',), keys=(b"t@g",), places={b"t@g": 0})
    return replace(saved, tables=(table, saved.tables[1]))


def _queues(queues):
    return queues if isinstance(queues, str) else f"{{{','.join(f'{each}:{queues[each]}' for each in queues)}}}"
