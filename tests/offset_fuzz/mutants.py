"""Faults in the rules, each of which some history has to show: `python -m offset_fuzz.mutants [NAME] [COUNT]`."""

import sys
import tempfile
from collections import defaultdict
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from unittest import mock

from offset_fuzz.world import Violation, World
from offsets import at_broker, proof
from offsets.proof import LogProof
from offsets.repair import repair_pass, rules, service
from offsets.values import GroupKind, GroupMembers


def _only_last_fingerprint():
    prove = at_broker.AtBroker.prove

    async def mutated(self, before, *values):
        return await prove(self, before._replace(fingerprints=before.fingerprints[-1:]), *values)

    return [mock.patch.object(at_broker.AtBroker, "prove", mutated)]


def _second_end():
    proved_offset = proof.proved_offset

    async def mutated(place_of, wanted, first_end, second_end):
        # Whatever lies there now, as if it had been there.
        return await proved_offset(place_of, wanted, 1 << 60, 1 << 60)

    return [mock.patch.object(repair_pass, "proved_offset", mutated)]


def _reading_n():
    """The newest reading counts, where only the one before it is proved."""
    return [mock.patch.object(LogProof, "proves", lambda self, first_end: bool(self.same_until))]


def _absent_is_raised():
    """What a later reading does not show, has the value that an earlier one showed."""
    prepare = rules.Before.__post_init__

    def mutated(self):
        readings, offsets = [], {}
        for reading in self.known.readings:
            names = {*offsets, *reading.offsets}
            offsets = {name: {**offsets.get(name, {}), **reading.offsets.get(name, {})} for name in names}
            readings.append(replace(reading, offsets=offsets))
        self.known = replace(self.known, readings=tuple(readings))
        prepare(self)

    return [mock.patch.object(rules.Before, "__post_init__", mutated)]


def _pop_is_pull():
    members = at_broker.AtBroker.members

    async def mutated(self, group, *, can_pop=True):
        found = await members(self, group, can_pop=can_pop)
        return found._replace(kind=GroupKind.PULL) if found.kind is GroupKind.POP else found

    patch = mock.patch.object(rules.Before, "pops", return_value=False)
    return [mock.patch.object(at_broker.AtBroker, "members", mutated), patch]


def _changed_is_old_copy():
    return [mock.patch.object(rules.Before, "is_old_copy", return_value=True)]


def _looks_are_kept():
    """Places of messages are looked at once, although a topic may be made anew while members are awaited."""
    make = repair_pass.RepairPass.__init__

    def mutated(self, *values):
        make(self, *values)
        self._looks = _NotCleared(repair_pass._QueueLooks)

    return [mock.patch.object(repair_pass.RepairPass, "__init__", mutated)]


class _NotCleared(defaultdict):
    def clear(self):
        pass


def _offline_pulls():
    """A group without members pulls."""
    members = at_broker.AtBroker.members

    async def mutated(self, group, *, can_pop=True):
        found = await members(self, group, can_pop=can_pop)
        return found if found.is_online else GroupMembers(GroupKind.PULL)

    return [mock.patch.object(at_broker.AtBroker, "members", mutated)]


def _any_run():
    """Fingerprints of other runs prove a reading."""
    return [mock.patch.object(LogProof, "of_run", lambda self, *_, **__: self)]


def _no_check():
    """Nothing is asked right before a write leaves."""
    make = service.RepairPass

    def mutated(at, epoch, known, changed_ms, allowed, clock):
        allowed = repair_pass.Allowed(allowed.writes, lambda: None, allowed.behind)
        return make(at, epoch, known, changed_ms, allowed, clock)

    return [
        mock.patch.object(service, "RepairPass", mutated),
        mock.patch.object(repair_pass, "WRITTEN_WITHIN_MS", 1 << 60),
    ]


MUTANTS = {
    "only_last_fingerprint": _only_last_fingerprint,
    "second_end": _second_end,
    "reading_n": _reading_n,
    "absent_is_raised": _absent_is_raised,
    "pop_is_pull": _pop_is_pull,
    "changed_is_old_copy": _changed_is_old_copy,
    "looks_are_kept": _looks_are_kept,
    "offline_pulls": _offline_pulls,
    "any_run": _any_run,
    "no_check": _no_check,
}


def found_at(name, seeds):
    """Return the first seed whose history shows a mutant, None if none does."""
    with ExitStack() as stack:
        for patch in MUTANTS[name]():
            stack.enter_context(patch)
        for seed in seeds:
            with tempfile.TemporaryDirectory() as folder:
                try:
                    World(seed, Path(folder)).run()
                except Violation:
                    return seed
    return None


if __name__ == "__main__":
    names = sys.argv[1:2] or list(MUTANTS)
    for name in names:
        seed = found_at(name, range(1, int(sys.argv[2]) if len(sys.argv) > 2 else 400))
        sys.stdout.write(f"{name} {seed}\n")
