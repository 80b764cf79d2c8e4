// What the view of scaling shows, from what the controller that leads answered; no request and no element here.

/** Phases in which a resize has ended. */
const ENDED = new Set(["DONE", "ABORTED", "REJECTED"]);
/** Phases in which somebody has to act. */
const NEEDS_OPERATOR = new Set(["BLOCKED", "CONFLICT"]);

// The phases of a resize that nothing hinders: docs/protocol/queue-scaling.md 4, 5 and 8.
const PATHS = {
  grow: ["PLANNED", "PRECHECK", "SEED", "READ_UP", "ASSIGN", "WRITE_UP", "VERIFY", "DONE"],
  shrink: ["PLANNED", "PRECHECK", "WRITE_DOWN", "QUIESCE", "LATE", "DRAIN", "CONFIRM", "READ_DOWN", "WATCH", "DONE"],
  gated: ["PLANNED", "PRECHECK", "GATE", "SEED", "READ_UP", "WRITE_UP", "RELEASE", "VERIFY", "DONE"],
};

/** Returns whether a resize has ended. */
export const hasEnded = ({ phase }) => ENDED.has(phase);

/** Returns the address of a resize. */
export const addressOf = ({ id }) => `#/scaling/${encodeURIComponent(id)}`;

/** Returns the colour of a phase. */
export function kindOfPhase(phase) {
  if (phase === "DONE") return "good";
  if (NEEDS_OPERATOR.has(phase) || phase === "REJECTED") return "bad";
  return ["ABORTED", "ROLLBACK", "REOPEN"].includes(phase) ? "fair" : "plain";
}

/** Returns how many phases of how many a resize has behind it; null where it takes another way: an ordered one, or an undo. */
export function progressOf({ kind, phase, resumePhase, isUndone }) {
  const path = PATHS[kind];
  const at = path && !isUndone ? path.indexOf(resumePhase ?? phase) : -1;
  return at < 0 ? null : { done: at, total: path.length - 1 };
}

/** Returns what an operator may do with a resize: the names of the requests. */
export function commandsOf(operation) {
  if (hasEnded(operation)) return [];
  const waits = NEEDS_OPERATOR.has(operation.phase);
  const isWaivable = (operation.kind !== "grow" || operation.isUndone) && operation.phase === "BLOCKED";
  return [...(waits ? ["resume"] : []), ...(isWaivable ? ["waive"] : []), ...(operation.isUndone ? [] : ["abort"])];
}

/** Returns the line of time of a resize: finished phases, and the present one until the controller looked at it last. */
export function lineOf(operation) {
  const finished = operation.steps.map(({ phase, beganUnixMs, endedUnixMs }) => ({
    name: phase,
    ms: Math.max(endedUnixMs - beganUnixMs, 0),
  }));
  if (hasEnded(operation)) return finished;
  return [...finished, { name: operation.phase, ms: Math.max((operation.observedUnixMs ?? 0) - operation.phaseSinceUnixMs, 0) }];
}

/** Returns the number of queues of each broker set before and after a resize, as `8 → 16`; sets with other numbers are listed. */
export function countsOf({ sets }) {
  const texts = sets.map(({ readBefore, writeBefore, target }) =>
    readBefore === writeBefore ? `${readBefore} → ${target}` : `${readBefore}/${writeBefore} → ${target}`,
  );
  return [...new Set(texts)].join(", ");
}

/** Returns the colour of what became of a verdict of the autoscaler. */
export function kindOfOutcome(outcome) {
  return { kept: "plain", proposed: "fair", approved: "good", resized: "good", refused: "bad" }[outcome] ?? "plain";
}

/** Returns the colour of what more queues would do about a finding. */
export function kindOfEffect(effect) {
  return { "queues help": "good", "queues do not help": "fair", unknown: "bad" }[effect] ?? "plain";
}

/** Waits of a resize that an operator may change: docs/protocol/queue-scaling.md 7 and 9. */
export const WAITS = [
  "producersMs",
  "stableMs",
  "confirmMs",
  "verifyMs",
  "assignMs",
  "seedMs",
  "quiesceMs",
  "drainMs",
  "watchMs",
  "grownWatchMs",
  "popMs",
  "processMs",
  "transactionMs",
  "timedMs",
  "pauseMs",
];

/** Returns the request of a form of a resize; waits, in seconds there, are left out where they are blank. */
export function requestOf({ topic, queues, ordered, equalise, reason, writer, acceptLate, ...others }) {
  const waits = WAITS.filter((name) => others[name]).map((name) => [name, Math.round(Number(others[name]) * 1000)]);
  return {
    topic: topic.trim(),
    queues: Number(queues),
    ordered,
    equalise,
    reason,
    requestedBy: writer,
    waits: Object.fromEntries(waits),
    options: { acceptLate },
  };
}
