"""What a controller is answered in one round: as the edge of the product gathers it, offsets before ends of queues."""

from controller.scaling.resize.observation import (
    ClientView,
    DelayProgress,
    GroupKind,
    GroupView,
    LateSources,
    LogPosition,
    NameServerView,
    QueueEnds,
    ResizeObservation,
    SetView,
)

UNIX_MS = 1_800_000_000_000
#: Answers that can be missing alone.
ANSWERS = ("counts", "ends", "offsets", "groups", "late", "log")


class Observer:
    def __init__(self, world):
        self.world = world
        #: What is not answered, and until when: (set, which answer).
        self.lost = {}
        self.hides_until_ms = 0

    @property
    def unix_ms(self):
        return UNIX_MS + self.world.now_ms

    def is_lost(self, broker_name, answer):
        return self.lost.get((broker_name, answer), 0) > self.world.now_ms

    def early(self, needs):
        """Ask for masters, numbers, groups and offsets: what is read first."""
        world = self.world
        missing = []
        sets = {}
        for brokers in world.sets.values():
            sets[brokers.name] = self.early_set(brokers, needs, missing)
        return sets, self.groups() if needs.groups else None, missing

    def early_set(self, brokers, needs, missing):
        master = brokers.master
        if master is None or self.is_lost(brokers.name, "counts"):
            missing.append(f"{brokers.name} does not answer")
            return {}
        slaves = {each.address: each.counts if each.is_up else None for each in brokers.slaves}
        missing += [f"slave {address} does not answer" for address, counts in slaves.items() if counts is None]
        fields = {"master": brokers.identity, "counts": master.counts, "slaves": slaves}
        if needs.offsets:
            if self.is_lost(brokers.name, "offsets"):
                missing.append(f"{brokers.name} does not answer offsets")
            else:
                fields["offsets"] = {group: dict(offsets) for group, offsets in master.offsets.items()}
        return fields

    def groups(self):
        hides = self.world.now_ms < self.hides_until_ms
        return tuple(
            GroupView(
                name=group.name,
                kind=_hidden(group.observed_kind) if hides else group.observed_kind,
                clients=tuple(
                    ClientView(client_id=each.id, queues=None) if hides else each.view() for each in group.members
                ),
            )
            for group in self.world.groups
            # Brokers know nothing of broadcasting groups without members.
            if group.members or group.kind is not GroupKind.BROADCAST
        )

    def whole(self, operation, needs, early):
        """Return the observation, with what is read last."""
        world = self.world
        early_sets, groups, missing = early
        missing = list(missing)
        sets = {
            name: SetView(
                broker_name=name, **fields, **self.late_set(world.sets[name], fields, operation, needs, missing)
            )
            for name, fields in early_sets.items()
        }
        if groups is not None and any(self.is_lost(name, "groups") for name in sets):
            groups = None
            missing.append("a broker does not answer groups")
        name_servers = tuple(
            NameServerView(address=each.address, counts=dict(each.counts), order_conf=each.order_conf)
            if each.is_up
            else NameServerView(address=each.address, counts=None)
            for each in world.name_servers
        )
        missing += [f"NameServer {each.address} does not answer" for each in name_servers if each.counts is None]
        return ResizeObservation(
            now_ms=world.now_ms,
            unix_ms=self.unix_ms,
            sets=sets,
            name_servers=name_servers,
            groups=groups,
            missing=tuple(missing),
        )

    def late_set(self, brokers, early, operation, needs, missing):
        if not early or brokers.identity != early["master"]:
            if early:
                missing.append(f"{brokers.name} does not answer any more")
            return {}
        fields = {}
        if needs.ends is not None:
            if self.is_lost(brokers.name, "ends"):
                missing.append(f"{brokers.name} does not answer ends")
            else:
                queue_ids = needs.ends(operation.set_of(brokers.name))
                fields["ends"] = {
                    i: QueueEnds(min_offset=0, max_offset=len(brokers.queues.get(i, ()))) for i in queue_ids
                }
        if needs.log:
            self.answer(brokers, "log", fields, LogPosition(end=0, dispatched=0), missing)
        if needs.late:
            levels = {
                level: DelayProgress(delivered=brokers.delivered[level], end=len(waiting))
                for level, waiting in brokers.delayed.items()
            }
            pending = brokers.pending
            late = LateSources(levels=levels, timed=pending["timed"], half_messages=pending["half"])
            self.answer(brokers, "late", fields, late, missing)
        return fields

    def answer(self, brokers, name, fields, value, missing):
        if self.is_lost(brokers.name, name):
            missing.append(f"{brokers.name} does not answer {name}")
        else:
            fields[name] = value


def _hidden(kind):
    """Return the kind of a group whose members do not answer; brokers know the others."""
    return GroupKind.UNKNOWN if kind in (GroupKind.CONCURRENT, GroupKind.ORDERLY) else kind
