"""All commands by their names. Nothing is imported here that a command needs."""

from collections.abc import Mapping
from typing import Final

from rmq.cli.command_line import Noun, Verb

COMMANDS: Final[Mapping[str, Verb | Noun]] = {
    "status": Verb("rmq.commands.status", "show_status", "whether everything answers, and agrees"),
    "cluster": Noun(
        "clusters",
        {"list": Verb("rmq.commands.brokers", "list_clusters", "clusters with their broker sets and brokers")},
    ),
    "broker": Noun(
        "brokers, and whether producers are sent to them",
        {
            "list": Verb("rmq.commands.brokers", "list_brokers", "brokers with role, release and load"),
            "show": Verb("rmq.commands.brokers", "show_broker", "everything that a broker reports about itself"),
            "drain-write": Verb("rmq.commands.brokers", "drain_write", "send no more producers to a broker set"),
            "forget": Verb("rmq.commands.brokers", "forget_set", "forget a set that is away and will not come back"),
            "restore-write": Verb("rmq.commands.brokers", "restore_write", "let producers send to it again"),
        },
    ),
    "topic": Noun(
        "topics and their routes",
        {
            "list": Verb("rmq.commands.topics", "list_topics", "names of topics; with --long their queues"),
            "route": Verb("rmq.commands.topics", "show_route", "where clients are sent, by every NameServer"),
            "show": Verb("rmq.commands.topics", "show_topic", "configuration and messages at each master"),
            "create": Verb("rmq.commands.topic_changes", "create_topic", "create a topic, or change its queues"),
            "scale": Verb("rmq.commands.scaling", "scale_topic", "change its queues without losing messages"),
            "delete": Verb("rmq.commands.topic_changes", "delete_topic", "remove a topic with its messages"),
        },
    ),
    "group": Noun(
        "consumer groups: members, lag, offsets",
        {
            "list": Verb("rmq.commands.groups", "list_groups", "names; with --long members, lag and rate"),
            "show": Verb("rmq.commands.groups", "show_group", "settings and members at each master"),
            "lag": Verb("rmq.commands.groups", "show_lag", "how far it is in each queue, and who holds it"),
            "connections": Verb("rmq.commands.groups", "show_connections", "members, or what they subscribe to"),
            "offsets": Verb("rmq.commands.groups", "show_offsets", "offsets that masters have stored"),
            "reset": Verb("rmq.commands.group_reset", "reset_group", "read again from, or skip to, another place"),
            "restore": Verb("rmq.commands.offset_changes", "restore_group", "bring offsets of a moment back"),
            "create": Verb("rmq.commands.groups", "create_group", "create a group, or replace its settings"),
            "delete": Verb("rmq.commands.groups", "delete_group", "remove a group with its offsets"),
        },
    ),
    "offsets": Noun(
        "the offset manager: what jumped, repairs, restores, files",
        {
            "status": Verb("rmq.commands.offset_views", "show_status", "what it reads, what jumped, what to repair"),
            "sets": Verb("rmq.commands.offset_views", "list_sets", "how fresh the readings of each broker set are"),
            "jumps": Verb("rmq.commands.offset_views", "list_jumps", "offsets that went back, or far forward"),
            "repairs": Verb("rmq.commands.offset_views", "show_repairs", "what was decided after failovers"),
            "repair": Verb("rmq.commands.offset_changes", "repair", "write what a run would change"),
            "restore": Verb("rmq.commands.offset_changes", "restore_offsets", "bring offsets of a moment back"),
            "operations": Verb("rmq.commands.offset_views", "list_operations", "what can be undone"),
            "undo": Verb("rmq.commands.offset_changes", "undo_operation", "undo a restore, an import or an undo"),
            "lag": Verb("rmq.commands.offset_views", "show_lag", "how far a group is behind, with offsets kept here"),
            "groups": Verb("rmq.commands.offset_views", "list_groups", "groups that have offsets in a topic"),
            "export": Verb("rmq.commands.offset_changes", "export_offsets", "offsets as a file of brokers or clients"),
            "import": Verb("rmq.commands.offset_changes", "import_offsets", "store the offsets of such a file"),
            "orderly": Verb("rmq.commands.offset_views", "list_orderly", "groups that are declared orderly"),
            "holders": Verb("rmq.commands.offset_views", "list_holders", "which client holds which queue of one"),
            "overlaps": Verb("rmq.commands.offset_views", "list_overlaps", "queues that two clients hold"),
            "declare-orderly": Verb("rmq.commands.offset_views", "declare_orderly", "watch the holders of a group"),
            "undeclare": Verb("rmq.commands.offset_views", "undeclare", "watch them no more"),
        },
    ),
    "scaling": Noun(
        "resizes of topics by our controllers",
        {
            "list": Verb("rmq.commands.scaling", "list_operations", "resizes under way, and ended ones"),
            "show": Verb("rmq.commands.scaling", "show_operation", "the phases of a resize"),
            "hindrances": Verb("rmq.commands.scaling", "list_hindrances", "what resizes wait for"),
            "abort": Verb("rmq.commands.scaling", "abort", "undo a resize"),
            "resume": Verb("rmq.commands.scaling", "resume", "go on with one that is blocked"),
            "waive": Verb("rmq.commands.scaling", "waive", "give up what a group has not consumed"),
            "give-up": Verb("rmq.commands.scaling", "give_up", "go on without a broker set"),
            "proposals": Verb("rmq.commands.scaling", "list_proposals", "what the autoscaler proposes"),
            "approve": Verb("rmq.commands.scaling", "approve", "start a proposed resize"),
            "dismiss": Verb("rmq.commands.scaling", "dismiss", "give up a proposal"),
            "decisions": Verb("rmq.commands.scaling", "list_decisions", "what the autoscaler makes of topics"),
            "dry-run": Verb("rmq.commands.scaling_dry_run", "play_policies", "which resizes policies would have made"),
        },
    ),
    "controller": Noun(
        "controllers: who leads, broker sets, elections",
        {
            "status": Verb("rmq.commands.controllers", "show_controllers", "controllers, and who leads"),
            "sets": Verb("rmq.commands.controllers", "list_sets", "broker sets with masters and SyncStateSets"),
            "elections": Verb("rmq.commands.controllers", "list_elections", "who was elected when, and why"),
            "elect": Verb("rmq.commands.controllers", "elect", "make a broker the master of its set"),
            "clean": Verb("rmq.commands.controllers", "clean", "remove brokers of a set from controllers"),
        },
    ),
    "history": Noun(
        "what was, from the files that our servers record",
        {
            "timeline": Verb("rmq.commands.history", "show_timeline", "what happened to a broker, in order"),
            "route": Verb("rmq.commands.history", "show_past_route", "the route of a topic at any moment"),
        },
    ),
    "config": Noun(
        "options of running servers",
        {
            "get": Verb("rmq.commands.config", "get_config", "options of brokers, NameServers or controllers"),
            "set": Verb("rmq.commands.config", "set_config", "change options while the server runs"),
        },
    ),
    "kv": Noun(
        "KV entries of NameServers",
        {
            "list": Verb("rmq.commands.kv", "list_entries", "the entries of a namespace"),
            "get": Verb("rmq.commands.kv", "get_entry", "the value of an entry at every NameServer"),
            "put": Verb("rmq.commands.kv", "put_entry", "set an entry at every NameServer"),
            "delete": Verb("rmq.commands.kv", "delete_entry", "remove an entry at every NameServer"),
        },
    ),
    "mqadmin": Verb("rmq.mqadmin.startup", "mqadmin", "a command of mqadmin, with its options and its output"),
    "watch": Verb("rmq.commands.topics", "watch_routes", "routes of topics, and each change of them"),
    "sample": Verb("rmq.commands.sample", "sample", "how far topics and groups are, each minute into the history"),
    "haproxy-config": Verb(
        "rmq.commands.haproxy_config", "write_haproxy_config", "an HAProxy that leads role addresses to masters"
    ),
    "completion": Verb("rmq.commands.completion", "print_completion", "script for bash, zsh or fish"),
}
