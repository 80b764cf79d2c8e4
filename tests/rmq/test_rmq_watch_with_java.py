"""A real broker of 5.5.0 that comes, gets a topic and is killed, watched at a NameServer of ours and one of Java."""

import contextlib

import pytest
from peers.lab import Lab
from peers.servers import CLUSTER, OurNameServer, registered
from peers.waiting import wait_until
from rmq_runs import Rmq
from rmq_watchers import watching

pytestmark = [pytest.mark.java, pytest.mark.soak]

START_S = 120


def test_life_of_a_broker_is_watched_at_both_kinds_of_name_servers(tmp_path):
    lab = Lab(tmp_path)
    try:
        ours = lab.kept(OurNameServer(tmp_path, "ours", http=True)).start()
        java = lab.java_name_server()
        broker = lab.broker("broker-a", namesrv=[ours.address, java.address])
        http = {ours: f"http://127.0.0.1:{ours.http_port}", java: "http://127.0.0.1:1"}
        rmqs = [Rmq(tmp_path / each.name, NAMESRV_ADDR=each.address, RMQ_NAMESRV_HTTP=http[each]) for each in http]
        with contextlib.ExitStack() as stack:
            brokers, routes = (
                [stack.enter_context(watching(rmq, *words, "-o", "jsonl")) for rmq in rmqs]
                for words in (("broker", "list", "--no-runtime", "--watch"), ("watch", "Orders"))
            )
            broker.start().ready()
            wait_until(lambda: all(registered(each, broker) for each in http), seconds=START_S, what="a broker")
            created = rmqs[0].run("topic", "create", "Orders", "--cluster", CLUSTER, "--yes")
            assert created.code == 0, created
            for each in routes:
                each.wait_for(lambda each=each: each.types("topic") == [("ADDED", "Orders")], "the topic")
            broker.process.kill()
            for each in (*routes, *brokers):
                each.wait_for(lambda each=each: each.events[-1]["type"] == "DELETED", "the broker has left")
            codes = {each.interrupt() for each in (*routes, *brokers)}
    finally:
        lab.close()

    assert codes == {130}
    assert [[kind for kind, _ in each.types("brokerName")] for each in brokers] == [["ADDED", "DELETED"]] * 2
    assert {each["object"]["brokerAddr"] for each in brokers[1].events} == {broker.address}
