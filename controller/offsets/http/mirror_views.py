"""What each HTTP path about the mirror answers, as values; knows no web server."""

import asyncio
from collections import Counter
from typing import Final, Protocol

from controller.offsets.entry_keys import EntryKind
from controller.offsets.http import mirror_shapes as shapes
from controller.offsets.mirror.changes import ReadState
from controller.offsets.mirror.masters import SetName
from controller.offsets.mirror.mirrored_offsets import MirroredOffsets
from controller.offsets.mirror.regressions import Regression, RegressionCause
from controller.offsets.mirror.statuses import MirrorStatus
from serving.http.views import HttpRefused, StateConflict, ViewRequest, requested_page

#: Their places order a list.
_KINDS: Final = tuple(EntryKind)


class ShownMirror(MirroredOffsets, Protocol):
    """The mirror, and what is kept of it."""

    def kept_since(self, set_name: SetName) -> int | None:
        """Return the first moment whose offsets are kept, Unix ms; None if none is."""

    def absent_since(self, set_name: SetName) -> int | None:
        """Return since when nobody shows a set, Unix ms; None if somebody does."""


class MirrorViews:
    """One method per path."""

    def __init__(self, mirror: ShownMirror | None) -> None:
        """Take the mirror; None where no brokers are followed."""
        self._mirror = mirror

    def mirrored_sets(self, request: ViewRequest) -> shapes.MirrorListing:
        """Return a page of how well the mirror knows each broker set."""
        mirror = self._followed()
        statuses = {(*each.set_name, 0): each for each in mirror.statuses()}
        page = requested_page([*statuses], request, tuple[str, str, int])
        return shapes.MirrorListing(
            [_set_view(mirror, statuses[key]) for key in page.keys], page.total, page.next_cursor
        )

    async def topic_groups(self, request: ViewRequest) -> shapes.TopicGroupListing:
        """Return a page of the groups that have offsets in a topic."""
        if not (topic := request.query.get("topic", "")):
            raise HttpRefused("topic must be given.")
        mirror = self._followed()
        sets: Counter[tuple[str, str, int]] = Counter()
        for name in [each.set_name for each in mirror.statuses()]:
            saved = mirror.saved(name)
            for found in () if saved is None else saved.groups_of(topic):
                if found is None:
                    await asyncio.sleep(0)
                else:
                    sets[name.cluster, found.group, _KINDS.index(found.kind)] += 1
        page = requested_page(sorted(sets), request, tuple[str, str, int])
        groups = [
            shapes.TopicGroupView(cluster=key[0], group=key[1], kind=_KINDS[key[2]], broker_sets=sets[key])
            for key in page.keys
        ]
        return shapes.TopicGroupListing(groups, page.total, page.next_cursor)

    def regressions(self, request: ViewRequest) -> shapes.RegressionListing:
        """Return the last offsets that went back, of those that are wanted."""
        log, query = self._followed().regressions, request.query
        group, topic, broker_name = query.get("group"), query.get("topic"), query.get("brokerName")
        cause = _cause(query.get("cause"))

        def is_wanted(each: Regression) -> bool:
            (set_name, key, _), wanted = each.queue, (cause, group, topic, broker_name)
            found = (each.cause, key.group, key.topic, set_name.broker_name)
            return all(want is None or want == have for want, have in zip(wanted, found, strict=True))

        last = log.last(request.page.limit, is_wanted)
        return shapes.RegressionListing([_regression_view(each) for each in last], len(log), log.dropped)

    def _followed(self) -> ShownMirror:
        if self._mirror is None:
            raise StateConflict("This manager follows no brokers: set controllerHttpAddr or namesrvAddr.")
        return self._mirror


def _cause(text: str | None) -> RegressionCause | None:
    if text is None:
        return None
    try:
        return RegressionCause(text)
    except ValueError:
        raise HttpRefused(f"cause must be one of {', '.join(RegressionCause)}.") from None


def _set_view(mirror: ShownMirror, status: MirrorStatus) -> shapes.MirroredSetView:
    name = status.set_name
    absent_since_ms = mirror.absent_since(name)
    return shapes.MirroredSetView(
        cluster=name.cluster,
        broker_name=name.broker_name,
        reading=None if status.read is None else _reading_view(status.read),
        age_ms=status.age_ms,
        state="absent" if absent_since_ms is not None else "stale" if status.is_stale else "fresh",
        entries=status.entries,
        error=status.error,
        kept_since_unix_ms=mirror.kept_since(name),
        absent_since_unix_ms=absent_since_ms,
    )


def _regression_view(found: Regression) -> shapes.RegressionView:
    set_name, key, queue_id = found.queue
    return shapes.RegressionView(
        cluster=set_name.cluster,
        broker_name=set_name.broker_name,
        group=key.group,
        topic=key.topic,
        queue_id=queue_id,
        kind=key.kind,
        cause=found.cause,
        unix_ms=found.unix_ms,
        times=found.times,
        from_offset=found.from_offset,
        to_offset=found.to_offset,
        messages_again=found.messages_again,
        before=_reading_view(found.former),
        after=_reading_view(found.now),
    )


def _reading_view(read: ReadState) -> shapes.ReadingView:
    return shapes.ReadingView(
        address=read.run.address,
        master_epoch=read.run.master_epoch,
        boot_unix_ms=read.run.boot_unix_ms,
        read_unix_ms=read.answered_unix_ms,
        commit_log_max_offset=read.log_max_offset,
    )
