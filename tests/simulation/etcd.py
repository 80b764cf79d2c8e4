"""An etcd in virtual time, spoken to in the requests of its own protocol: keys with revisions, leases, watches.

It fails, forgets, and loses requests and answers. The product's client stands on a channel of gRPC; here is what stands
for that channel. Requests are real messages; answers are plain values with their fields.
"""

from collections import deque
from functools import partial
from types import SimpleNamespace
from typing import NamedTuple

from controller.sets.stored_set import StoredSet, decode_stored_set
from simulation.processes import TIME_IS_OVER
from store.etcd.client import grpc, messages

LATENCY_MS = 1


#: What a comparison is about, by its target.
_COMPARED = {
    messages.Compare.CREATE: "create_revision",
    messages.Compare.MOD: "mod_revision",
    messages.Compare.VALUE: "value",
}


class RpcFailure(grpc.RpcError):
    """A call that came to nothing."""

    def __init__(self, code, details):
        self._code, self._details = code, details

    @property
    def is_unknown(self):
        """Tell whether what was asked may be done."""
        return self._details != REFUSED[1]

    def code(self):
        return SimpleNamespace(name=self._code)

    def details(self):
        return self._details


NO_TIME = ("DEADLINE_EXCEEDED", "Deadline Exceeded")
BROKEN = ("UNAVAILABLE", "Socket closed")
REFUSED = ("UNAVAILABLE", "failed to connect to all addresses; last error: connection refused")


class Kv(NamedTuple):
    key: bytes
    value: bytes
    create_revision: int
    mod_revision: int
    lease: int = 0
    #: Which process has written it; nobody but the world knows.
    writer: object = None


#: What comparisons find where there is no key.
NO_KV = Kv(b"", b"", 0, 0)


class Lease:
    def __init__(self, ttl_s):
        self.ttl_s, self.until_ms, self.keys = ttl_s, 0, set()


class Event(NamedTuple):
    type: int
    kv: Kv
    PUT = 0
    DELETE = 1


class Etcd:
    """What all controllers share; `world` checks whatever is written under `sets/`."""

    def __init__(self, world):
        self.world = world
        self.is_down = False
        #: Which run of it this is: nothing that was under way to an earlier one arrives.
        self.run = 0
        #: When what is done now was asked for.
        self.sent_ms = 0
        self.revision = 1
        self.kvs = {}
        self.leases = {}
        self.lease_ids = 0
        self.log = []
        self.watches = []
        #: What `sets/` and `documents/` had after each change.
        self.past = [({}, 1)]

    # Calls

    def request(self, channel, path, request, waiting):  # a call, and all that becomes of it
        """Let a call come, and its answer go back, or neither."""
        process, world, run, sent_ms = channel.process, self.world, self.run, self.world.now_ms
        what, for_ms = channel.controller.fate_of_call(path, request)
        if channel.controller.is_cut_from_store or what == "never":
            return
        if self.is_down:
            world.at(world.now_ms + LATENCY_MS, lambda: waiting.wake(RpcFailure(*REFUSED)))
            return
        if what == "fail":
            world.at(world.now_ms + LATENCY_MS, lambda: waiting.wake(RpcFailure(*BROKEN)))
            return

        def arrive():
            # Who was killed, or cut off, has sent it all the same.
            if self.run != run or self.is_down:
                return
            self.sent_ms = sent_ms
            answer = self.answer(path, request, process)
            if what == "lose":
                waiting.wake(RpcFailure(*BROKEN))
            elif what != "swallow":
                later_ms = for_ms if what == "delay answer" else LATENCY_MS
                world.at(world.now_ms + later_ms + channel.controller.slow_store_ms, lambda: back(answer))

        def back(answer):
            if not channel.controller.is_cut_from_store:
                waiting.wake(answer)

        world.at(world.now_ms + (for_ms if what == "delay" else LATENCY_MS), arrive)

    def answer(self, path, request, process):
        method = path.rpartition("/")[2]
        return getattr(self, "_" + method.lower())(request, process)

    def _header(self):
        return SimpleNamespace(revision=self.revision)

    def _range(self, request, _):
        if request.range_end:
            kvs = [kv for key, kv in sorted(self.kvs.items()) if request.key <= key < request.range_end]
        else:
            kvs = [self.kvs[request.key]] if request.key in self.kvs else []
        return SimpleNamespace(kvs=kvs, more=False, header=self._header())

    def _txn(self, request, process):
        is_as_wanted = all(
            getattr(self.kvs.get(compare.key, NO_KV), _COMPARED[compare.target])
            == getattr(compare, _COMPARED[compare.target])
            for compare in request.compare
        )
        changes = []
        done = request.success if is_as_wanted else request.failure
        if any(op.HasField("request_put") and op.request_put.lease not in (0, *self.leases) for op in done):
            return RpcFailure("NOT_FOUND", "etcdserver: requested lease not found")
        if is_as_wanted:
            if any(not op.HasField("request_range") for op in request.success):
                self.revision += 1
            answers = [self._done(op, process, changes) for op in request.success]
        else:
            answers = [self._done(op, process, changes) for op in request.failure]
        answer = SimpleNamespace(succeeded=is_as_wanted, responses=answers, header=self._header())
        self._notify(changes)
        return answer

    def _done(self, op, process, changes):
        if op.HasField("request_range"):
            return SimpleNamespace(response_range=self._range(op.request_range, process))
        if op.HasField("request_put"):
            self._put(op.request_put, process, changes)
        else:
            self._delete(op.request_delete_range.key, process, changes)
        return SimpleNamespace()

    def _put(self, put, process, changes):
        before = self.kvs.get(put.key)
        created = self.revision if before is None else before.create_revision
        kv = self.kvs[put.key] = Kv(put.key, put.value, created, self.revision, put.lease, process)
        if put.lease:
            self.leases[put.lease].keys.add(put.key)
        changes.append(Event(Event.PUT, kv))
        self._check(put.key, put.value, process)

    def _delete(self, key, process, changes):
        if key in self.kvs:
            del self.kvs[key]
            changes.append(Event(Event.DELETE, Kv(key, b"", 0, self.revision)))
            self._check(key, None, process)

    def _check(self, key, value, process):
        if b"/sets/" in key:
            self._remember()
            self.world.set_of_key(key).stored(StoredSet() if value is None else decode_stored_set(value), process)
        elif b"/documents/" in key:
            self._remember()
        elif key.endswith(b"leader"):
            self.world.note("the key `leader` is %s", "gone" if value is None else value.decode())

    def _remember(self):
        """Let a backup be made of this."""
        kvs = {key: kv for key, kv in self.kvs.items() if b"/sets/" in key or b"/documents/" in key}
        self.past.append((kvs, self.revision))

    @property
    def leading_process(self):
        return next((kv.writer for key, kv in self.kvs.items() if key.endswith(b"/leader")), None)

    # Leases

    def _leasegrant(self, request, _):
        self.lease_ids += 1
        lease = self.leases[self.lease_ids] = Lease(request.TTL)
        self._renew(self.lease_ids, lease)
        return SimpleNamespace(ID=self.lease_ids, TTL=lease.ttl_s)

    def _leasekeepalive(self, request, _):
        lease = self.leases.get(request.ID)
        if lease is None:
            return SimpleNamespace(TTL=0)
        self._renew(request.ID, lease)
        return SimpleNamespace(TTL=lease.ttl_s)

    def _renew(self, lease_id, lease):
        lease.until_ms = self.world.now_ms + lease.ttl_s * 1000
        self.world.at(lease.until_ms, lambda: self._expire(lease_id, lease))

    def _expire(self, lease_id, lease):
        if self.leases.get(lease_id) is lease and self.world.now_ms >= lease.until_ms:
            self._end_lease(lease_id)

    def _leaserevoke(self, request, _):
        self._end_lease(request.ID)
        return SimpleNamespace()

    def _end_lease(self, lease_id):
        lease = self.leases.pop(lease_id, None)
        changes = []
        keys = (
            {key for key in lease.keys if key in self.kvs and self.kvs[key].lease == lease_id}
            if lease is not None
            else ()
        )
        if keys:
            self.revision += 1
            for key in sorted(keys):
                self._delete(key, None, changes)
            self._notify(changes)

    # Watches

    def open_watch(self, watch):
        if watch.is_over:
            return
        if watch.channel.controller.is_cut_from_store:
            watch.channel.controller.held_news.append(lambda: self.open_watch(watch))
            return
        if self.is_down:
            watch.push(RpcFailure(*REFUSED))
            return
        self.watches.append(watch)
        watch.push(SimpleNamespace(canceled=False, created=True, events=(), header=self._header(), compact_revision=0))
        for revision, changes in self.log:
            if revision >= watch.since_revision:
                self._push_watched(watch, revision, changes)

    @staticmethod
    def _push_watched(watch, revision, changes):
        """Send what a watch covers of the changes of one transaction."""
        if watched := [each for each in changes if watch.first <= each.kv.key < watch.end]:
            watch.push(Etcd._news(revision, watched))

    @staticmethod
    def _news(revision, changes):
        return SimpleNamespace(
            canceled=False,
            created=False,
            events=changes,
            header=SimpleNamespace(revision=revision),
            compact_revision=0,
        )

    def _notify(self, changes):
        if changes:
            self.log.append((self.revision, changes))
            for watch in self.watches:
                self._push_watched(watch, self.revision, changes)

    def break_watches(self):
        watches, self.watches = self.watches, []
        for each in watches:
            each.push(RpcFailure(*BROKEN))

    # What goes wrong

    def stop(self):
        self.is_down = True
        self.break_watches()

    def restore(self, commits_ago):
        """Begin again with what a backup has: no leases, and none of the keys that were bound to one."""
        kvs, self.revision = self.past[max(0, len(self.past) - 1 - commits_ago)]
        self.kvs = dict(kvs)
        stored = {self.world.set_of_key(key): kv.value for key, kv in kvs.items() if b"/sets/" in key}
        for each in self.world.sets:
            each.entry = decode_stored_set(stored[each]) if each in stored else StoredSet()
        self.leases.clear()
        self.log = [each for each in self.log if each[0] <= self.revision]
        self.run += 1
        self.break_watches()


class Channel:
    """Stands for a channel of gRPC from one controller to one endpoint."""

    def __init__(self, controller, process, address):
        self.controller, self.process, self.address = controller, process, address
        self.etcd = controller.world.etcd
        self.waits = set()

    def unary_unary(self, path, **_):
        return partial(self._call, path)

    unary_stream = unary_unary

    def stream_stream(self, path, **_):
        return self._watch if path.endswith("Watch/Watch") else partial(self._stream, path)

    def close(self):
        for each in self.waits:
            each.wake(RpcFailure("CANCELLED", "Channel closed!"))

    def _call(self, path, request, timeout, metadata):
        waiting = self.process.waiting()
        if path.endswith("/Txn"):
            self.controller.sends(request, waiting.thread)
        self.waits.add(waiting)
        self.etcd.request(self, path, request, waiting)
        answer = waiting.wait(timeout)
        self.waits.discard(waiting)
        if answer is TIME_IS_OVER:
            answer = RpcFailure(*NO_TIME)
        if isinstance(answer, RpcFailure):
            self.controller.failed(waiting.thread, answer)
            raise answer
        return answer

    def _stream(self, path, requests, timeout, metadata):
        return _Once(self._call(path, next(requests), timeout, metadata))

    def _watch(self, requests, metadata):
        return WatchCall(self, next(requests).create_request)


class _Once:
    """A stream with one answer."""

    def __init__(self, answer):
        self.answer = answer

    def __iter__(self):
        return self

    def __next__(self):
        return self.answer

    def cancel(self):
        pass


class WatchCall:
    def __init__(self, channel, request):
        self.channel, self.since_revision = channel, request.start_revision
        self.first, self.end = request.key, request.range_end
        self.came = deque()
        self.held = []
        self.waiting = None
        self.is_over = False
        world = channel.etcd.world
        world.at(world.now_ms + LATENCY_MS, lambda: channel.etcd.open_watch(self))

    def push(self, answer):
        """Send an answer; over a way that is cut it comes when the way is whole again."""
        controller = self.channel.controller
        if controller.is_cut_from_store:
            controller.held_news.append(lambda: self.push(answer))
            return
        world = self.channel.etcd.world
        world.at(world.now_ms + LATENCY_MS, lambda: self.channel.process.receive(self._come, answer))

    def _come(self, answer):
        if not self.is_over:
            self.came.append(answer)
            if self.waiting is not None:
                self.waiting.wake()

    def cancel(self):
        if not self.is_over:
            self.is_over = True
            watches = self.channel.etcd.watches
            if self in watches:
                watches.remove(self)
            if self.waiting is not None:
                self.waiting.wake()

    def __iter__(self):
        return self

    def __next__(self):
        while not self.came:
            if self.is_over:
                raise RpcFailure("CANCELLED", "Channel closed!")
            self.waiting = self.channel.process.waiting()
            self.waiting.wait()
            self.waiting = None
        answer = self.came.popleft()
        if isinstance(answer, RpcFailure):
            raise answer
        return answer
