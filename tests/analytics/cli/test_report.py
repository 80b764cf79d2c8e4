import os
import re
import shlex
from argparse import Namespace
from html import escape, unescape
from html.parser import HTMLParser

import msgspec
import pytest
import report_samples
from browser import a_tab
from peers.programs import require
from report_samples import HOSTILE, JOBS, a_result, a_row, at

from analytics.cli.options import WrongOptions
from analytics.cli.report import page_of, report
from analytics.reporting.incidents import together
from analytics.reporting.page import ROWS_SHOWN, as_page
from analytics.reporting.results import decoded

WIDTHS = (1200, 375)


def made_of(results):
    return as_page(page_of({result.job: decoded(msgspec.json.encode(result)) for result in results}))


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """The page of an eventful week, and that of a quiet one, written by the command."""
    written = {}
    for name, results in (("eventful", report_samples.eventful()), ("quiet", report_samples.quiet())):
        folder = tmp_path_factory.mktemp(name)
        report_samples.write(folder, results)
        report(Namespace(output=str(folder), file=None))
        written[name] = folder / "report.html"
    return written


class Outline(HTMLParser):
    """Which tags are open around which text."""

    def __init__(self):
        super().__init__()
        self.tags, self.attributes = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]


def outline(page):
    parser = Outline()
    parser.feed(page)
    return parser


def answer_of(page, job_id):
    return unescape(re.search(r'class="answer">([^<]*)', section_of(page, job_id))[1]).replace("<wbr>", "")


def section_of(page, job_id):
    return re.search(rf'<section id="{job_id}">.*?</section>', page, re.DOTALL)[0]


def test_each_analysis_has_question_answer_and_plot_whether_or_not_there_was_anything_to_see(pages):
    for path in pages.values():
        page = path.read_text()
        for job_id, job in JOBS.items():
            section = section_of(page, job_id)
            assert escape(job.question) in section
            assert re.search(r'class="answer">[^<]{10,}', section)
            assert section.count("<svg") == section.count("<title id=") == section.count("<desc id=") >= 2


def test_an_eventful_week_has_a_table_for_each_analysis(pages):
    page = pages["eventful"].read_text()
    assert all("<table>" in section_of(page, job_id) for job_id in JOBS)


def test_report_of_a_quiet_week_states_that_nothing_happened(pages):
    page = pages["quiet"].read_text()
    assert "Nothing needs to be changed." in page
    # Who tells nothing has no evidence of anything.
    assert "All NameServers agreed" not in page
    assert answer_of(page, "A6") == "Too little history to compare."
    assert answer_of(page, "A10") == "No controller recorded that a master changed."


def divergence_of(*rows):
    return answer_of(made_of([a_result("A6", *rows)]), "A6")


def test_name_servers_agree_for_as_long_as_they_were_compared():
    def of(compared_s, *names):
        return divergence_of(a_row("A6", kind="compared", states=list(names), compared_s=compared_s))

    assert of(7200.0, "a", "b") == "The 2 NameServers agreed in all the 2 h in which two were watching."
    assert of(100.0, "a", "b").startswith(
        "Too little history to say that NameServers agree: two of them were watching for"
    )
    assert of(0.0, "a") == "There is nothing to compare: only a recorded its routes."
    assert of(0.0, "a", "b") == "There is nothing to compare: no two NameServers at the same time recorded its routes."


def test_report_begins_with_a_cold_name_server_and_its_wrong_responses():
    cold = {
        "kind": "cold",
        "ns_id": "ns-2",
        "start_time": at(3, "10:00:00"),
        "end_time": at(3, "10:00:25"),
        "seconds": 25.0,
        "lacked": ["a:0", "a:1", "b:0"],
        "lacked_seen": 3,
    }
    compared = a_row("A6", kind="compared", states=["ns-1", "ns-2"], compared_s=7200.0)
    counts = {"not_found_min": 1_200, "not_found_max": 1_650}
    sentence = divergence_of(compared, a_row("A6", **cold, **counts))
    assert sentence.startswith(
        "ns-2 had just started on 03-03 10:00:00 and lacked 3 brokers that were there, for 25 s; "
    )
    assert 'it answered "no such topic" 1,200 to 1,650 times; that includes topics that exist nowhere.' in sentence
    assert sentence.endswith("Otherwise the 2 NameServers agreed in all the 2 h in which two were watching.")
    assert "was not recorded" in divergence_of(compared, a_row("A6", **cold))
    again = cold | {"start_time": at(4, "10:00:00")}
    assert "2 times a NameServer had just started" in divergence_of(a_row("A6", **cold), a_row("A6", **again))


def test_one_start_is_one_however_many_clusters_it_concerns():
    start = {"kind": "cold", "ns_id": "ns-2", "start_time": at(3, "10:00:00"), "end_time": at(3, "10:00:25")}
    rows = [a_row("A6", **start, cluster=name, seconds=25.0, lacked=[f"{name}:0"], lacked_seen=1) for name in "ew"]
    assert divergence_of(*rows).startswith(
        "ns-2 had just started on 03-03 10:00:00 and lacked 2 brokers that were there"
    )


def test_report_does_not_count_brokers_that_only_the_cold_name_server_knew():
    def of(lacked_seen):
        start = {"kind": "cold", "ns_id": "ns-0", "start_time": at(3), "end_time": at(3, "00:01:30"), "seconds": 90.0}
        return divergence_of(a_row("A6", **start, lacked=["a:0", "b:0"], lacked_seen=lacked_seen))

    assert (
        "lacked 2 brokers that it had before, for at most 90 s; no other NameServer observed whether they were up; "
        in of(0)
    )
    assert "lacked 2 brokers, 1 of which were up, for at most 90 s; no other NameServer observed the rest; " in of(1)


def test_name_servers_that_share_no_cluster_have_nothing_to_agree_on():
    def of(**seconds):
        names = [[f"{name}-1", f"{name}-2"] for name in seconds]
        rows = zip(seconds.items(), names, strict=True)
        return divergence_of(
            *(a_row("A6", kind="compared", cluster=name, states=each, compared_s=s) for (name, s), each in rows)
        )

    assert (
        of(east=0.0, west=0.0)
        == "There is nothing to compare: no two NameServers at the same time recorded its routes."
    )
    assert of(east=7200.0, west=3600.0).startswith("The 4 NameServers agreed about 2 clusters in at least 60 min in")
    alone = of(east=7200.0, west=0.0)
    assert alone.startswith("The 2 NameServers agreed about 1 cluster in all the 2 h in which two were watching.")
    assert alone.endswith("Of west no two were observed at the same time.")


def test_topics_are_not_judged_by_less_than_three_days():
    def of(days):
        rows = [
            a_row(
                "A9", kind="topic", topic="t", verdict="keep", queues_now=8, queues_proposed=8, days=n, days_differing=0
            )
            for n in days
        ]
        return answer_of(made_of([a_result("A9", *rows)]), "A9")

    assert of([1, 2]) == "There is too little history of 2 topics, sampled on less than 3 days."
    assert of([7, 2]) == (
        "Of 1 sampled topic none needs other numbers of queues. "
        "There is too little history of 1 topic, sampled on less than 3 days."
    )
    assert of([7]) == "Of 1 sampled topic none needs other numbers of queues."


def test_usual_duration_of_a_phase_needs_five_failovers():
    def of(n):
        phase = a_row("A10", kind="phase", phase="detect", n=n, p50_s=1.0, p95_s=2.0)
        failover = a_row("A10", kind="failover", failover_id="c/b/2", broker_name="b", total_s=2.0, missing=[])
        return made_of([a_result("A10", failover, phase)])

    assert "What a phase takes" not in of(2)
    assert "What a phase takes" in of(5)


def test_page_loads_nothing_and_runs_no_script(pages):
    for path in pages.values():
        found = outline(path.read_text())
        assert not {"script", "link", "img", "iframe", "object"} & set(found.tags)
        outside = [each for each in found.attributes if each[1] in ("src", "href") and not each[2].startswith("#")]
        assert outside == []
        assert not re.search(r"url\(|@import", path.read_text())


def test_a_name_from_the_wire_is_shown_and_does_nothing(pages):
    page = pages["eventful"].read_text()
    assert HOSTILE not in page
    assert "&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;" in page


def test_what_happened_comes_first_in_words(pages):
    page = pages["eventful"].read_text()
    assert "4 failovers; the slowest, of broker-03, took 33 s until ns-1 showed it" in page
    assert "until its role addresses lead there" in page
    assert "the largest had 80 brokers within 30 s" in page
    assert "These fail together" in page
    assert "broker-00:0, broker-01:1, broker-02:0" in page


def test_changes_come_with_the_commands_that_make_them_in_order(pages):
    page = pages["eventful"].read_text()
    assert (
        "mqadmin updateBrokerConfig -n &quot;$NAMESRV_ADDR&quot; -b &#x27;10.0.0.0:10911&#x27; "
        "-k brokerNotActiveTimeoutMillis -v 60000"
    ) in page
    assert "ADDRESS-OF-broker-01-1" in page
    steps = [page.index(each) for each in ("topicRoute", "-r 16 -w 8", "consumerProgress", "-r 8 -w 8")]
    assert steps == sorted(steps)
    assert "go on only if it has read=16 write=16 there" in page


def test_a_topic_that_gets_another_number_of_queues_is_not_moved_at_the_same_time(pages):
    page = pages["eventful"].read_text()
    assert "Other numbers of queues: 2 changes" in page
    assert "Queues on other broker sets: 1 change" in page
    assert "orders on broker-00: go on" in page
    assert "payments on broker-00: go on" in page


def test_report_states_that_a_missing_topic_is_created_on_a_set():
    row = {"topic": "new", "broker_name": "b", "position": 1, "reason": "", "confidence": 1.0}
    counts = {"read_now": 0, "write_now": 0, "read_proposed": 2, "write_proposed": 2}
    steps = ["expect absent", "create read=2 write=0", "update read=2 write=2"]
    proposal = a_row("A8", kind="proposal", **row, **counts, steps=steps, commands=["a", "b", "c"])
    page = page_of({"A8": decoded(msgspec.json.encode(a_result("A8", proposal)))})
    assert [words for words, _ in page.advice[0].commands] == [
        "new on b: go on only if it is not there",
        "new on b: read=2 write=0; creates it there: give it the attributes that it has elsewhere (-a)",
        "new on b: read=2 write=2",
    ]


def test_brokers_without_a_reported_timeout_have_no_command_for_it_but_a_sentence(pages):
    page = pages["eventful"].read_text()
    assert "ADDRESS-OF-broker-02-0" not in page
    assert "-v 90000" not in page
    assert "until then 1 broker of these will expire after 120 s, whatever is recommended" in page


def test_a_timeout_without_evidence_is_not_advised():
    row = {
        "broker_name": "b",
        "broker_id": 0,
        "current_timeout_s": 10.0,
        "recommended_timeout_s": 60.0,
        "confidence": "low",
    }
    page = made_of([a_result("A5", a_row("A5", **row))])
    assert "Nothing needs to be changed." in page


def test_the_command_of_a_timeout_is_one_command_whatever_a_broker_is_called():
    row = {
        "broker_name": "b'; reboot '",
        "broker_id": 0,
        "current_timeout_s": 10.0,
        "recommended_timeout_s": 60.0,
        "confidence": "high",
    }
    page = page_of({"A5": decoded(msgspec.json.encode(a_result("A5", a_row("A5", **row))))})
    (words,) = (shlex.split(command) for _, command in page.advice[0].commands)
    assert words[words.index("-b") + 1] == "ADDRESS-OF-b'; reboot '-0"


def test_seconds_of_a_week_are_plotted_as_seconds():
    storm = a_row(
        "A11",
        cause="brokers",
        start=at(5, "03:00:00"),
        end=at(5, "03:00:40"),
        seconds=40.0,
        brokers=24,
        registrations=72,
        share=0.3,
    )
    section = section_of(made_of([a_result("A11", storm)]), "A11")
    ticks = re.findall(r'<text class="tick"[^>]*>(03:0[^<]*|02:5[^<]*)</text>', section)
    assert {"03:00"} <= {tick[:5] for tick in ticks}
    assert "03-04" not in section, "the day before"


def test_long_tables_are_truncated_with_a_note():
    rows = [
        a_row("A3", broker_name=f"b{n}", broker_id=0, transitions=n, peak=1.0, peak_time=at(3), time_flagged_s=0.0)
        for n in range(40)
    ]
    section = section_of(made_of([a_result("A3", *rows)]), "A3")
    assert section.count("<tr>") == ROWS_SHOWN + 1
    assert "and 24 more" in section


def test_analyses_that_were_not_run_are_counted():
    assert "15 analyses have not been run yet" in made_of([a_result("A1")])


def test_command_without_results_names_the_next_step(tmp_path):
    with pytest.raises(WrongOptions, match="run `rmq-analytics run` first"):
        report(Namespace(output=str(tmp_path), file=str(tmp_path / "report.html")))


def test_pairs_that_hang_together_are_one_group():
    assert together([("a", "b"), ("c", "d"), ("b", "e"), ("f", "a")]) == [["a", "b", "e", "f"], ["c", "d"]]


# Minutes of a history, in which one broker was killed and another one stopped for 40 s

MINUTES = {
    "A1": {
        "broker_id": 0,
        "observed_s": 127.0,
        "up_s": 104.0,
        "unplanned_s": 23.0,
        "unplanned_least_s": 11.0,
        "planned_s": 0.0,
        "failures": 1,
        "mtbf_s": 104.0,
        "mttr_s": 23.0,
        "mtbf_lower_s": 22.0,
        "mtbf_upper_s": 2_027.0,
        "availability": 0.82017,
    },
    "A2": {
        "broker_id": 0,
        "source": "namesrv",
        "n": 8,
        "period_ms": 30_000.0,
        "p50_ms": 19_297,
        "p99_ms": 40_200,
        "max_ms": 40_196,
        "missed": 2,
        "miss_ratio": 0.2,
        "confidence": "low",
    },
    "A4": {"source": "namesrv", "reason": "channel_closed", "n": 2, "p50_ms": 0.0, "p95_ms": 0.0, "max_ms": 0},
    "A5": {
        "broker_id": 2,
        "period_ms": 30_000.0,
        "recommended_timeout_s": 3.0,
        "current_timeout_s": 120.0,
        "confidence": "low",
    },
    "A14": {"broker_a": "a:0", "broker_b": "b:0", "jaccard": 1.0, "joint_minutes": 1, "joint_outages": 1},
}
SENTENCES = {
    "A1": "1 of 1 broker were down at some time, with 1 unplanned failure; lone:0 for longest: at least 11 s and at "
    "most 23 s in 127 s.",
    "A2": "1 of 1 broker missed heartbeats, lone:0 most: 2 of 10 that were due, too little history for a share, "
    "with 40.2 s as the longest gap. That is too little history to say how regularly they send heartbeats.",
    "A4": "2 removals; 2 at the end of a connection, at once.",
    "A5": "Too little history to judge the timeouts of 1 broker.",
    "A14": "1 pair of brokers failed together once: too little history to tell a shared cause from chance.",
}


def minutes_of(job_id):
    values = MINUTES[job_id]
    return a_result(job_id, a_row(job_id, **({"broker_name": "lone"} if "broker_id" in values else {}), **values))


@pytest.mark.parametrize("job_id", MINUTES)
def test_report_of_minutes_states_nothing_without_evidence(job_id):
    section = section_of(made_of([minutes_of(job_id)]), job_id)
    assert re.search(r'class="answer">([^<]*)', section)[1] == SENTENCES[job_id]
    for figure in ("82.0", "20.00 %", ">3 s<", "104 s"):
        assert figure not in section


def heartbeats_of(name, n, missed, **values):
    """A broker's beats to NameServers, as A2 tells them; 100 of them that were due tell a share."""
    due = n + (missed or 0)
    proposal = {"source": "namesrv", "p50_ms": 30_000, "p99_ms": 31_000, "max_ms": 40_000, "period_ms": 30_000.0}
    ratio = None if missed is None else missed / due
    who = {"broker_name": name, "broker_id": 0}
    sure = "high" if due >= 100 and missed is not None else "low"
    return a_row("A2", **who, n=n, missed=missed, miss_ratio=ratio, confidence=sure, **(proposal | values))


def heartbeat_sentence(*rows):
    return answer_of(made_of([a_result("A2", *rows)]), "A2")


def test_report_counts_no_missed_heartbeat_of_a_broker_without_a_known_period():
    unknown = heartbeats_of("slow", 5, None, period_ms=None)
    words = "Of 1 broker there is too little history to know the period, and which of the heartbeats were missed."
    assert heartbeat_sentence(unknown) == words
    assert heartbeat_sentence(unknown, heartbeats_of("a", 900, 0)) == f"No heartbeat of 1 broker was missed. {words}"
    assert "30 s</td>" not in section_of(made_of([a_result("A2", unknown)]), "A2").split("median")[0]


def test_broker_with_the_longest_gap_missed_most_heartbeats():
    lone = heartbeats_of("lone", 45, 15)
    pair = heartbeats_of("pair", 86_399, 20, source="controller", period_ms=1_000.0)
    assert "lone:0 most: 15 of 60 that were due, too little history for a share" in heartbeat_sentence(pair, lone)


def test_one_missed_heartbeat_of_many_is_more_than_none():
    page = made_of([a_result("A2", heartbeats_of("a", 86_399, 1))])
    assert "a:0 most: under 0.01 % of them" in answer_of(page, "A2")
    assert "0.00 %" not in section_of(page, "A2")


def test_a_broker_that_was_down_all_the_time_was_down():
    well = MINUTES["A1"] | {"failures": 0, "unplanned_s": 0.0, "unplanned_least_s": 0.0, "availability": 1.0}
    dead = well | {"unplanned_s": 7_200.0, "unplanned_least_s": 7_200.0, "observed_s": 7_200.0, "availability": 0.0}
    rows = [a_row("A1", broker_name="a", **well), a_row("A1", broker_name="dead", **dead)]
    assert answer_of(made_of([a_result("A1", *rows)]), "A1") == (
        "1 of 2 brokers were down at some time, with 0 unplanned failures; dead:0 for longest: 2 h in 2 h, down since "
        "before the window."
    )


def test_who_could_not_be_judged_did_not_behave_as_usual():
    def of(*brokers):
        return answer_of(
            made_of([a_result("A13", *(a_row("A13", metric="judged", brokers=n) for n in brokers))]), "A13"
        )

    assert of() == of(0) == "Too little history to know how brokers usually behave."
    assert of(1) == "The 1 broker with enough history behaved as it always does."
    assert of(1, 2) == "Each of the 3 brokers with enough history behaved as it always does."


def test_brokers_of_one_name_in_two_clusters_are_two():
    def of(*clusters):
        return made_of([a_result("A2", *(heartbeats_of("a", 900, 3, cluster=name) for name in clusters))])

    assert answer_of(of("east", "west"), "A2").startswith("2 of 2 brokers missed heartbeats, east/a:0 most")
    assert "west/a:0" in section_of(of("east", "west"), "A2")
    assert answer_of(of("east"), "A2").startswith("1 of 1 broker missed heartbeats, a:0 most")


def test_brokers_of_one_name_do_not_fail_together_with_those_of_two_clusters():
    def pair(cluster, other):
        met = {"jaccard": 0.9, "joint_minutes": 9, "joint_outages": 3}
        return a_row("A14", cluster=cluster, broker_a="a:0", cluster_b=cluster, broker_b=other, **met)

    sentence = answer_of(made_of([a_result("A14", pair("east", "b:0"), pair("west", "c:0"))]), "A14")
    assert sentence.endswith("a power line: east/a:0, east/b:0; west/a:0, west/c:0.")


def test_each_of_two_clusters_may_have_one_set():
    def of(*clusters):
        sets = [a_row("A8", kind="broker", cluster=name, broker_name="a", queues=8, ratio=1.0) for name in clusters]
        return answer_of(made_of([a_result("A8", *sets)]), "A8")

    assert of("east", "west") == "Each cluster has one broker set only: nothing can be spread unevenly."
    assert of("east") == "There is one broker set only: nothing can be spread unevenly."


def test_resizes_are_counted_once_however_many_clusters_they_concern():
    def of(**values):
        about = {"kind": "operation", "topic": "t", "operation_id": "t.1", "result": "done", "seconds": 60.0}
        about |= {"created": at(3), "longest_phase": "DRAIN", "longest_s": 40.0, "evidence": ["g has consumed all"]}
        rows = [a_row("A15", **(about | values), cluster=name) for name in ("east", "west")]
        return answer_of(made_of([a_result("A15", *rows)]), "A15")

    longest = "The longest wait was that of east/t 03-03 00:00:00 in DRAIN, 40 s: g has consumed all."
    assert of() == f"1 resize: 1 done. {longest}"
    again = "1 resize opened dropped queues again, as messages came late."
    assert of(reopened=2, result="running") == f"1 resize: 1 running. {longest} {again}"


def test_what_was_not_sampled_around_a_resize_is_no_zero():
    about = {"topic": "t", "operation_id": "t.1", "result": "done", "created": at(3), "seconds": 9.0}
    group = a_row("A15", **about, kind="group", group="g", lag_max_during=0)
    section = section_of(made_of([a_result("A15", a_row("A15", **about, kind="operation"), group)]), "A15")
    assert section.count("not sampled") == 5 + 4


def test_decisions_of_the_autoscaler_are_counted():
    def decided(verdict, count):
        return a_row("A15", kind="decision", topic="t", verdict=verdict, decisions=count, first=at(3), last=at(3))

    rows = [decided("kept", 9), decided("proposed", 2), decided("proposed", 1), decided("refused", 1)]
    sentence = answer_of(made_of([a_result("A15", *rows)]), "A15")
    assert sentence == "No topic was resized. The autoscaler proposed 3 times, was refused 1 time."


def test_unwanted_jumps_are_counted_by_cause_beside_what_repairs_spared():
    def of(cause, *, messages, wanted=False):
        about = {"kind": "group", "group": "billing", "topic": "orders", "events": 1, "queues": 8, "removed": 0}
        about["messages_skipped"] = 0
        return a_row("A16", **about, cause=cause, is_wanted=wanted, messages_again=messages, last=at(4))

    repairs = {"events": 1, "problems": 1, "messages_spared": 900, "would_change": 2}
    run = a_row("A16", kind="run", broker_name="broker-a", **repairs)
    rows = [of("failover", messages=950), of("restart", messages=50), of("reset", messages=7, wanted=True)]
    sentence = answer_of(made_of([a_result("A16", *rows, run)]), "A16")
    assert sentence == (
        "1 group in a topic went back unwanted: 950 by failover, 50 by restart messages at most. "
        "Repairs spared 900 messages and only reported 2 queues. 1 run did not come to an end."
    )
    wanted = answer_of(made_of([a_result("A16", of("reset", messages=7, wanted=True))]), "A16")
    assert wanted == "No offset went back that nobody has wanted. Resets put back 7 messages."


def test_what_is_usual_for_a_broker_is_not_known_of_one_day():
    day = msgspec.structs.replace(a_result("A13"), days=1)
    assert "Too little history to know how brokers usually behave." in section_of(made_of([day]), "A13")


# In a real browser

_OVERFLOWING = """
[...document.querySelectorAll('body *')].filter(each => !each.closest('svg') || each.tagName === 'svg')
  .filter(each => each.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
  .filter(each => getComputedStyle(each).position !== 'absolute')
  .filter(each => !each.closest('thead') || innerWidth > 800)
  .map(each => each.tagName + ' ' + each.textContent.slice(0, 60))
"""

#: Plots whose words are cut off at their edge.
_CUT_OFF = """
[...document.querySelectorAll('svg')].filter(svg => svg.getBoundingClientRect().width > 0).flatMap(svg => {
  const box = svg.getBoundingClientRect();
  return [...svg.querySelectorAll('text')].filter(each => {
    const own = each.getBoundingClientRect();
    return own.left < box.left - 1 || own.right > box.right + 1 || own.bottom > box.bottom + 1;
  }).map(each => svg.querySelector('title').textContent + ': ' + each.textContent);
})
"""

_PLOTS = """
Object.fromEntries([...document.querySelectorAll('section[id^=A]')].map(section =>
  [section.id, [...section.querySelectorAll('svg')].filter(svg => svg.getBoundingClientRect().height > 40).length]))
"""

_SMALLEST_LETTERS = """
Math.min(...[...document.querySelectorAll('svg text')]
  .map(each => each.getBoundingClientRect().height).filter(height => height > 0))
"""

#: WCAG's contrast of text with the page, the least of all kinds of text.
_CONTRAST = """
(() => {
  const light = text => {
    const [r, g, b] = text.match(/[\\d.]+/g).map(Number).map(v => v / 255)
      .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratio = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  const page = light(getComputedStyle(document.body).backgroundColor);
  const texts = ['.answer', '.question', '.source', 'td', 'th', 'a'].map(each => document.querySelector(each));
  const letters = texts.map(each => getComputedStyle(each).color);
  const drawn = [...document.querySelectorAll('svg text')].map(each => getComputedStyle(each).fill);
  return Math.min(...[...letters, ...drawn].map(color => ratio(light(color), page)));
})()
"""


@pytest.mark.parametrize("name", ["eventful", "quiet"])
async def test_a_browser_shows_it_whole_on_wide_and_narrow_screens_by_day_and_by_night(pages, name, tmp_path):
    require("chromium")
    async with a_tab(tmp_path) as tab:
        for width in WIDTHS:
            for dark in (False, True):
                await tab.open(pages[name].as_uri(), width=width, dark=dark)
                assert tab.requests == [pages[name].as_uri()]
                assert await tab.value(_OVERFLOWING) == []
                assert await tab.value("document.documentElement.scrollWidth <= innerWidth")
                plots = await tab.value(_PLOTS)
                assert set(plots) == set(JOBS)
                assert min(plots.values()) >= 1
                assert await tab.value(_CUT_OFF) == []
                assert await tab.value(_SMALLEST_LETTERS) >= 11
                if name == "eventful":
                    assert await tab.value(_CONTRAST) >= 4.5
                if folder := os.environ.get("REPORT_SCREENSHOTS"):
                    await tab.screenshot(tmp_path.joinpath(folder, f"{name}-{width}-{'dark' if dark else 'light'}.png"))
