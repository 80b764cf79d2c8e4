"""The console of the chart: which servers it shows, who reaches it from outside, and what is refused."""

import pytest
from rendered_chart import (
    FULLNAME,
    VALUE_SETS,
    merged,
    objects,
    objects_of,
    properties,
    refusal,
    render,
)

from serving.config.console_options import console_peers
from serving.http.console.peers import peer_table

NAMESPACES = {"kubernetes.io/metadata.name": "ingress-nginx"}
#: The least that an Ingress needs.
INGRESS = {
    "admin": {"tokenSecret": {"name": "rocketmq-admin"}},
    "console": {"ingress": {"enabled": True, "host": "mq.example.org", "tlsSecret": "mq-example-org"}},
    "networkPolicy": {"console": [{"namespaceSelector": {"matchLabels": NAMESPACES}}]},
}


def file_of(rendered, component):
    return dict(line.split("=", 1) for line in properties(rendered, component).splitlines() if line)


def headless(component, number, port):
    return f"http://{FULLNAME}-{component}-{number}.{FULLNAME}-{component}-headless.mq.svc.cluster.local:{port}"


def ways_in(rendered, component):
    """Return (component of the release or namespace label, port) of each rule of a server's policy."""
    found = set()
    for rule in rendered["NetworkPolicy", f"{FULLNAME}-{component}"]["spec"]["ingress"]:
        for peer in rule.get("from", ()):
            labels = (peer.get("podSelector") or peer.get("namespaceSelector"))["matchLabels"]
            name = labels.get("app.kubernetes.io/component") or labels.get("kubernetes.io/metadata.name")
            found |= {(name, port["port"]) for port in rule["ports"]}
    return found


def ways_out(rendered, component):
    found = set()
    for rule in rendered["NetworkPolicy", f"{FULLNAME}-{component}"]["spec"]["egress"]:
        ports = [port["port"] for port in rule["ports"]]
        for peer in rule.get("to", [None]):
            name = peer["podSelector"]["matchLabels"]["app.kubernetes.io/component"] if peer else None
            found |= {(name, port) for port in ports}
    return found


def test_consoles_show_every_server_of_the_chart():
    listed = {
        "namesrv": [headless("namesrv", number, 9880) for number in range(3)],
        "controller": [headless("controller", number, 9881) for number in range(3)],
        "offsets": [headless("offset-manager", number, 9883) for number in range(2)],
    }
    without_others = merged(VALUE_SETS["everything"], {"console": {"peers": []}})
    rendered = objects(without_others)
    for component in ("namesrv", "controller"):
        peers = console_peers(file_of(rendered, component)["consolePeers"])
        assert {kind: [each.url for each in peers if each.kind == kind] for kind in listed} == listed


def test_each_server_finds_itself_in_the_list(monkeypatch):
    others = console_peers(file_of(objects_of("everything"), "namesrv")["consolePeers"])
    monkeypatch.setattr("socket.gethostname", lambda: f"{FULLNAME}-namesrv-1")
    table = peer_table("namesrv", "0.0.0.0", 9880, others)
    urls = [peer.url for (kind, _), peer in table.items() if kind == "namesrv"]
    assert urls == [
        "http://127.0.0.1:9880",
        headless("namesrv", 0, 9880),
        headless("namesrv", 2, 9880),
        "http://ns.example.org:19880",
    ]


def test_ingress_leads_to_the_console_of_one_nameserver_and_to_nothing_else_of_it():
    rendered = objects_of("everything")
    ingress = rendered["Ingress", f"{FULLNAME}-console"]["spec"]
    (rule,) = ingress["rules"]
    (path,) = rule["http"]["paths"]
    service = rendered["Service", path["backend"]["service"]["name"]]["spec"]

    assert (rule["host"], path["path"], path["pathType"]) == ("rocketmq.example.org", "/ui", "Prefix")
    assert ingress["tls"] == [{"hosts": ["rocketmq.example.org"], "secretName": "rocketmq-example-org"}]
    assert ingress["ingressClassName"] == "nginx"
    assert service["selector"]["statefulset.kubernetes.io/pod-name"] == f"{FULLNAME}-namesrv-2"
    assert path["backend"]["service"]["port"]["name"] in {each["name"] for each in service["ports"]}


def test_network_policy_lets_consoles_reach_what_they_show_and_the_ingress_controller_reach_them():
    rendered = objects_of("everything")
    shown = {"namesrv": 9880, "controller": 9881, "offset-manager": 9883}
    for component, port in shown.items():
        assert {("namesrv", port), ("controller", port)} <= ways_in(rendered, component)
    for component in ("namesrv", "controller"):
        assert set(shown.items()) | {(None, 19880), (None, 443)} <= ways_out(rendered, component)
    assert ("ingress-nginx", 9880) in ways_in(rendered, "namesrv")
    assert ("ingress-nginx", 9881) not in ways_in(rendered, "controller")


def test_without_a_console_nothing_of_it_remains():
    rendered = objects(merged(VALUE_SETS["offset manager"], {"console": {"enabled": False}}))
    for component in ("namesrv", "controller"):
        file = file_of(rendered, component)
        assert (file["consoleEnable"], [name for name in file if name.startswith("console")]) == (
            "false",
            ["consoleEnable"],
        )
    assert ("namesrv", 9881) not in ways_in(rendered, "controller")
    assert ("controller", 9881) not in ways_out(rendered, "namesrv")


def test_notes_say_where_the_console_is_and_what_it_lacks():
    by_default = render({})["NOTES.txt"]
    assert f"port-forward {FULLNAME}-namesrv-0 9880" in by_default
    assert "Nobody can sign in yet" in by_default
    with_ingress = render(INGRESS)["NOTES.txt"]
    assert "https://mq.example.org/ui/" in with_ingress
    assert "Nobody can sign in" not in with_ingress


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"console": {"ingress": {"host": ""}}}, "console.ingress.host is blank"),
        ({"console": {"ingress": {"tlsSecret": ""}}}, "every sign-in would send a token in clear text"),
        ({"console": {"ingress": {"withoutTls": True}}}, "decide for one"),
        ({"admin": {"tokenSecret": {"name": ""}}}, "nobody could sign in"),
        ({"console": {"ingress": {"pod": 3}}}, "the last one has number 2"),
        ({"networkPolicy": {"console": []}}, "console.ingress.enabled needs 'console' of networkPolicy"),
        ({"console": {"enabled": False}}, "there would be no console"),
        ({"console": {"ingress": {"host": "*.example.org"}}}, "/console/ingress/host"),
        ({"console": {"peers": ["http://ns:9880"]}}, "/console/peers/0"),
        ({"console": {"peers": ["namesrv=http://ns:9880;controller=http://evil"]}}, "/console/peers/0"),
    ],
)
def test_values_of_the_console_that_cannot_be_meant_are_refused(values, sentence):
    assert sentence in refusal(merged(INGRESS, values))
