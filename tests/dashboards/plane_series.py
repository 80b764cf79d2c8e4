"""What Prometheus has of whole control planes: as promtool reads series, for minutes of health and of trouble."""

from dataclasses import dataclass, field

#: Between two scrapes, where a test says nothing else.
INTERVAL_S = 15
#: How long every series is, where a test says nothing else; scenarios happen inside.
MINUTES = 30
CLUSTER = "DefaultCluster"
BROKERS = (("broker-a", 0), ("broker-a", 1), ("broker-b", 0), ("broker-b", 1))
NO_SAMPLE = "_"
#: A sample that is missing with no mark that says so, as after a time in which Prometheus did not run.
NOT_WATCHED = "nobody looked"


@dataclass
class Plane:
    """A control plane and its consumers, all well. Instances have the same names in every plane, as pods have.

    `plane` is None where no label tells planes apart.
    """

    plane: str | None
    name_servers: int = 3
    controllers: int = 3
    interval_s: int = INTERVAL_S
    minutes: int = MINUTES
    series: dict = field(default_factory=dict)

    def __post_init__(self):
        for number in range(self.name_servers):
            self._name_server(f"namesrv-{number}")
        for number in range(self.controllers):
            self._controller(f"controller-{number}", leads=number == 0)
        consumed = {
            "job": "rocketmq-broker",
            "instance": "broker-a",
            "cluster": CLUSTER,
            "consumer_group": "g",
            "topic": "Orders",
        }
        consumed |= {"node_id": "broker-a", "is_retry": "false", "is_system": "false"}
        self.add("rocketmq_consumer_lag_latency_milliseconds", [200] * self.samples, **consumed)

    @property
    def samples(self):
        """How many samples every series has."""
        return self._at(self.minutes)

    def _at(self, minute):
        return int(minute * 60 / self.interval_s)

    def add(self, metric, values, **labels):
        """Say what a series is; what it was before is forgotten."""
        known = labels if self.plane is None else {"plane": self.plane} | labels
        self.series[metric, tuple(sorted(known.items()))] = list(values)

    def set(self, values, since, until=None, metric=None, **labels):
        """Give samples of the series with these labels another value, from one minute on, until another."""
        first, last = self._at(since), self.samples if until is None else self._at(until)
        found = [
            samples
            for (name, having), samples in self.series.items()
            if metric in (None, name) and labels.items() <= dict(having).items()
        ]
        assert found, (metric, labels)
        for samples in found:
            samples[first:last] = [values] * (last - first)

    def die(self, since, until=None, **labels):
        """Let scrapes of these instances fail: Prometheus says so, and has nothing else of them."""
        self.set(NO_SAMPLE, since, until, **labels)
        self.set(0, since, until, metric="up", **labels)

    def go_unwatched(self, since, until):
        """Let nobody scrape for a time, and mark nothing: Prometheus was away."""
        self.set(NOT_WATCHED, since, until)

    def restart_controllers(self, since):
        """Restart all controllers, one after the other; each time the next one leads within a scrape."""
        for number in range(self.controllers):
            instance, away, back = f"controller-{number}", since + 2 * number, since + 2 * number + 0.75
            self.die(away, back, instance=instance)
            for metric in ("broker_sets", "replicas", "active_brokers", "sync_state_set_size"):
                if any(metric in name and ("instance", instance) in labels for name, labels in self.series):
                    self.set(NO_SAMPLE, back, metric=f"rocketmq_controller_{metric}", instance=instance)
            self.set(2, back, metric="rocketmq_controller_role", instance=instance)
            self.lead(f"controller-{(number + 1) % self.controllers}", away + 0.25)

    def restart_name_servers(self, since):
        """Restart all NameServers, one after the other; brokers register with each within 30 s."""
        for number in range(self.name_servers):
            instance, away, back = f"namesrv-{number}", since + 2 * number, since + 2 * number + 0.75
            self.die(away, back, instance=instance)
            self.set(NO_SAMPLE, back, back + 0.5, metric="rocketmq_namesrv_broker_info", instance=instance)

    def vanish(self, since, **labels):
        """Take these instances from what Prometheus shall scrape: it has nothing of them at all."""
        self.set(NO_SAMPLE, since, **labels)

    def input_series(self, **more):
        """Return the series as promtool takes them, with more labels; a missed sample is marked stale."""
        written = {NO_SAMPLE: "stale", NOT_WATCHED: "_"}
        return [
            {
                "series": metric
                + "{"
                + ", ".join(f'{name}="{value}"' for name, value in (*labels, *more.items()))
                + "}",
                "values": " ".join(written.get(value, str(value)) for value in samples),
            }
            for (metric, labels), samples in self.series.items()
        ]

    def _name_server(self, instance):
        where = {"job": "rocketmq-namesrv", "instance": instance}
        server = "rocketmq_namesrv_"
        for metric in ("up", f"{server}ready"):
            self.add(metric, [1] * self.samples, **where)
        for broker, broker_id in BROKERS:
            having = where | {"cluster": CLUSTER, "broker": broker, "broker_id": broker_id}
            heartbeats_at = [number * self.interval_s for number in range(self.samples)]
            self.add(f"{server}broker_info", [1] * self.samples, version="V5_5_0", **having)
            self.add(f"{server}broker_last_heartbeat_timestamp_seconds", heartbeats_at, **having)
            self.add(f"{server}broker_heartbeat_timeout_seconds", [120] * self.samples, **having)
        self.add(f"{server}broker_sets", [2] * self.samples, cluster=CLUSTER, state="ok", **where)
        self.add(f"{server}broker_sets", [0] * self.samples, cluster=CLUSTER, state="no_master", **where)
        self.add(f"{server}queues", [64] * self.samples, cluster=CLUSTER, access="write", **where)
        for reason in ("request", "timeout", "channel_closed"):
            self.add(f"{server}unregistrations_total", [0] * self.samples, cluster=CLUSTER, reason=reason, **where)
        self.add(f"{server}registrations_total", [0] * self.samples, cluster=CLUSTER, result="first", **where)

    def lead(self, instance, since, until=None):
        """Let another controller lead for a time: it calls itself leader, and tells of the sets."""
        first, last = self._at(since), self.samples if until is None else self._at(until)
        self.set(3, since, until, metric="rocketmq_controller_role", instance=instance)
        before = {key: list(samples) for key, samples in self.series.items()}
        self._lead({"job": "rocketmq-controller", "instance": instance})
        for key, samples in self.series.items():
            had = before.get(key, [NO_SAMPLE] * self.samples)
            samples[:first], samples[last:] = had[:first], had[last:]

    def _controller(self, instance, *, leads):
        where = {"job": "rocketmq-controller", "instance": instance}
        server = "rocketmq_controller_"
        for metric in ("up", f"{server}ready"):
            self.add(metric, [1] * self.samples, **where)
        self.add(f"{server}role", [3 if leads else 2] * self.samples, **where)
        for metric in ("silent_hosts", "disputed_epochs", "failure_detection_suspensions_total"):
            self.add(f"{server}{metric}", [0] * self.samples, **where)
        if leads:
            self._lead(where)

    def _lead(self, where):
        server = "rocketmq_controller_"
        self.add(f"{server}broker_sets", [0] * self.samples, cluster=CLUSTER, state="no_master", **where)
        for broker in sorted({broker for broker, _ in BROKERS}):
            for metric in ("replicas", "active_brokers", "sync_state_set_size"):
                self.add(f"{server}{metric}", [2] * self.samples, cluster=CLUSTER, broker=broker, **where)
