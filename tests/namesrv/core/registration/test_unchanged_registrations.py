"""Two NameServers are told the same, one in texts that it knows again, one in texts that it must decode each time."""

import json

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from route_states import lose_connection

from remoting.protocol.codes import RequestCode

NAMES = st.sampled_from(["broker-a", "broker-b"])
IDS = st.sampled_from([0, 1])
TOPICS = st.dictionaries(st.sampled_from(["T0", "T1", "T2", "T3"]), st.sampled_from([6, 4]), min_size=2, max_size=4)
ALL = ["T0", "T1", "T2", "T3"]


def text_of(topics, counter, separators):
    table = {topic: {"perm": perm, "readQueueNums": 8, "topicName": topic} for topic, perm in topics.items()}
    wrapper = {"dataVersion": {"counter": counter}, "topicConfigTable": table}
    return json.dumps({"topicConfigSerializeWrapper": wrapper}, separators=separators).encode()


def run(coroutine):
    """Run what never waits."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("a registration or a route does not wait")


class ToldAlike(RuleBasedStateMachine):
    """Registrations mixed with everything that changes what they said."""

    make_desk = None

    @initialize(delete=st.booleans())
    def start(self, delete):
        self.reported = {}
        self.knowing = self.make_desk(delete_topic_with_broker_registration=delete)
        self.decoding = self.make_desk(delete_topic_with_broker_registration=delete)

    def serve(self, code, fields, bodies=(b"", b""), connection=1):
        answers = [
            run(desk.request(code, fields, body, connection=connection))
            for desk, body in zip((self.knowing, self.decoding), bodies, strict=True)
        ]
        assert answers[0] == answers[1]

    @rule(
        name=NAMES,
        broker_id=IDS,
        topics=TOPICS,
        counter=st.integers(1, 3),
        acting=st.sampled_from(["true", "false"]),
        connection=st.integers(1, 2),
    )
    def register(self, name, broker_id, topics, counter, acting, connection):
        fields = {"clusterName": "C", "brokerName": name, "brokerId": str(broker_id)}
        fields |= {"brokerAddr": f"{name}-{broker_id}:1", "enableActingMaster": acting}
        bodies = [text_of(topics, counter, separators) for separators in ((",", ":"), (", ", ": "))]
        self.reported[name, broker_id] = (fields, bodies, connection)
        self.serve(RequestCode.REGISTER_BROKER, fields, bodies, connection)

    @rule(name=NAMES, broker_id=IDS)
    def repeat_registration(self, name, broker_id):
        if (name, broker_id) in self.reported:
            fields, bodies, connection = self.reported[name, broker_id]
            self.serve(RequestCode.REGISTER_BROKER, fields, bodies, connection)

    @rule(name=NAMES, broker_id=IDS, acting=st.sampled_from(["true", "false"]))
    def repeat_registration_with_another_setting(self, name, broker_id, acting):
        if (name, broker_id) in self.reported:
            self.reported[name, broker_id][0]["enableActingMaster"] = acting
            self.repeat_registration(name, broker_id)

    @rule(name=NAMES, broker_id=IDS, topic=st.sampled_from(ALL), data=st.data())
    def repeat_registration_before_and_after_something_else(self, name, broker_id, topic, data):
        self.repeat_registration(name, broker_id)
        between = data.draw(st.sampled_from(["wipe", "delete", "register one", "leave"]))
        if between == "wipe":
            self.set_permission(name, "WIPE_WRITE_PERM_OF_BROKER")
        elif between == "delete":
            self.delete_topic(topic)
        elif between == "register one":
            self.register_topic(topic, name)
        else:
            self.unregister(name, 1 - broker_id)
        self.repeat_registration(name, broker_id)

    @rule(name=NAMES, broker_id=IDS)
    def unregister(self, name, broker_id):
        fields = {"clusterName": "C", "brokerName": name, "brokerAddr": f"{name}-{broker_id}:1"}
        self.serve(RequestCode.UNREGISTER_BROKER, fields, connection=2)

    @rule(name=NAMES, code=st.sampled_from(["WIPE_WRITE_PERM_OF_BROKER", "ADD_WRITE_PERM_OF_BROKER"]))
    def set_permission(self, name, code):
        self.serve(RequestCode[code], {"brokerName": name})

    @rule(topic=st.sampled_from(ALL))
    def delete_topic(self, topic):
        self.serve(RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": topic})

    @rule(topic=st.sampled_from(ALL), name=NAMES)
    def register_topic(self, topic, name):
        body = json.dumps({"queueDatas": [{"brokerName": name, "perm": 2}]}).encode()
        self.serve(RequestCode.REGISTER_TOPIC_IN_NAMESRV, {"topic": topic}, (body, body))

    @rule(connection=st.integers(1, 2))
    def lose_connection(self, connection):
        for desk in (self.knowing, self.decoding):
            lose_connection(desk.state, connection, desk.clock.now_ms())

    @invariant()
    def both_answer_alike(self):
        for topic in ALL:
            self.serve(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
        self.serve(RequestCode.GET_BROKER_CLUSTER_INFO, {})


def test_unchanged_registrations_have_the_same_effect_as_decoded_ones(make_desk):
    class OnDesks(ToldAlike):
        pass

    OnDesks.make_desk = staticmethod(make_desk)
    run_state_machine_as_test(OnDesks, settings=settings(max_examples=100, stateful_step_count=20, deadline=None))
