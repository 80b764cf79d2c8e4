"""A line tells that the answer to role checks of a broker is another one than before."""

from controller_builders import a_set

from controller.failure_detection.heartbeats import BrokerKey
from controller.roles.events import RoleAnswerChanged, RoleAnswers, RoleChecked
from controller.roles.verdict import RoleAnswer, RoleVerdict

KEY = BrokerKey("broker-a", 1)


def test_only_another_certain_answer_is_told():
    told = []
    answers = RoleAnswers(told.append, lambda _: a_set())
    for verdict in (RoleVerdict.SERVES, RoleVerdict.UNKNOWN, RoleVerdict.SERVES, RoleVerdict.FAILED):
        answers.follow(RoleChecked(key=KEY, answer=RoleAnswer(verdict, 5)))
    (changed,) = told
    assert isinstance(changed, RoleAnswerChanged)
    line = changed.line()
    assert (line["old"], line["new"], line["addr"]) == ("serves", "failed", "10.0.0.1:30911")
    # Anybody can check an id that its set does not have.
    answers.follow(RoleChecked(key=BrokerKey("broker-a", 9), answer=RoleAnswer(RoleVerdict.FAILED, 5, is_member=False)))
    assert len(told) == 1
