"""Every event that is logged of the autoscaler; part of the catalogue in `log_events.py`."""

from typing import Final

from serving.logging.events import Level, LogEvent

_DECISION: Final = ("topic", "policy", "mode", "queues", "target", "findings", "reason")
_SECTION: Final = 'controller/SCALING.md, section "Autoscaler"'

SCALING_VERDICT_CHANGED: Final = LogEvent(
    name="scaling_verdict_changed",
    level=Level.INFO,
    keys=(*_DECISION, "outcome", "problem", "proposal"),
    meaning="What the autoscaler makes of a topic has changed: `kept` changes nothing, `proposed` waits for an "
    "operator, `refused` could not be started. `queues` and `target` are those of each broker set; `reason` has the "
    "numbers. The same verdict is not logged again.",
    advice="None for `kept`. A proposal in the mode `approve` has an id: see " + _SECTION + ".",
)
SCALING_PROPOSAL_APPROVED: Final = LogEvent(
    name="scaling_proposal_approved",
    level=Level.INFO,
    audit=True,
    keys=(*_DECISION, "proposal"),
    meaning="An operator approved a proposal; the next line of the topic says whether its resize was started.",
)
SCALING_PROPOSAL_DISMISSED: Final = LogEvent(
    name="scaling_proposal_dismissed",
    level=Level.INFO,
    audit=True,
    keys=("topic", "reason"),
    meaning="An operator dismissed a proposal. The same count is not proposed again for a day.",
)
SCALING_RESIZE_REQUESTED: Final = LogEvent(
    name="scaling_resize_requested",
    level=Level.INFO,
    keys=(*_DECISION, "resize"),
    meaning="The autoscaler started the resize of a topic, by a policy with the mode `auto` or after an approval.",
)
SCALING_RESIZE_REFUSED: Final = LogEvent(
    name="scaling_resize_refused",
    level=Level.WARNING,
    keys=(*_DECISION, "problem"),
    meaning="The autoscaler could not start a resize, for the reason in `problem`. It tries again after the cooldown "
    "of the policy, if the topic needs it then.",
    advice="Do what `problem` says.",
)
SCALING_POLICIES_LOADED: Final = LogEvent(
    name="scaling_policies_loaded",
    level=Level.INFO,
    audit=True,
    keys=("source", "policies", "automatic"),
    meaning="Other policies are in force: `policies` of them, `automatic` ones with the mode `auto`. `source` is the "
    "file, or `http`.",
)
SCALING_POLICIES_REFUSED: Final = LogEvent(
    name="scaling_policies_refused",
    level=Level.ERROR,
    keys=("source", "mistakes", "problems"),
    meaning="New policies have mistakes, and none of them is in force: those before stay. At a start there are none "
    "before, so the autoscaler does nothing; brokers are served as ever. `problems` are the first mistakes, with line "
    "and property.",
    advice="Mend the file; it is read again each second.",
)
SCALING_ROUND_FAILED: Final = LogEvent(
    name="scaling_round_failed",
    level=Level.ERROR,
    keys=("topic", "error", "exception"),
    meaning="A look of the autoscaler at its topics, or at `topic` alone, failed by a fault of the controller. Nothing "
    "is decided on it; the next round tries again.",
    advice="Report it.",
)

AUTOSCALER: Final = (
    SCALING_POLICIES_LOADED,
    SCALING_POLICIES_REFUSED,
    SCALING_VERDICT_CHANGED,
    SCALING_PROPOSAL_APPROVED,
    SCALING_PROPOSAL_DISMISSED,
    SCALING_RESIZE_REQUESTED,
    SCALING_RESIZE_REFUSED,
    SCALING_ROUND_FAILED,
)
