"""All commands by their names. Nothing is imported here that a command needs."""

from collections.abc import Mapping
from typing import Final

from rmq.cli.command_line import Noun, Verb

COMMANDS: Final[Mapping[str, Verb | Noun]] = {
    "status": Verb("commands.status.show_status", "check that all servers answer and agree"),
    "cluster": Noun(
        "clusters",
        {"list": Verb("commands.brokers.list_clusters", "clusters with their broker sets and brokers")},
    ),
    "broker": Noun(
        "brokers: list, show, drain",
        {
            "list": Verb("commands.brokers.list_brokers", "brokers with role, release and load"),
            "show": Verb("commands.brokers.show_broker", "everything that a broker reports about itself"),
            "drain-write": Verb("commands.brokers.drain_write", "stop producers from sending to a broker set"),
            "forget": Verb("commands.brokers.forget_set", "forget a broker set that is gone for good"),
            "restore-write": Verb("commands.brokers.restore_write", "let producers send to a broker set again"),
        },
    ),
    "topic": Noun(
        "topics and their routes",
        {
            "list": Verb("commands.topics.list_topics", "names of topics; with --long their queues"),
            "route": Verb("commands.topics.show_route", "the route at every NameServer"),
            "show": Verb("commands.topics.show_topic", "configuration and messages at each master"),
            "create": Verb("commands.topic_changes.create_topic", "create a topic, or change its queues"),
            "scale": Verb("commands.scaling.scale_topic", "change the number of queues without losing messages"),
            "delete": Verb("commands.topic_changes.delete_topic", "remove a topic with its messages"),
        },
    ),
    "group": Noun(
        "consumer groups: members, lag, offsets",
        {
            "list": Verb("commands.groups.list_groups", "names; with --long members, lag and rate"),
            "show": Verb("commands.groups.show_group", "settings and members at each master"),
            "lag": Verb("commands.groups.show_lag", "lag in each queue, and which member holds it"),
            "connections": Verb("commands.groups.show_connections", "members, or what they subscribe to"),
            "offsets": Verb("commands.groups.show_offsets", "offsets that masters have stored"),
            "reset": Verb("commands.group_reset.reset_group", "move a group to another offset"),
            "restore": Verb("commands.offset_changes.restore_group", "restore the offsets of a former moment"),
            "create": Verb("commands.groups.create_group", "create a group, or replace its settings"),
            "delete": Verb("commands.groups.delete_group", "remove a group with its offsets"),
        },
    ),
    "offsets": Noun(
        "offset manager: jumps, repairs, restores, files",
        {
            "status": Verb("commands.offset_views.show_status", "readings, recent jumps and pending repairs"),
            "sets": Verb("commands.offset_views.list_sets", "age of the readings of each broker set"),
            "jumps": Verb("commands.offset_views.list_jumps", "offsets that went back, or far forward"),
            "repairs": Verb("commands.offset_views.show_repairs", "decisions after failovers"),
            "repair": Verb("commands.offset_changes.repair", "write the offsets that a run would change"),
            "restore": Verb("commands.offset_changes.restore_offsets", "restore the offsets of a former moment"),
            "operations": Verb("commands.offset_views.list_operations", "operations that can be undone"),
            "undo": Verb("commands.offset_changes.undo_operation", "undo a restore, an import or an undo"),
            "lag": Verb("commands.offset_views.show_lag", "lag of a group whose offsets the manager keeps"),
            "groups": Verb("commands.offset_views.list_groups", "groups that have offsets in a topic"),
            "export": Verb("commands.offset_changes.export_offsets", "write offsets to a file of a broker or client"),
            "import": Verb("commands.offset_changes.import_offsets", "store the offsets from such a file"),
            "orderly": Verb("commands.offset_views.list_orderly", "groups that are declared orderly"),
            "holders": Verb("commands.offset_views.list_holders", "which client holds which queue of an orderly group"),
            "overlaps": Verb("commands.offset_views.list_overlaps", "queues that two clients hold at once"),
            "declare-orderly": Verb(
                "commands.offset_views.declare_orderly", "declare a group orderly, and watch its locks"
            ),
            "undeclare": Verb("commands.offset_views.undeclare", "withdraw that declaration"),
        },
    ),
    "scaling": Noun(
        "resizes of topics (our controllers)",
        {
            "list": Verb("commands.scaling.list_operations", "resizes, running ones first"),
            "show": Verb("commands.scaling.show_operation", "the phases of a resize"),
            "hindrances": Verb("commands.scaling.list_hindrances", "what resizes wait for"),
            "abort": Verb("commands.scaling.abort", "undo a resize"),
            "resume": Verb("commands.scaling.resume", "resume a resize that is blocked"),
            "waive": Verb("commands.scaling.waive", "give up messages that a group has not consumed"),
            "give-up": Verb("commands.scaling.give_up", "continue without a broker set"),
            "proposals": Verb("commands.scaling.list_proposals", "resizes that the autoscaler proposes"),
            "approve": Verb("commands.scaling.approve", "start a proposed resize"),
            "dismiss": Verb("commands.scaling.dismiss", "reject a proposed resize"),
            "decisions": Verb("commands.scaling.list_decisions", "the autoscaler's verdict on each topic"),
            "dry-run": Verb("commands.scaling_dry_run.play_policies", "resizes that policies would have made"),
        },
    ),
    "controller": Noun(
        "controllers: who leads, broker sets, elections",
        {
            "status": Verb("commands.controllers.show_controllers", "controllers, and who leads"),
            "sets": Verb("commands.controllers.list_sets", "broker sets with masters and SyncStateSets"),
            "elections": Verb("commands.controllers.list_elections", "who was elected when, and why"),
            "elect": Verb("commands.controllers.elect", "make a broker the master of its set"),
            "clean": Verb("commands.controllers.clean", "remove brokers of a set from the controllers"),
        },
    ),
    "history": Noun(
        "routes and events of the past, from recorded files",
        {
            "timeline": Verb("commands.history.show_timeline", "what happened to a broker, in order"),
            "route": Verb("commands.history.show_past_route", "the route of a topic at a moment"),
        },
    ),
    "config": Noun(
        "options of running servers",
        {
            "get": Verb("commands.config.get_config", "options of brokers, NameServers or controllers"),
            "set": Verb("commands.config.set_config", "change options while the server runs"),
        },
    ),
    "kv": Noun(
        "KV entries of NameServers",
        {
            "list": Verb("commands.kv.list_entries", "the entries of a namespace"),
            "get": Verb("commands.kv.get_entry", "the value of an entry at every NameServer"),
            "put": Verb("commands.kv.put_entry", "set an entry at every NameServer"),
            "delete": Verb("commands.kv.delete_entry", "remove an entry at every NameServer"),
        },
    ),
    "mqadmin": Verb("mqadmin.startup.mqadmin", "run a command of mqadmin, with its options and output"),
    "watch": Verb("commands.topics.watch_routes", "watch the routes of topics"),
    "sample": Verb("commands.sample.sample", "record offsets and lags of topics and groups every minute"),
    "haproxy-config": Verb(
        "commands.haproxy_config.write_haproxy_config", "configuration of an HAProxy for role addresses"
    ),
    "completion": Verb("commands.completion.print_completion", "completion script for bash, zsh or fish"),
}
