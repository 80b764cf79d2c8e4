"""Strangers that register brokers without end, each of a name of its own."""

import contextlib
import itertools
import socket

from peers.scripted import Line, ScriptedBroker
from peers.wire import REGISTER_BROKER

#: The default of brokersPerConnectionMax.
OF_A_CONNECTION = 1024


def a_line(served):
    return Line(socket.create_connection(("127.0.0.1", served.port), timeout=30))


def register_many(line, names):
    """Register brokers of these names over one connection, and return the answers."""
    answers = []
    for name in names:
        fields = {"clusterName": "C", "brokerName": name, "brokerAddr": "10.6.6.6:10911", "brokerId": "0"}
        answers.append(line.request(REGISTER_BROKER, fields))
    return answers


def test_one_connection_registers_a_limited_number_of_brokers_and_the_others_are_served(serve):
    served = serve()
    with contextlib.closing(a_line(served)) as stranger:
        answers = register_many(stranger, (f"made-up-{number}" for number in range(OF_A_CONNECTION + 76)))
        assert [answer.code for answer in answers] == [0] * OF_A_CONNECTION + [1] * 76
        assert "brokersPerConnectionMax" in answers[-1].remark
        # Those that it has, it may register again.
        assert register_many(stranger, ["made-up-7"])[0].code == 0
        with contextlib.closing(ScriptedBroker(a_line(served), "real", address="10.9.9.9:10911")) as real:
            real.register({"a": 4, "b": 4})
            assert served.server.caller.addresses("real") == {"0": "10.9.9.9:10911"}
        assert len(served.events("request_rejected")) < 10
    served.assert_unharmed()


def test_where_foreign_brokers_have_registered_as_many_as_are_allowed_each_connection_still_registers_some(serve):
    served = serve(brokersMax=50)
    names = (f"made-up-{number}" for number in itertools.count())
    with contextlib.closing(a_line(served)) as stranger, contextlib.closing(a_line(served)) as container:
        answers = register_many(stranger, itertools.islice(names, 100))
        assert [answer.code for answer in answers] == [0] * 50 + [1] * 50
        assert "brokersMax" in answers[-1].remark
        answers = register_many(container, [f"real-{number}" for number in range(9)])
        assert [answer.code for answer in answers] == [0] * 8 + [1]
        # All that are registered may register again; over another connection they are some of its 8.
        answers = register_many(stranger, ["made-up-0", "made-up-49"]) + register_many(container, ["real-0", "real-7"])
        assert [answer.code for answer in answers] == [0] * 4
        assert register_many(container, ["made-up-0"])[0].code == 1
    served.assert_unharmed()
