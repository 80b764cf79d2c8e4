"""Any requests at all, sound or not, on one set: what is refused changes nothing, and the set stays one that can be."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from controller.decisions.cluster_view import ClusterView
from controller.decisions.election import ElectionRequest, decide_election
from controller.decisions.membership import (
    Applicant,
    Cleaning,
    Registrant,
    WantedSyncStateSet,
    decide_adoption,
    decide_alteration,
    decide_cleaning,
    decide_id,
    decide_registration,
)
from controller.failure_detection.heartbeats import LastHeartbeat
from controller.sets.stored_set import StoredSet
from remoting.protocol.errors import RequestRefused

SET, CLUSTER = "broker-a", "DefaultCluster"
IDS = st.integers(1, 4)
SOME_IDS = st.frozensets(IDS)
EPOCHS = st.integers(-1, 9)


class Requests(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.entry = StoredSet()
        self.masters = {}

    def decide(self, decide, *args):
        before = self.entry
        try:
            decision = decide(*args)
        except RequestRefused:
            return
        self.entry = decision.after(before)
        assert self.epoch_of(self.entry) >= self.epoch_of(before)
        assert self.next_id_of(self.entry) >= self.next_id_of(before)
        new, old = self.entry.broker_set, before.broker_set
        if new is not None and new.master is not None and (old is None or new.master_epoch != old.master_epoch):
            assert self.masters.setdefault(new.master_epoch, new.master) == new.master

    @staticmethod
    def epoch_of(entry):
        return entry.floor.master_epoch if entry.broker_set is None else entry.broker_set.master_epoch

    @staticmethod
    def next_id_of(entry):
        return entry.floor.next_broker_id if entry.broker_set is None else entry.broker_set.next_broker_id

    @rule(broker_id=IDS, code=st.sampled_from("ab"))
    def apply_id(self, broker_id, code):
        applicant = Applicant(
            cluster=CLUSTER, broker_name=SET, broker_id=broker_id, address=f"{code}:1", check_code=f"{code}:1;1"
        )
        self.decide(decide_id, self.entry, applicant)

    @rule(broker_id=IDS, port=st.integers(1, 2), epoch=EPOCHS, adopts=st.booleans())
    def start(self, broker_id, port, epoch, adopts):
        registrant = Registrant(cluster=CLUSTER, broker_name=SET, broker_id=broker_id, address=f"a:{port}")
        if adopts:
            self.decide(decide_adoption, self.entry, registrant, epoch)
        else:
            self.decide(decide_registration, self.entry, registrant)

    @rule(
        epochs_seen=st.dictionaries(IDS, EPOCHS),
        suspects=SOME_IDS,
        asks=st.none() | IDS,
        is_designated=st.booleans(),
        allows_unclean=st.booleans(),
    )
    def elect(self, epochs_seen, suspects, asks, is_designated, allows_unclean):
        rows = {i: LastHeartbeat(0, epoch=epoch, max_offset=epoch) for i, epoch in epochs_seen.items()}
        trusted = {i: each for i, each in rows.items() if i not in suspects}
        view = ClusterView(trusted=trusted, heartbeats=rows)
        call = ElectionRequest(
            broker_id=asks, is_designated=is_designated and asks is not None, allows_unclean=allows_unclean
        )
        before = self.entry.broker_set
        self.decide(decide_election, SET, self.entry, view, call)
        after = self.entry.broker_set
        if after is not None and after.master is not None and after != before:
            assert after.master in trusted
            # Strangers do not count: anybody can send a heartbeat.
            assert after.master_epoch > max(epoch for i, epoch in epochs_seen.items() if i in before.replicas)
            # Nobody knows who was in sync of a set that is rebuilt, or of one whose logs are ahead of the store.
            is_known = before.is_elected and not (before.is_rebuilding or view.is_ahead_of(before))
            assert allows_unclean or not is_known or after.master in before.sync_state_set

    @rule(
        master=IDS, members=SOME_IDS, alive=SOME_IDS, behind=st.sampled_from((0, 0, 1)), late=st.sampled_from((0, 0, 1))
    )
    def alter(self, master, members, alive, behind, late):
        broker_set = self.entry.broker_set
        wanted = WantedSyncStateSet(
            broker_name=SET,
            master=master,
            master_epoch=self.epoch_of(self.entry) - behind,
            members=members,
            sync_state_set_epoch=(broker_set.sync_state_set_epoch if broker_set else 0) - late,
        )
        self.decide(decide_alteration, self.entry, wanted, alive)
        if self.entry.broker_set != broker_set:
            assert not behind
            assert not late
            assert members <= alive

    @rule(ids=st.none() | st.frozensets(IDS, min_size=1), even_living=st.booleans(), alive=SOME_IDS)
    def clean(self, ids, even_living, alive):
        wanted = Cleaning(broker_name=SET, broker_ids=ids, even_living=even_living)
        self.decide(decide_cleaning, self.entry, wanted, alive)

    @invariant()
    def the_set_can_be(self):
        broker_set = self.entry.broker_set
        if broker_set is None:
            return
        assert broker_set.sync_state_set <= broker_set.replicas.keys()
        assert broker_set.next_broker_id > max(broker_set.replicas, default=0)
        if broker_set.master is not None:
            assert broker_set.master in broker_set.sync_state_set
            assert broker_set.is_elected


Requests.TestCase.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
TestAnyRequests = Requests.TestCase
