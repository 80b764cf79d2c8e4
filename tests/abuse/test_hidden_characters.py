"""Names with characters that a terminal obeys or does not show: no server takes them, no line of a log has them."""

import json
import unicodedata

import msgspec
import pytest
from peers.controllers import OurController

from remoting.protocol.addresses import is_name
from remoting.protocol.plain_text import escaped, escaped_json
from rmq.output.formats import Style, rendered
from rmq.output.printable import printable
from serving.logging.logs import console_line, json_line

#: One of each kind, of each plane: Cc (C0, DEL, C1), Cf (no width, direction, tags), Zl and Zp.
HIDDEN = ["\x00", "\n", "\x1b", "\x7f", "\x85", "\x9b", "\u00ad", "\u200b", "\u202e", "\u2028", "\u2029", "\U000e0041"]
HARMLESS = ["a b", "经纪人-甲", "cafe\u0301", "😀", "b\u3000c", "<b>", "b" * 255]
REGISTER, HEARTBEAT, APPLY_BROKER_ID, REFUSED = 103, 904, 1013, 1
APPLICANT = {"appliedBrokerId": "1", "registerCheckCode": "10.9.9.8:10911;1"}
QUEUES = {"readQueueNums": 1, "writeQueueNums": 1, "perm": 6, "topicSysFlag": 0}
TOPICS = {"topicConfigTable": {name: QUEUES | {"topicName": name} for name in "ab"}, "dataVersion": {"counter": 1}}


class Row(msgspec.Struct):
    name: str


def registration(**fields):
    own = {"clusterName": "C", "brokerName": "B", "brokerAddr": "10.9.9.8:10911", "brokerId": "0"}
    return own | {"haServerAddr": "10.9.9.8:10912"} | fields


def test_controller_takes_no_hidden_characters_and_all_others(lab):
    controller = lab.kept(OurController(lab.folder)).start()
    names = [*(f"x{each}y" for each in HIDDEN), *HARMLESS]

    def code(number, fields):
        return controller.caller.request(number, registration(**fields)).code

    sets = {name: code(APPLY_BROKER_ID, APPLICANT | {"brokerName": name}) for name in names}
    clusters = {
        name: code(APPLY_BROKER_ID, APPLICANT | {"brokerName": f"b{number}", "clusterName": name})
        for number, name in enumerate(names)
    }
    beats = {name: code(HEARTBEAT, {"clusterName": name}) for name in names}

    taken = [[name for name, code in codes.items() if code == 0] for codes in (sets, clusters, beats)]
    assert taken == [HARMLESS, HARMLESS, HARMLESS]
    assert not any(each in controller.process.text() for each in HIDDEN if each != "\n")


@pytest.mark.parametrize("hidden", HIDDEN)
def test_hidden_character_is_escaped_wherever_text_is_shown(hidden):
    line = {"event": "x", "level": "info", "timestamp": "2026", "broker": f"a{hidden}b", "text": [hidden]}
    (lines, json_text) = (render()(dict(line)).decode() for render in (console_line, json_line))
    row = Row(name=f"a{hidden}b")
    shown = [rendered([row], type(row), Style(output_format=each)) for each in ("json", "jsonl", "csv", "table")]

    assert not is_name(hidden)
    assert json.loads(json_text)["broker"] == json.loads(shown[1])["name"] == f"a{hidden}b"
    assert not [each for each in (lines, json_text, *shown) if not all(map(is_shown, each.replace("\n", "")))]
    assert printable(hidden) == escaped(hidden)


def is_shown(character):
    return unicodedata.category(character) not in {"Cc", "Cf", "Cs", "Zl", "Zp"}


def test_json_stays_the_same_value():
    value = {"😀\U000e0041\x9b": ["\u202e", "é", 'quoted "\x7f" \\ \n'], "n": [1, None]}

    assert json.loads(escaped_json(json.dumps(value, ensure_ascii=False, indent=2))) == value
