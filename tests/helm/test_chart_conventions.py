"""What a good citizen of a cluster does, for all value sets."""

import re

import pytest
import yaml
from rendered_chart import (
    CHART,
    EVERYTHING,
    FULLNAME,
    VALUE_SETS,
    container,
    merged,
    objects,
    objects_of,
    of_kind,
    pod_specs,
    pod_templates,
    properties,
    render,
    server,
)

from analytics.__main__ import _parser as analytics_parser

SELECTOR = {f"app.kubernetes.io/{each}" for each in ("name", "instance", "component")}

every_set = pytest.mark.parametrize("values", VALUE_SETS)


def all_containers(spec):
    return [*spec.get("initContainers", []), *spec["containers"]]


def selecting_services(rendered):
    """Return the Services with a selector; those of broker sets have none."""
    services = of_kind(rendered, "Service")
    return {name: each for name, each in services.items() if "-role-proxy" in name or "-set-" not in name}


def selects(selector, labels):
    return selector.items() <= labels.items()


@every_set
def test_no_pod_runs_as_root_or_may_become_more_than_it_is(values):
    for name, spec in pod_specs(objects_of(values)).items():
        pod = spec["securityContext"]
        assert (pod["runAsNonRoot"], pod["runAsUser"], pod["fsGroup"]) == (True, 10001, 10001), name
        assert pod["seccompProfile"] == {"type": "RuntimeDefault"}, name
        for each in all_containers(spec):
            assert each["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }, name


@every_set
def test_no_pod_gets_a_token_or_variables_of_service_links(values):
    """A service `rmq-namesrv-http` would give the server RMQ_NAMESRV_HTTP_PORT, which is a property of its."""
    for name, spec in pod_specs(objects_of(values)).items():
        assert spec["automountServiceAccountToken"] is False, name
        assert spec["enableServiceLinks"] is False, name
        projected = [each["name"] for each in spec["volumes"] if "projected" in each]
        publishes = values == "role proxy" and name.endswith("-controller")
        assert projected == (["kubernetes"] if publishes else []), name


@every_set
def test_memory_is_limited_and_processor_time_is_only_requested(values):
    for name, spec in pod_specs(objects_of(values)).items():
        for each in all_containers(spec):
            assert set(each["resources"]["limits"]) == {"memory"}, name
            assert set(each["resources"]["requests"]) == {"cpu", "memory"}, name


@every_set
def test_every_mount_has_its_volume_and_every_volume_its_mount(values):
    claims = {name: [] for name in pod_specs(objects_of(values))}
    for name, each in of_kind(objects_of(values), "StatefulSet").items():
        claims[f"StatefulSet/{name}"] = [c["metadata"]["name"] for c in each["spec"].get("volumeClaimTemplates", [])]
    for name, spec in pod_specs(objects_of(values)).items():
        volumes = [volume["name"] for volume in spec["volumes"]] + claims[name]
        mounted = [mount["name"] for each in all_containers(spec) for mount in each["volumeMounts"]]
        assert sorted(volumes) == sorted(set(mounted)), name


@every_set
def test_selectors_choose_by_name_release_and_component_only(values):
    rendered = objects_of(values)
    for kind in ("StatefulSet", "Deployment", "PodDisruptionBudget"):
        for name, each in of_kind(rendered, kind).items():
            assert set(each["spec"]["selector"]["matchLabels"]) == SELECTOR, name
    for name, each in selecting_services(rendered).items():
        assert set(each["spec"]["selector"]) - {"statefulset.kubernetes.io/pod-name"} == SELECTOR, name


@every_set
def test_every_selector_finds_the_pods_of_exactly_one_set(values):
    rendered = objects_of(values)
    pods = {name: template["metadata"]["labels"] for name, template in pod_templates(rendered).items()}
    selectors = {name: each["spec"]["selector"] for name, each in selecting_services(rendered).items()}
    selectors |= {
        f"{kind} {name}": each["spec"]["selector"]["matchLabels"]
        for kind in ("StatefulSet", "Deployment", "PodDisruptionBudget")
        for name, each in of_kind(rendered, kind).items()
    }
    for name, selector in selectors.items():
        own = {key: value for key, value in selector.items() if key in SELECTOR}
        found = [pod for pod, labels in pods.items() if selects(own, labels)]
        assert len(found) == 1, f"{name} finds {found}"


@pytest.mark.parametrize("component", ["namesrv", "controller"])
@every_set
def test_probes_query_what_each_is_for_and_give_a_slow_start_two_minutes(values, component):
    rendered = objects_of(values)
    fullname = VALUE_SETS[values].get("fullnameOverride", FULLNAME)
    if ("StatefulSet", f"{fullname}-{component}") not in rendered:
        assert VALUE_SETS[values]["controller"]["enabled"] is False
        return
    each = container(rendered, component, fullname)
    probes = {name: each[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")}
    assert probes == {
        "startup": {"path": "/healthz", "port": "http"},
        # From the event loop alone: etcd that is away restarts nobody.
        "liveness": {"path": "/livez", "port": "http"},
        "readiness": {"path": "/readyz", "port": "http"},
    }
    startup = each["startupProbe"]
    assert startup["periodSeconds"] * startup["failureThreshold"] >= 120


def test_servers_are_sets_with_stable_names_that_start_together_and_change_one_by_one():
    for component in ("namesrv", "controller"):
        spec = server(objects_of("production"), component)["spec"]
        assert spec["serviceName"] == f"{FULLNAME}-{component}-headless"
        assert spec["podManagementPolicy"] == "Parallel"
        assert spec["updateStrategy"] == {"type": "RollingUpdate"}
        assert ("Service", spec["serviceName"]) in objects_of("production")


def test_a_new_nameserver_has_time_to_get_all_routes_before_the_next_one_goes():
    assert server(objects_of("production"), "namesrv")["spec"]["minReadySeconds"] > 30
    assert "needWaitForService=true" in properties(objects_of("production"), "namesrv").splitlines()


def test_every_nameserver_can_be_given_a_way_in_from_outside():
    services = of_kind(objects_of("everything"), "Service")
    ways = [services[f"{FULLNAME}-namesrv-{n}-external"]["spec"] for n in range(3)]
    assert [each["ports"][0]["nodePort"] for each in ways] == [30001, 30002, 30003]
    pods = [each["selector"]["statefulset.kubernetes.io/pod-name"] for each in ways]
    assert pods == [f"{FULLNAME}-namesrv-{n}" for n in range(3)]


def test_at_most_one_is_away_while_nodes_are_emptied_and_an_ill_one_holds_nobody_up():
    budgets = of_kind(objects_of("production"), "PodDisruptionBudget")
    assert set(budgets) == {f"{FULLNAME}-namesrv", f"{FULLNAME}-controller"}
    for each in budgets.values():
        assert each["spec"]["maxUnavailable"] == 1
        assert each["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"


def test_in_production_no_two_servers_share_a_host_and_zones_are_spread_where_possible():
    for component in ("namesrv", "controller"):
        spec = server(objects_of("production"), component)["spec"]["template"]["spec"]
        assert {each["topologyKey"]: each["whenUnsatisfiable"] for each in spec["topologySpreadConstraints"]} == {
            "topology.kubernetes.io/zone": "ScheduleAnyway",
            "kubernetes.io/hostname": "DoNotSchedule",
        }


@every_set
def test_the_time_to_stop_is_enough_to_leave_the_services_and_drain(values):
    rendered = objects_of(values)
    for (kind, name), each in rendered.items():
        if kind != "StatefulSet" or name.endswith("-etcd"):
            continue
        spec = each["spec"]["template"]["spec"]
        component = each["metadata"]["labels"]["app.kubernetes.io/component"]
        fullname = name.removesuffix(f"-{component}")
        lines = dict(line.split("=", 1) for line in properties(rendered, component, fullname).splitlines())
        if component == "offset-manager":
            drain = 20  # for its last flush
        else:
            drain = int(lines["shutdownWaitTimeSeconds"])
            assert lines["enableShutdownGracefully"] == ("true" if drain else "false")
        (its_container,) = spec["containers"]
        before = int(its_container["lifecycle"]["preStop"]["exec"]["command"][1]) if "lifecycle" in its_container else 0
        assert before + drain < spec["terminationGracePeriodSeconds"], name


@every_set
def test_no_secret_stands_in_what_is_rendered(values):
    """They come from secrets that exist; the chart makes none."""
    rendered = objects_of(values)
    assert of_kind(rendered, "Secret") == {}
    for name, spec in pod_specs(rendered).items():
        for each in spec["containers"]:
            for variable in each.get("env", []):
                if "PASSWORD" in variable["name"] or "USER" in variable["name"]:
                    assert "secretKeyRef" in variable["valueFrom"], name


def test_passwords_come_from_the_secrets_that_are_named():
    env = {each["name"]: each for each in container(objects_of("everything"), "controller")["env"]}
    named = {name: each["valueFrom"]["secretKeyRef"] for name, each in env.items() if "PASSWORD" in name}
    assert named == {
        "RMQ_CONTROLLER_ETCD_PASSWORD": {"name": "etcd-user", "key": "password"},
        "RMQ_CONTROLLER_TLS_SERVER_KEY_PASSWORD": {"name": "rocketmq-tls", "key": "password"},
        "RMQ_CONTROLLER_TLS_CLIENT_KEY_PASSWORD": {"name": "rocketmq-tls", "key": "password"},
    }


#: What consoles may reach besides is tested with them.
WITHOUT_CONSOLE = {key: value for key, value in EVERYTHING.items() if key != "console"} | {
    "console": {"enabled": False}
}


def test_the_network_policy_opens_each_port_to_whom_it_is_for():
    policies = of_kind(objects(WITHOUT_CONSOLE), "NetworkPolicy")
    rules = {
        component: [
            ([port["port"] for port in rule["ports"]], rule.get("from"))
            for rule in policies[f"{FULLNAME}-{component}"]["spec"]["ingress"]
        ]
        for component in ("namesrv", "controller")
    }
    monitoring = [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]
    (peers, whom), (others, other_servers), (metrics, monitors) = rules["namesrv"]
    assert (peers, others, metrics, monitors) == ([9876, 8080, 9866], [9866], [9880], monitoring)
    assert other_servers[0]["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "namesrv"
    assert whom[0] == {"namespaceSelector": {"matchLabels": {"rocketmq": "yes"}}}
    assert whom[1]["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "test"
    assert [ports for ports, _ in rules["controller"]] == [[9878], [9881]]


def test_the_network_policy_lets_out_to_dns_brokers_and_etcd():
    policies = of_kind(objects(WITHOUT_CONSOLE), "NetworkPolicy")
    out = {
        component: [
            port["port"] for rule in policies[f"{FULLNAME}-{component}"]["spec"]["egress"] for port in rule["ports"]
        ]
        for component in ("namesrv", "controller")
    }
    assert out == {
        "namesrv": [53, 53, 10911, 30911, 9866],
        "controller": [53, 53, 10911, 30911, 9876, 19876, 2379, 12379],
    }
    analytics = policies[f"{FULLNAME}-analytics"]["spec"]
    assert analytics["policyTypes"] == ["Ingress", "Egress"]
    assert not {"ingress", "egress"} & set(analytics), "the jobs talk to nobody"


def test_the_embedded_etcd_is_reached_by_controllers_alone_also_without_other_policies():
    rendered = objects(merged(VALUE_SETS["embedded etcd"], {"networkPolicy": {"enabled": False}}))
    (policy,) = of_kind(rendered, "NetworkPolicy").values()
    assert policy["spec"]["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "etcd"
    whom = [
        rule["from"][0]["podSelector"]["matchLabels"]["app.kubernetes.io/component"]
        for rule in policy["spec"]["ingress"]
    ]
    assert whom == ["controller", "etcd"]


def test_spark_jobs_wait_until_they_are_wanted_and_never_overtake_each_other():
    jobs = of_kind(objects_of("production"), "CronJob")
    assert set(jobs) == {f"{FULLNAME}-analytics-{job}" for job in ("ingest", "run", "compact")}
    for name, each in jobs.items():
        assert each["spec"]["suspend"] is True
        assert each["spec"]["concurrencyPolicy"] == "Forbid"
        (its_container,) = each["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
        program, what, *options = its_container["command"]
        assert (program, what) == ("rmq-analytics", name.rpartition("-")[2])
        folder = "/var/lib/rocketmq/history"
        of_job = ["--limit=resident_memory_bytes=2147483648"] if what == "run" else []
        common = [f"--history={folder}", f"--output={folder}", "--master=local[2]", "--driver-memory=3g"]
        assert options == [*common, *of_job]


def test_the_program_of_the_jobs_takes_their_arguments():
    for each in of_kind(objects_of("everything"), "CronJob").values():
        (its_container,) = each["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
        options = vars(analytics_parser().parse_args(its_container["command"][1:]))
        assert options["task"].name == its_container["name"]
        assert options["history"] == options["output"] == "/var/lib/rocketmq/history"


def test_controllers_show_prometheus_the_results_of_the_jobs_where_there_are_jobs():
    rendered = objects_of("production")
    (run,) = pod_specs({key: each for key, each in rendered.items() if key[1].endswith("-analytics-run")}).values()
    (job,) = run["containers"]
    (output,) = (word.partition("=")[2] for word in job["command"] if word.startswith("--output="))
    assert f"analyticsDir={output}\n" in properties(rendered, "controller")
    assert output in [mount["mountPath"] for mount in container(rendered, "controller")["volumeMounts"]]
    assert "analyticsDir" not in properties(objects_of("defaults"), "controller")


def test_servers_and_jobs_share_one_claim_that_outlives_the_release():
    rendered = objects_of("production")
    claims = {
        name: volume["persistentVolumeClaim"]["claimName"]
        for name, spec in pod_specs(rendered).items()
        for volume in spec["volumes"]
        if "persistentVolumeClaim" in volume
    }
    assert len(claims) == 5
    assert set(claims.values()) == {f"{FULLNAME}-history"}
    claim = rendered["PersistentVolumeClaim", f"{FULLNAME}-history"]
    assert claim["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]


def test_prometheus_scrapes_every_server_once_ready_or_not_within_a_limit():
    rendered = objects_of("everything")
    monitors = of_kind(rendered, "ServiceMonitor")
    assert set(monitors) == {f"{FULLNAME}-{server}" for server in ("namesrv", "controller", "offset-manager")}
    for name, each in monitors.items():
        assert each["spec"]["sampleLimit"] == 20000
        assert each["metadata"]["labels"]["release"] == "prometheus"
        wanted = each["spec"]["selector"]["matchLabels"]
        services = [
            one for one, its in of_kind(rendered, "Service").items() if selects(wanted, its["metadata"]["labels"])
        ]
        assert services == [f"{name}-headless"]


def test_each_release_is_a_plane_of_its_own():
    def planes(values, release):
        monitors = of_kind(objects(values, release=release), "ServiceMonitor").values()
        found = [rule for each in monitors for rule in each["spec"]["endpoints"][0]["relabelings"]]
        return [rule["replacement"] for rule in found if rule["targetLabel"] == "plane"]

    values = VALUE_SETS["everything"]
    assert planes(values, "one") == ["mq/one"] * 3
    assert planes(values, "two") == ["mq/two"] * 3
    named = merged(values, {"metrics": {"serviceMonitor": {"plane": "production"}}})
    assert planes(named, "one") == ["production"] * 3


def alerts(values):
    rules = of_kind(objects_of(values), "PrometheusRule").values()
    return [rule for each in rules for group in each["spec"]["groups"] for rule in group["rules"] if "alert" in rule]


def test_every_alert_of_the_repository_is_installed_with_a_reachable_runbook():
    files = [yaml.safe_load(path.read_text()) for path in (CHART / "rules").glob("*.yaml")]
    wanted = [rule for each in files for group in each["groups"] for rule in group["rules"] if "alert" in rule]
    assert sorted(rule["alert"] for rule in alerts("everything")) == sorted(rule["alert"] for rule in wanted)
    as_they_are = sorted(alerts("production"), key=str)
    assert as_they_are == sorted(wanted, key=str), "braces and all"
    for rule in alerts("everything"):
        assert rule["annotations"]["runbook_url"] == f"https://wiki.example.org/rocketmq/{rule['alert']}.md"


def test_every_dashboard_is_a_config_map_that_grafanas_sidecar_takes():
    rendered = of_kind(objects_of("everything"), "ConfigMap")
    files = {path.name: path.read_text() for path in (CHART / "dashboards").glob("*.json")}
    made = {name: each for each in rendered.values() for name in each["data"] if name in files}
    assert set(made) == set(files)
    for name, each in made.items():
        assert each["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert each["metadata"]["annotations"]["grafana_folder"] == "RocketMQ"
        assert each["data"][name].strip() == files[name].strip(), "as it is, braces too"
        assert len(each["data"][name].encode()) < 1024 * 1024, "what a ConfigMap holds"


def test_the_notes_name_three_ways_to_connect():
    notes = render(VALUE_SETS["production"])["NOTES.txt"]
    domain = f"{FULLNAME}-namesrv-headless.mq.svc.cluster.local"
    listed = ";".join(f"{FULLNAME}-namesrv-{n}.{domain}:9876" for n in range(3))
    assert f"namesrvAddr={listed}" in notes
    assert "fetchNameSrvAddrByDnsLookup=true" in notes
    assert f"namesrvAddr={domain}:9876" in notes
    assert f"{FULLNAME}-namesrv-discovery.mq.svc.cluster.local:9876" in notes
    assert f"http://{FULLNAME}-namesrv.mq.svc.cluster.local:8080/rocketmq/nsaddr" in notes
    controllers = ";".join(
        f"{FULLNAME}-controller-{n}.{FULLNAME}-controller-headless.mq.svc.cluster.local:9878" for n in range(3)
    )
    assert f"controllerAddr={controllers}" in notes


def test_the_notes_and_the_readme_name_jobs_and_claims_as_they_are_made():
    rendered = objects_of("production")
    notes = render(VALUE_SETS["production"])["NOTES.txt"]
    assert set(re.findall(r"--from=cronjob/(\S+)", notes)) == set(of_kind(rendered, "CronJob"))
    by_hand = re.search(r"^```yaml\n(.*?)^```$", (CHART / "README.md").read_text(), re.MULTILINE | re.DOTALL)[1]
    claims = set(re.findall(r"claimName: ([\w-]+)", by_hand))
    assert claims == set(of_kind(objects(VALUE_SETS["production"], release="rmq"), "PersistentVolumeClaim"))
