"""Restores, undoes and imports offsets at brokers: one operation at a time, over all sets that it covers. The edge.

An operation reads what brokers show, decides by the rules, is kept, written, read back, and kept again: whatever ends
this process on the way can be undone. Each write is preceded by the question whether this manager leads and the broker
is still the master.
"""

import asyncio
from bisect import bisect_left
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, NamedTuple, Protocol

from msgspec.structs import replace

from offsets.at_broker import BROKER_FAILURES, AtBroker, BrokerLog, NotServing, OtherBroker, ShownOffsets, for_all
from offsets.proof import LogBefore
from offsets.queue_proof import Proved, QueueEnds, proved_offset
from offsets.readings.reading import Reading
from offsets.readings.readings import Readings
from offsets.restore.events import OffsetsRestored, OperationNotKept, OperationRows
from offsets.restore.operations import Operation, OperationKind, Operations, SetLog
from offsets.restore.rules import (
    RESTORED_MAX,
    Options,
    QueueNow,
    RestoredQueue,
    Status,
    Wanted,
    became,
    needs_proof,
    plan,
    verified,
)
from offsets.sets.followed import SetMaster
from offsets.sets.following import Following
from offsets.values import GroupKind, GroupMembers, GroupTopic, QueueKey, SetName
from remoting.admin.client import AdminClient
from remoting.background_tasks import all_results
from remoting.clock import Clock
from remoting.protocol.errors import ConnectionRefused, InvokeError, NotSent, Refused
from remoting.protocol.shapes.broker_clients import SYSTEM_GROUP_PREFIX, TOOL_GROUP
from serving.durable_file import DurableFileError
from serving.telemetry.events import Event
