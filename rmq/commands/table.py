"""All commands by their names. Nothing is imported here that a command needs."""

from collections.abc import Mapping
from typing import Final

from rmq.cli.command_line import Noun, Verb

COMMANDS: Final[Mapping[str, Verb | Noun]] = {
    "status": Verb("commands.status.show_status", "whether everything answers, and agrees"),
    "cluster": Noun(
        "clusters",
        {"list": Verb("commands.brokers.list_clusters", "clusters with their broker sets and brokers")},
    ),
    "broker": Noun(
        "brokers, and whether producers are sent to them",
        {
            "list": Verb("commands.brokers.list_brokers", "brokers with role, release and load"),
            "show": Verb("commands.brokers.show_broker", "everything that a broker reports about itself"),
            "drain-write": Verb("commands.brokers.drain_write", "send no more producers to a broker set"),
            "forget": Verb("commands.brokers.forget_set", "forget a set that is away and will not come back"),
            "restore-write": Verb("commands.brokers.restore_write", "let producers send to it again"),
        },
    ),
    "topic": Noun(
        "topics and their routes",
        {
            "list": Verb("commands.topics.list_topics", "names of topics; with --long their queues"),
            "route": Verb("commands.topics.show_route", "where clients are sent, by every NameServer"),
            "show": Verb("commands.topics.show_topic", "configuration and messages at each master"),
            "create": Verb("commands.topic_changes.create_topic", "create a topic, or change its queues"),
            "scale": Verb("commands.scaling.scale_topic", "change its queues without losing messages"),
            "delete": Verb("commands.topic_changes.delete_topic", "remove a topic with its messages"),
        },
    ),
    "group": Noun(
        "consumer groups: members, lag, offsets",
        {
            "list": Verb("commands.groups.list_groups", "names; with --long members, lag and rate"),
            "show": Verb("commands.groups.show_group", "settings and members at each master"),
            "lag": Verb("commands.groups.show_lag", "how far it is in each queue, and who holds it"),
            "connections": Verb("commands.groups.show_connections", "members, or what they subscribe to"),
            "offsets": Verb("commands.groups.show_offsets", "offsets that masters have stored"),
            "reset": Verb("commands.group_reset.reset_group", "read again from, or skip to, another place"),
            "restore": Verb("commands.offset_changes.restore_group", "bring offsets of a moment back"),
            "create": Verb("commands.groups.create_group", "create a group, or replace its settings"),
            "delete": Verb("commands.groups.delete_group", "remove a group with its offsets"),
        },
    ),
    "offsets": Noun(
        "the offset manager: what jumped, repairs, restores, files",
        {
            "status": Verb("commands.offset_views.show_status", "what it reads, what jumped, what to repair"),
            "sets": Verb("commands.offset_views.list_sets", "how fresh the readings of each broker set are"),
            "jumps": Verb("commands.offset_views.list_jumps", "offsets that went back, or far forward"),
            "repairs": Verb("commands.offset_views.show_repairs", "what was decided after failovers"),
            "repair": Verb("commands.offset_changes.repair", "write what a run would change"),
            "restore": Verb("commands.offset_changes.restore_offsets", "bring offsets of a moment back"),
            "operations": Verb("commands.offset_views.list_operations", "what can be undone"),
            "undo": Verb("commands.offset_changes.undo_operation", "undo a restore, an import or an undo"),
            "lag": Verb("commands.offset_views.show_lag", "how far a group is behind, with offsets kept here"),
            "groups": Verb("commands.offset_views.list_groups", "groups that have offsets in a topic"),
            "export": Verb("commands.offset_changes.export_offsets", "offsets as a file of brokers or clients"),
            "import": Verb("commands.offset_changes.import_offsets", "store the offsets of such a file"),
            "orderly": Verb("commands.offset_views.list_orderly", "groups that are declared orderly"),
            "holders": Verb("commands.offset_views.list_holders", "which client holds which queue of one"),
            "overlaps": Verb("commands.offset_views.list_overlaps", "queues that two clients hold"),
            "declare-orderly": Verb("commands.offset_views.declare_orderly", "watch the holders of a group"),
            "undeclare": Verb("commands.offset_views.undeclare", "watch them no more"),
        },
    ),
    "scaling": Noun(
        "resizes of topics by our controllers",
        {
            "list": Verb("commands.scaling.list_operations", "resizes under way, and ended ones"),
            "show": Verb("commands.scaling.show_operation", "the phases of a resize"),
            "hindrances": Verb("commands.scaling.list_hindrances", "what resizes wait for"),
            "abort": Verb("commands.scaling.abort", "undo a resize"),
            "resume": Verb("commands.scaling.resume", "go on with one that is blocked"),
            "waive": Verb("commands.scaling.waive", "give up what a group has not consumed"),
            "give-up": Verb("commands.scaling.give_up", "go on without a broker set"),
            "proposals": Verb("commands.scaling.list_proposals", "what the autoscaler proposes"),
            "approve": Verb("commands.scaling.approve", "start a proposed resize"),
            "dismiss": Verb("commands.scaling.dismiss", "give up a proposal"),
            "decisions": Verb("commands.scaling.list_decisions", "what the autoscaler makes of topics"),
            "dry-run": Verb("commands.scaling_dry_run.play_policies", "which resizes policies would have made"),
        },
    ),
    "controller": Noun(
        "controllers: who leads, broker sets, elections",
        {
            "status": Verb("commands.controllers.show_controllers", "controllers, and who leads"),
            "sets": Verb("commands.controllers.list_sets", "broker sets with masters and SyncStateSets"),
            "elections": Verb("commands.controllers.list_elections", "who was elected when, and why"),
            "elect": Verb("commands.controllers.elect", "make a broker the master of its set"),
            "clean": Verb("commands.controllers.clean", "remove brokers of a set from controllers"),
        },
    ),
    "history": Noun(
        "what was, from the files that our servers record",
        {
            "timeline": Verb("commands.history.show_timeline", "what happened to a broker, in order"),
            "route": Verb("commands.history.show_past_route", "the route of a topic at any moment"),
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
    "mqadmin": Verb("mqadmin.startup.mqadmin", "a command of mqadmin, with its options and its output"),
    "watch": Verb("commands.topics.watch_routes", "routes of topics, and each change of them"),
    "sample": Verb("commands.sample.sample", "how far topics and groups are, each minute into the history"),
    "haproxy-config": Verb(
        "commands.haproxy_config.write_haproxy_config", "an HAProxy that leads role addresses to masters"
    ),
    "completion": Verb("commands.completion.print_completion", "script for bash, zsh or fish"),
}
