"""Every event that a controller logs: its name, level, keys, meaning, and what to do about it.

What any server logs stands in `serving/logging/server_events.py`. `docs/controller-logs.md` is this catalogue as a
page: `python -m controller.observability.log_events > docs/controller-logs.md` writes it, and a test compares.
"""

import sys
from typing import Final

from controller.config import CONTROLLER
from serving.logging import server_events
from serving.logging.events import Level, LogEvent, log_page

_WHO: Final = ("cluster", "broker", "broker_id", "addr")
_EPOCHS: Final = ("master_epoch", "sync_state_set_epoch")

# Controllers among each other, and their store

LEADERSHIP_GAINED: Final = LogEvent(
    name="leadership_gained",
    level=Level.INFO,
    keys=("group", "duration_ms", "broker_sets"),
    meaning="This controller leads, knows all that is stored, and answers for the sets.",
)
LEADERSHIP_LOST: Final = LogEvent(
    name="leadership_lost",
    level=Level.WARNING,
    keys=("group", "leader"),
    meaning="This controller leads no longer and answers CONTROLLER_NOT_LEADER; brokers keep their roles.",
    advice="Nothing if another one leads; else look at the store.",
)
STORE_FAILED: Final = LogEvent(
    name="store_failed",
    level=Level.ERROR,
    keys=("broker", "error"),
    meaning="A change could not be stored, so it was not made, or nobody knows; it is decided anew when asked again.",
    advice="Look at the disk, or at etcd: see controller/OPERATIONS.md.",
)
STORE_FILE_REMOVED: Final = LogEvent(
    name="store_file_removed",
    level=Level.ERROR,
    keys=("error",),
    meaning="The file of the embedded store was removed or replaced while the controller ran. It stores nothing and "
    "leads no more, whatever becomes of the file.",
    advice="Stop whatever else runs on that folder, put the file back, and start the controller again: see "
    "controller/OPERATIONS.md.",
)
STORE_FILE_UNSEEN: Final = LogEvent(
    name="store_file_unseen",
    level=Level.ERROR,
    keys=("error",),
    meaning="The system does not say whether the file of the embedded store is there (no permission, a disk or a "
    "network file system that fails). Changes are refused until it does; after 10 s the file counts as gone.",
    advice="Look at the disk, the mount and the permissions of the folder: see controller/OPERATIONS.md.",
)
STORE_CALLS_FAILING: Final = LogEvent(
    name="store_calls_failing",
    level=Level.ERROR,
    keys=("operation", "error"),
    meaning=(
        "etcd does not do what this controller asks of it; told once for each kind of call. `look`, `grant`, "
        "`campaign` and `renew` decide who leads: while they fail nobody may."
    ),
    advice="Look at etcd: see controller/OPERATIONS.md. Controllers need no restart.",
)
STORE_CALLS_ANSWERED: Final = LogEvent(
    name="store_calls_answered",
    level=Level.INFO,
    keys=("operation", "silent_ms"),
    meaning="etcd does so again.",
)
SELF_DOUBTED: Final = LogEvent(
    name="self_doubted",
    level=Level.WARNING,
    keys=("held_ms",),
    meaning="This process stood still, or the store took more than 1 s for a change, so brokers only seem silent; "
    "nobody is judged for a round of heartbeats.",
    advice="Look at rocketmq_controller_store_txn_duration_seconds first: a slow store, or its disk. Else find out "
    "what held the process: no processor time, swapping, a paused machine.",
)
BROKERS_HEARD_AGAIN: Final = LogEvent(
    name="brokers_heard_again",
    level=Level.WARNING,
    keys=("gap_ms",),
    meaning="Most hosts of brokers were silent for so long, as if this controller was cut off, and are heard again: it"
    " moved no master that did not refuse meanwhile, and brokers have as long to be heard as after a start.",
    advice="If they did not stop all at once, look at the network between this controller and them.",
)
HOSTS_SILENT: Final = LogEvent(
    name="hosts_silent",
    level=Level.ERROR,
    keys=("silent_hosts", "other_hosts", "silent_ms"),
    meaning="More than half of the other hosts with brokers fell silent together, so this controller may be cut off: it"
    " moves no master for want of an answer, only where a port refuses, until they are heard again.",
    advice="Look at the network of this controller. If the hosts are down indeed, elect masters with"
    ' `mqadmin electMaster`; see OPERATIONS.md, "Most hosts are silent".',
)
SILENT_HOSTS_GIVEN_UP: Final = LogEvent(
    name="silent_hosts_given_up",
    level=Level.ERROR,
    keys=("silent_hosts", "other_hosts", "silent_ms"),
    meaning="Most hosts were silent for a minute while another one was heard: their brokers are judged as any others"
    " from now on, and their masters replaced.",
    advice="Start the hosts, or mend the network; who comes back follows the new masters.",
)
BROKERS_UNREACHED: Final = LogEvent(
    name="brokers_unreached",
    level=Level.WARNING,
    keys=(*_WHO, "was_master", "brokers"),
    meaning="So many brokers beat but never answered at their ports, this one among them: when one dies, a refused"
    " connection does not prove it, and its end is noticed some seconds later.",
    advice="Let controllers reach the brokers' listenPort; see OPERATIONS.md.",
)

# Brokers

BROKER_ID_APPLIED: Final = LogEvent(
    name="broker_id_applied",
    level=Level.INFO,
    keys=(*_WHO, "set_added"),
    meaning="A broker has an id for good.",
)
BROKER_STARTED: Final = LogEvent(
    name="broker_started",
    level=Level.INFO,
    keys=(*_WHO, "old_addr", "adopted"),
    meaning="A broker has started, or was taken in, and registered with its id; `adopted` at each start of one whose "
    "id was not given here.",
)
MASTER_RESTARTED: Final = LogEvent(
    name="master_restarted",
    level=Level.WARNING,
    keys=(*_WHO, *_EPOCHS),
    meaning="The recorded master has started again, so it leads no longer; the next election gives a new epoch.",
)
BROKER_SUSPECTED: Final = LogEvent(
    name="broker_suspected",
    level=Level.INFO,
    keys=(*_WHO, "was_master"),
    meaning="The connection of a broker closed; it is asked whether it lives.",
)
BROKER_DIED: Final = LogEvent(
    name="broker_died",
    level=Level.WARNING,
    keys=(*_WHO, "was_master", "reason", "evidence", "silent_ms", "suspected_ms"),
    meaning="A broker is dead, and why that is believed.",
    advice="Start it again.",
)
SYNC_STATE_SET_ALTERED: Final = LogEvent(
    name="sync_state_set_altered",
    level=Level.INFO,
    keys=("cluster", "broker", "master", "old", "new", *_EPOCHS),
    meaning="The master reported who has all messages.",
    advice="If it shrank, look at the broker that left it.",
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
    meaning="There are more than 10,000 sets; this one never had a master, and none of its brokers was heard for six "
    "hours: its name is free again.",
    advice="If it was a real one: its brokers are answered 2010 until their brokerIdentity is deleted, see "
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
    "commit_ms",
)
MASTER_ELECTED: Final = LogEvent(
    name="master_elected",
    level=Level.INFO,
    keys=_ELECTION,
    meaning="A set has another master; `candidates` tells each broker's log and why it was not elected.",
)
UNCLEAN_MASTER_ELECTED: Final = LogEvent(
    name="unclean_master_elected",
    level=Level.ERROR,
    keys=(*_ELECTION, "bytes_at_stake"),
    meaning="A broker outside the SyncStateSet leads, as enableElectUncleanMaster allows: messages are lost.",
    advice="Set enableElectUncleanMaster to false again; compare the logs with `mqadmin getBrokerEpoch`.",
)
MASTER_KEPT: Final = LogEvent(
    name="master_kept",
    level=Level.INFO,
    keys=_ELECTION,
    meaning="An election was asked for, and the present master stays; `reason` tells why nobody else leads.",
)
NOBODY_ELECTED: Final = LogEvent(
    name="nobody_elected",
    level=Level.ERROR,
    keys=(*_ELECTION, "bytes_at_stake", "force"),
    meaning="A set has no master, because nobody who has all messages lives, or it is not certain that one of the "
    "living has them; `reason` tells which.",
    advice="Start a broker of the SyncStateSet, or those that have not answered; `force` gives the set a master at the "
    "price of `bytes_at_stake`.",
)
MASTER_EPOCH_DISPUTED: Final = LogEvent(
    name="master_epoch_disputed",
    level=Level.ERROR,
    keys=("cluster", "broker", "master", "sync_state_set", "claims", *_EPOCHS),
    meaning="The brokers in `claims` have claimed higher master epochs than the stored one for 8 s. It proves nothing: "
    "none of them is in sync, or the master of the stored epoch is heard, or the epoch is too high. Nobody follows.",
    advice="See dashboards/runbooks/MasterEpochDisputed.md: stop the broker if it is not of this set; if the store was "
    "restored from an old backup, designate a master.",
)
ROLES_TOLD_AGAIN: Final = LogEvent(
    name="roles_told_again",
    level=Level.INFO,
    keys=("cluster", "broker", "master", *_EPOCHS),
    meaning="A master is not known to have begun its epoch, so the set is told once more who leads: this controller is "
    "new, and nothing was written between the last two elections, or who held the last ended before it told anybody.",
)
ROLE_NOTIFICATION_FAILED: Final = LogEvent(
    name="role_notification_failed",
    level=Level.WARNING,
    keys=("broker", "broker_id", "addr", *_EPOCHS, "tries", "error"),
    meaning="A broker did not confirm the new master; it learns of it by its own poll, within 5 s.",
)

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
    SELF_DOUBTED,
    HOSTS_SILENT,
    SILENT_HOSTS_GIVEN_UP,
    BROKERS_HEARD_AGAIN,
    BROKERS_UNREACHED,
    BROKER_ID_APPLIED,
    BROKER_STARTED,
    MASTER_RESTARTED,
    BROKER_SUSPECTED,
    BROKER_DIED,
    SYNC_STATE_SET_ALTERED,
    BROKERS_CLEANED,
    BROKER_SET_EXPIRED,
    MASTER_ELECTED,
    UNCLEAN_MASTER_ELECTED,
    MASTER_KEPT,
    NOBODY_ELECTED,
    MASTER_EPOCH_DISPUTED,
    ROLES_TOLD_AGAIN,
    ROLE_NOTIFICATION_FAILED,
    *server_events.SETTINGS,
    *server_events.TRAFFIC,
)


def as_markdown() -> str:
    """Return the catalogue as the page `docs/controller-logs.md`."""
    return log_page(CONTROLLER, EVENTS, "controller/observability/log_events.py")


if __name__ == "__main__":
    sys.stdout.write(as_markdown())
