"""What one broker set may answer, one request after the other: written from the protocol, not from the controller.

Each operation, in a state, has all the results that the rules of Java's controller allow, with the named differences
of ours: epochs and ids of a name never go back, an id is only given in turn, a recorded master that starts again
leads no longer. What a controller believes of the living is not part of the state; where it decides, there are several
results, and `Moment` tells which of them are possible at that time.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

ALTER, ELECT, REGISTER, REPLICA_INFO, SYNC_STATE_DATA = 1001, 1002, 1003, 1004, 1006
CLEAN, NEXT_ID, APPLY_ID = 1011, 1012, 1013
QUESTIONS = frozenset({REPLICA_INFO, SYNC_STATE_DATA, NEXT_ID})

OK = 0
STALE_MASTER_EPOCH, STALE_SET_EPOCH, NOT_THE_MASTER, STRANGERS, NOT_ALIVE = 2000, 2001, 2002, 2003, 2006
UNKNOWN_SET, CLEAN_REFUSED, NOT_REGISTERED = 2008, 2009, 2010
MASTER_STILL_EXISTS, ELECTION_FAILED, ALTER_FAILED, ID_INVALID = 2011, 2012, 2013, 2014


class SetState(NamedTuple):
    """A broker set, or what is left under its name: the next id and the epoch that it had."""

    exists: bool = False
    next_id: int = 1
    #: (broker id, address, check code), by id.
    replicas: tuple[tuple[int, str, str], ...] = ()
    master: int | None = None
    master_epoch: int = 0
    in_sync: frozenset[int] = frozenset()
    set_epoch: int = 0
    is_elected: bool = False

    @property
    def ids(self):
        return frozenset(i for i, _, _ in self.replicas)

    def address(self, broker_id):
        return next((address for i, address, _ in self.replicas if i == broker_id), None)

    @property
    def addresses(self):
        return tuple((i, address) for i, address, _ in self.replicas)

    def __str__(self):
        if not self.exists:
            return f"no set; next id {self.next_id}, master epoch {self.master_epoch}"
        brokers = ", ".join(f"{i} at {address}" for i, address, _ in self.replicas)
        return (
            f"master {self.master} of epoch {self.master_epoch}, in sync {sorted(self.in_sync)} of epoch "
            f"{self.set_epoch}, next id {self.next_id}; brokers {brokers}"
        )


class Result(NamedTuple):
    """One way in which an operation may end."""

    state: SetState
    #: The code, and what the answer shows of the state; see `answer_of` in history.py for what is taken from the wire.
    answer: tuple[Any, ...]


@dataclass(frozen=True)
class Operation:
    """A request of a client: `arguments` are those that its code takes below."""

    number: int
    client: str
    code: int
    arguments: tuple[Any, ...]
    invoked_s: float
    #: None: nobody knows whether and when it took effect.
    answered_s: float | None = None
    answer: tuple[Any, ...] | None = None

    def __str__(self):
        ended = "?" if self.answered_s is None else f"{self.answered_s:.4f}"
        names = {ALTER: "alter", ELECT: "elect", REGISTER: "register", REPLICA_INFO: "replica info"}
        names |= {SYNC_STATE_DATA: "sync state data", CLEAN: "clean", NEXT_ID: "next id", APPLY_ID: "apply id"}
        answer = "not answered then" if self.answer is None else self.answer
        return f"{self.invoked_s:.4f} to {ended} {self.client}: {names[self.code]}{self.arguments} -> {answer}"


def results(state, operation, moment):
    """Return every way in which an operation may end in this state."""
    return _RESULTS[operation.code](state, moment, *operation.arguments)


def by_itself(state, moment):
    """Return what a controller may make of a set unasked: it has lost the master, or finds another one."""
    if not state.exists or not state.is_elected:
        return []
    if state.master is not None and not moment.may_be_dead(state.master):
        return []
    states = [_led_by(state, broker_id) for broker_id in _electable(state, moment) if broker_id != state.master]
    return states if state.master is None else [_without_master(state), *states]


def epoch_shown(operation):
    """Return the master epoch in which the operation must have ended, None if its answer does not tell."""
    if operation.answer is None:
        return None
    code, *shown = operation.answer
    if operation.code == ALTER:
        return operation.arguments[1] if code in (OK, STALE_SET_EPOCH, STRANGERS, NOT_ALIVE) else None
    if operation.code in (ELECT, REGISTER, REPLICA_INFO, SYNC_STATE_DATA) and shown and shown[0] is not None:
        view = shown[0]
        return view.master_epoch
    return None


class View(NamedTuple):
    """What answers show of a set; None is what this kind of answer does not show, or what is not there."""

    master: int | None
    address: str | None
    master_epoch: int | None
    in_sync: frozenset[int]
    set_epoch: int | None = None
    addresses: tuple[tuple[int, str], ...] | None = None


def _view(state):
    return View(state.master, state.address(state.master), state.master_epoch, state.in_sync, state.set_epoch)


def _next_id(state, _):
    return [Result(state, (OK, state.next_id))]


def _apply_id(state, _, broker_id, address, check_code):
    present = {i: code for i, _, code in state.replicas}.get(broker_id)
    if present == check_code:
        return [Result(state, (OK,))]
    if present is not None or broker_id != state.next_id:
        return [Result(state, (ID_INVALID,))]
    replicas = (*state.replicas, (broker_id, address, check_code))
    return [Result(state._replace(exists=True, replicas=replicas, next_id=broker_id + 1), (OK,))]


def _register(state, moment, broker_id, address):
    if broker_id not in state.ids:
        return [Result(state, (NOT_REGISTERED,))]
    replicas = tuple((i, address if i == broker_id else old, code) for i, old, code in state.replicas)
    after = state._replace(replicas=replicas)
    if state.master == broker_id:
        after = _without_master(after)
    seen = [] if after.master is None else [Result(after, (OK, _view(after)))]
    if after.master is None or moment.may_be_dead(after.master):
        # The header names no epoch then.
        seen.append(Result(after, (OK, View(None, None, None, after.in_sync, after.set_epoch))))
    return seen


def _elect(state, moment, broker_id, is_designated):
    if not state.exists:
        return [Result(state, (NOT_REGISTERED,))]
    if not state.is_elected:
        elected = [_led_by(state, broker_id)] if broker_id in state.ids else []
    elif is_designated:
        elected = [_led_by(state, broker_id)] if broker_id in state.in_sync and broker_id != state.master else []
    elif state.master is None or moment.may_be_dead(state.master):
        elected = [_led_by(state, i) for i in _electable(state, moment) if i != state.master]
    else:
        elected = []
    found = [Result(after, (OK, _view(after)._replace(addresses=after.addresses))) for after in elected]
    if state.master is not None and (not is_designated or broker_id == state.master):
        found.append(Result(state, (MASTER_STILL_EXISTS, _view(state))))
    # A controller that has just begun to lead may not have heard those who could lead.
    return [*found, Result(state, (ELECTION_FAILED,))]


def _alter(state, _, master, master_epoch, in_sync, set_epoch):  # one for each check of the protocol
    def refused(code):
        return [Result(state, (code,))]

    if not state.exists or in_sync == state.in_sync:
        return refused(ALTER_FAILED)
    if state.master is None or master != state.master:
        return refused(NOT_THE_MASTER)
    if master_epoch != state.master_epoch:
        return refused(STALE_MASTER_EPOCH)
    if set_epoch != state.set_epoch:
        return refused(STALE_SET_EPOCH)
    if not in_sync <= state.ids:
        return refused(STRANGERS)
    if state.master not in in_sync:
        return [*refused(NOT_ALIVE), *refused(ALTER_FAILED)]
    after = state._replace(in_sync=in_sync, set_epoch=set_epoch + 1)
    return [*refused(NOT_ALIVE), Result(after, (OK, after.set_epoch, in_sync))]


def _replica_info(state, _):
    return [Result(state, (OK, _view(state)) if state.exists else (UNKNOWN_SET,))]


def _sync_state_data(state, _):
    view = _view(state)._replace(addresses=state.addresses) if state.exists else None
    return [Result(state, (OK, view))]


def _clean(state, _, broker_ids, even_living):
    refused = Result(state, (CLEAN_REFUSED,))
    if not state.exists:
        return [refused]
    if broker_ids is None:
        return [refused] if state.master is not None and not even_living else [_cleaned(state)]
    if not broker_ids <= state.ids:
        return [refused]
    if broker_ids == state.ids:
        done = _cleaned(state)
    elif state.in_sync and state.in_sync <= broker_ids:
        return [refused]
    else:
        done = Result(_without(state, broker_ids), (OK,))
    # Whether somebody lives is the controller's to know.
    return [done] if even_living else [done, refused]


def _cleaned(state):
    return Result(SetState(next_id=state.next_id, master_epoch=state.master_epoch), (OK,))


def _without(state, broker_ids):
    left = state._replace(replicas=tuple(each for each in state.replicas if each[0] not in broker_ids))
    if state.master in broker_ids:
        left = _without_master(left)
    if state.in_sync & broker_ids:
        left = left._replace(in_sync=state.in_sync - broker_ids, set_epoch=state.set_epoch + 1)
    return left


def _without_master(state):
    return state._replace(master=None, master_epoch=state.master_epoch + 1)


def _led_by(state, broker_id):
    return state._replace(
        master=broker_id,
        master_epoch=state.master_epoch + 1,
        in_sync=frozenset({broker_id}),
        set_epoch=state.set_epoch + 1,
        is_elected=True,
    )


def _electable(state, moment):
    return [i for i in sorted(state.in_sync) if moment.may_live(i)]


_RESULTS = {
    ALTER: _alter,
    ELECT: _elect,
    REGISTER: _register,
    REPLICA_INFO: _replica_info,
    SYNC_STATE_DATA: _sync_state_data,
    CLEAN: _clean,
    NEXT_ID: _next_id,
    APPLY_ID: _apply_id,
}
