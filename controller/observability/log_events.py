"""Every event that a controller logs: its name, level, keys, meaning, and what to do about it.

Events of any server are in `serving/logging/server_events.py`. `docs/controller-logs.md` is this catalogue as a
page: `python -m controller.observability.log_events > docs/controller-logs.md` writes it, and a test compares.
"""

import sys
from typing import Final

from controller.callbacks import events as callback_events
from controller.config import CONTROLLER
from controller.endpoint_slices import events as slice_events
from controller.observability.role_log_events import ROLES
from controller.role_probe import events as probe_events
from controller.scaling.execution import events as resize_events
from controller.scaling.watching import events as autoscaler_events
from controller.switchover import events as switchover_events
from serving.logging import server_events
from serving.logging.events import Level, LogEvent, log_page
from serving.telemetry.events import Declared, declared_in

_WHO: Final = ("cluster", "broker", "broker_id", "addr")
_EPOCHS: Final = ("master_epoch", "sync_state_set_epoch")

# Controllers among each other, and their store

LEADERSHIP_GAINED: Final = LogEvent(
    name="leadership_gained",
    level=Level.INFO,
    keys=("group", "duration_ms", "broker_sets"),
    meaning="This controller leads: it has loaded all sets and answers for them.",
)
LEADERSHIP_LOST: Final = LogEvent(
    name="leadership_lost",
    level=Level.WARNING,
    keys=("group", "leader"),
    meaning="This controller no longer leads and answers CONTROLLER_NOT_LEADER. Brokers keep their roles.",
    advice="None if another controller leads; otherwise check the store.",
)
STORE_FAILED: Final = LogEvent(
    name="store_failed",
    level=Level.ERROR,
    keys=("broker", "error"),
    meaning="A change was not stored, or its outcome is unknown. The request is refused; the next one decides anew.",
    advice="Check the disk, or etcd: see controller/OPERATIONS.md.",
)
STORE_FILE_REMOVED: Final = LogEvent(
    name="store_file_removed",
    level=Level.ERROR,
    keys=("error",),
    meaning="The file of the embedded store was removed or replaced while the controller ran. The controller stores "
    "nothing and leads no more, even if the file comes back.",
    advice="Stop whatever else uses that folder, put the file back, and restart the controller: see "
    "controller/OPERATIONS.md.",
)
STORE_FILE_UNSEEN: Final = LogEvent(
    name="store_file_unseen",
    level=Level.ERROR,
    keys=("error",),
    meaning="The operating system does not report whether the file of the embedded store exists (no permission, a "
    "failing disk or network file system). Changes are refused meanwhile; after 10 s the file counts as removed.",
    advice="Check the disk, the mount and the permissions of the folder: see controller/OPERATIONS.md.",
)
STORE_CALLS_FAILING: Final = LogEvent(
    name="store_calls_failing",
    level=Level.ERROR,
    keys=("operation", "error"),
    meaning="Calls of this kind to etcd fail; logged once per kind until one succeeds. `look`, `grant`, `campaign` "
    "and `renew` decide who leads: while they fail nobody can lead.",
    advice="Check etcd: see controller/OPERATIONS.md. Controllers need no restart.",
)
STORE_CALLS_ANSWERED: Final = LogEvent(
    name="store_calls_answered",
    level=Level.INFO,
    keys=("operation", "silent_ms"),
    meaning="etcd answers calls of this kind again.",
)
FAILURE_DETECTION_SUSPENDED: Final = LogEvent(
    name="failure_detection_suspended",
    level=Level.WARNING,
    keys=("held_ms",),
    meaning="This process paused, or the store took more than 1 s for a change, so brokers may only seem silent. No "
    "broker is declared failed for one round of heartbeats.",
    advice="Check rocketmq_controller_store_txn_duration_seconds: a slow store or its disk. If it is low, find what "
    "paused the process: no CPU time, swapping, a paused machine.",
)
HEARTBEATS_RESUMED: Final = LogEvent(
    name="heartbeats_resumed",
    level=Level.WARNING,
    keys=("gap_ms",),
    meaning="Most hosts of brokers were silent for `gap_ms` and send heartbeats again. Meanwhile only masters whose "
    "port refused connections were replaced; brokers have as long to send a heartbeat as after a start of the "
    "controller.",
    advice="If the hosts did not all stop at once, check the network between this controller and them.",
)
HOSTS_SILENT: Final = LogEvent(
    name="hosts_silent",
    level=Level.ERROR,
    keys=("silent_hosts", "other_hosts", "silent_ms"),
    meaning="More than half of the other hosts with brokers fell silent together, so this controller may be cut off. "
    "Until they send heartbeats again it replaces only masters whose port refuses connections.",
    advice="Check the network of this controller. If the hosts are really down, elect masters with `mqadmin "
    'electMaster`: see controller/OPERATIONS.md, section "Most hosts are silent".',
)
SILENT_HOSTS_GIVEN_UP: Final = LogEvent(
    name="silent_hosts_given_up",
    level=Level.ERROR,
    keys=("silent_hosts", "other_hosts", "silent_ms"),
    meaning="Most hosts were silent for a minute while another one sent heartbeats. Their brokers are judged like any "
    "other from now on, and their masters replaced.",
    advice="Start the hosts or repair the network. Brokers that return follow the new masters.",
)
BROKERS_UNREACHABLE: Final = LogEvent(
    name="brokers_unreachable",
    level=Level.WARNING,
    keys=(*_WHO, "was_master", "brokers"),
    meaning="`brokers` brokers, this one among them, send heartbeats but never answered a probe of their port. A "
    "refused connection does not prove the failure of such a broker; its failover takes some seconds longer.",
    advice="Let controllers reach the listenPort of the brokers: see controller/OPERATIONS.md.",
)

# Brokers

BROKER_ID_APPLIED: Final = LogEvent(
    name="broker_id_applied",
    level=Level.INFO,
    keys=(*_WHO, "set_added"),
    meaning="A broker obtained its id, permanently.",
)
BROKER_STARTED: Final = LogEvent(
    name="broker_started",
    level=Level.INFO,
    keys=(*_WHO, "old_addr", "adopted"),
    meaning="A broker started, or was adopted, and registered with its id. `adopted` is true at each start of a "
    "broker that was taken in with an id that it had: of another controller, or one whose place had gone to others.",
)
MASTER_RESTARTED: Final = LogEvent(
    name="master_restarted",
    level=Level.WARNING,
    keys=(*_WHO, *_EPOCHS),
    meaning="The recorded master has restarted, so it no longer leads. The next election begins a new epoch.",
)
BROKER_SUSPECTED: Final = LogEvent(
    name="broker_suspected",
    level=Level.INFO,
    keys=(*_WHO, "was_master"),
    meaning="The connection of a broker closed; the controller probes its port.",
)
BROKER_FAILED: Final = LogEvent(
    name="broker_failed",
    level=Level.WARNING,
    keys=(*_WHO, "was_master", "reason", "evidence", "silent_ms", "suspected_ms"),
    meaning="A broker has failed; `reason` says why the controller decided so. A failed master is replaced.",
    advice="Start the broker again.",
)
SYNC_STATE_SET_ALTERED: Final = LogEvent(
    name="sync_state_set_altered",
    level=Level.INFO,
    keys=("cluster", "broker", "master", "old", "new", *_EPOCHS),
    meaning="The master reported a new SyncStateSet.",
    advice="If it shrank, check the broker that left it.",
)
BROKERS_CLEANED: Final = LogEvent(
    name="brokers_cleaned",
    level=Level.WARNING,
    audit=True,
    keys=("cluster", "broker", "broker_ids", "set_removed", "was_master"),
    meaning="An operator removed brokers, or a whole set.",
)
BROKER_SET_EXPIRED: Final = LogEvent(
    name="broker_set_expired",
    level=Level.INFO,
    keys=("cluster", "broker", "broker_ids"),
    meaning="There are more than 10,000 sets. This one never had a master and none of its brokers sent a heartbeat "
    "for six hours, so it was removed and its name is free.",
    advice="If the set was real: its brokers are answered 2010 until their brokerIdentity is deleted, see "
    "controller/OPERATIONS.md.",
)

# Elections

_ELECTION: Final = (
    "election",
    "cluster",
    "broker",
    "trigger",
    "cause",
    "reason",
    "old_master",
    "new_master",
    *_EPOCHS,
    "candidates",
    "suspect_ms",
    "judge_ms",
    "fence_ms",
    "commit_ms",
)
MASTER_ELECTED: Final = LogEvent(
    name="master_elected",
    level=Level.INFO,
    keys=_ELECTION,
    meaning="A set has a new master. `candidates` shows the log of each broker and why it was not elected.",
)
UNCLEAN_MASTER_ELECTED: Final = LogEvent(
    name="unclean_master_elected",
    level=Level.ERROR,
    keys=(*_ELECTION, "bytes_at_stake"),
    meaning="A broker became master that may lack acknowledged messages: it is outside the SyncStateSet, as "
    "enableElectUncleanMaster allows, or no log has any more what it was known to have (`log_shrank`).",
    advice="Set enableElectUncleanMaster to false again. Compare the logs with `mqadmin getBrokerEpoch`.",
)
LOG_SHRANK: Final = LogEvent(
    name="log_shrank",
    level=Level.ERROR,
    keys=("election", "cluster", "broker", "broker_id", "addr", "max_offset", "lost_bytes", "new_master"),
    meaning="A broker in sync reports `lost_bytes` less of its log than it was known to have: its disk is empty or not "
    "mounted, an older copy was put back, or a power failure took the end. It is not elected while another one that is "
    "away may have the rest; `new_master` is who leads all the same.",
    advice="Without a `new_master`, start the brokers that are away, the former master first. See "
    'controller/OPERATIONS.md, section "A log that is shorter than it was".',
)
MASTER_KEPT: Final = LogEvent(
    name="master_kept",
    level=Level.INFO,
    keys=_ELECTION,
    meaning="An election was requested and the present master stays. `reason` says why no other broker was elected.",
)
ELECTION_FAILED: Final = LogEvent(
    name="election_failed",
    level=Level.ERROR,
    keys=(*_ELECTION, "bytes_at_stake", "advice", "force"),
    meaning="A set has no master and takes no messages: no living broker is certain to have all of them. `reason` "
    "says why.",
    advice="Start a broker that `advice` names, or the brokers that have not answered. The command in `force` "
    "appoints a master and loses `bytes_at_stake`.",
)
MASTER_EPOCH_DISPUTED: Final = LogEvent(
    name="master_epoch_disputed",
    level=Level.ERROR,
    keys=("cluster", "broker", "master", "sync_state_set", "claims", *_EPOCHS),
    meaning="The brokers in `claims` have claimed higher master epochs than the stored one for 8 s, without proof: "
    "none of them is in sync, or the master of the stored epoch sends heartbeats, or the epoch is too high. The "
    "controller ignores the claims.",
    advice="See dashboards/runbooks/MasterEpochDisputed.md. Stop the broker if it does not belong to this set. If the "
    "store was restored from an old backup, designate a master.",
)
ROLE_NOTIFICATION_RESENT: Final = LogEvent(
    name="role_notification_resent",
    level=Level.INFO,
    keys=("cluster", "broker", "master", *_EPOCHS),
    meaning="The master has not confirmed its epoch, so the brokers of the set are notified of it again. This "
    "controller is new, and nothing was written between the last two elections, or the controller that held the last "
    "one ended before it notified anybody.",
)
ROLE_NOTIFICATION_FAILED: Final = LogEvent(
    name="role_notification_failed",
    level=Level.WARNING,
    keys=("broker", "broker_id", "addr", *_EPOCHS, "tries", "error"),
    meaning="A broker did not confirm its new role after `tries` tries. It learns of the master by its own poll "
    "within 5 s.",
)

#: Modules with events, counters, timers or gauges, in the order of the page.
MODULES: Final = (switchover_events, resize_events, autoscaler_events, callback_events, probe_events, slice_events)
DECLARED: Final[Declared] = declared_in(*(vars(module) for module in MODULES))

#: All of the above and those of any server, in the order of the page.
EVENTS: Final = (
    *server_events.LIFE,
    *server_events.MEANS,
    LEADERSHIP_GAINED,
    LEADERSHIP_LOST,
    STORE_FAILED,
    STORE_FILE_REMOVED,
    STORE_FILE_UNSEEN,
    STORE_CALLS_FAILING,
    STORE_CALLS_ANSWERED,
    FAILURE_DETECTION_SUSPENDED,
    HOSTS_SILENT,
    SILENT_HOSTS_GIVEN_UP,
    HEARTBEATS_RESUMED,
    BROKERS_UNREACHABLE,
    BROKER_ID_APPLIED,
    BROKER_STARTED,
    MASTER_RESTARTED,
    BROKER_SUSPECTED,
    BROKER_FAILED,
    SYNC_STATE_SET_ALTERED,
    BROKERS_CLEANED,
    BROKER_SET_EXPIRED,
    MASTER_ELECTED,
    UNCLEAN_MASTER_ELECTED,
    LOG_SHRANK,
    MASTER_KEPT,
    ELECTION_FAILED,
    MASTER_EPOCH_DISPUTED,
    ROLE_NOTIFICATION_RESENT,
    ROLE_NOTIFICATION_FAILED,
    *declared_in(*map(vars, MODULES[:2])).log_events(),
    *ROLES,
    *declared_in(*map(vars, MODULES[2:])).log_events(),
    *server_events.SETTINGS,
    *server_events.TRAFFIC,
)


def as_markdown() -> str:
    """Return the catalogue as the page `docs/controller-logs.md`."""
    return log_page(CONTROLLER, EVENTS, "controller/observability/log_events.py")


if __name__ == "__main__":
    sys.stdout.write(as_markdown())
