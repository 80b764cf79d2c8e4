// What the view of elections shows, from what controllers answered; no request and no element here.

/** Returns the elections of all controllers, the newest first. Each knows those of all; the leader knows the end of the last. */
export function elections(answers) {
  const inOrder = [...answers].sort((one, other) => (one.value?.role === "leader") - (other.value?.role === "leader"));
  const found = new Map();
  for (const { value } of inOrder) {
    for (const each of value?.elections ?? []) found.set(JSON.stringify([each.heldBy, each.brokerName, each.unixMs]), each);
  }
  return [...found.values()].sort((one, other) => other.unixMs - one.unixMs || other.number - one.number);
}

/** Returns the switchovers of all controllers, the newest first. */
export function switchovers(answers) {
  const found = answers.flatMap(({ peer, value }) =>
    (value?.switchovers ?? []).map((each) => ({ ...each, controller: peer.address })),
  );
  return found.sort((one, other) => other.createdUnixMs - one.createdUnixMs);
}

/** Returns the switchover that held an election; undefined for none. */
export function switchoverOf(election, found) {
  return found.find((each) => each.brokerName === election.brokerName && each.newEpoch === election.masterEpoch);
}

/** Returns the elections of sets whose names have a text in them. */
export function ofSets(found, text) {
  const wanted = text.toLowerCase();
  return found.filter((each) => each.brokerName.toLowerCase().includes(wanted));
}

/** Returns the election of an address: a set, and when it was held, Unix ms. */
export function electionAt(found, brokerName, unixMs) {
  return found.find((each) => each.brokerName === brokerName && String(each.unixMs) === unixMs);
}

/**
 * Returns the line of time of an election: `segments`, {phase, ms}, from the last heartbeat of the master, or from the request
 * where its loss is not the cause, and `marks`, {brokerId, result, tries, atMs}, when brokers were notified.
 */
export function lineOf({ phases, notified }) {
  const parts = { suspect: phases.suspectMs, judge: phases.judgeMs, fence: phases.fenceMs, commit: phases.commitMs };
  const segments = Object.entries(parts)
    .filter(([, ms]) => ms !== null)
    .map(([phase, ms]) => ({ phase, ms: Math.max(ms, 0) }));
  const stored = segments.reduce((sum, each) => sum + each.ms, 0);
  const marks = notified.map(({ brokerId, result, tries, afterMs }) => ({ brokerId, result, tries, atMs: stored + afterMs }));
  return {
    segments,
    marks: marks.sort((one, other) => one.atMs - other.atMs),
    totalMs: stored,
    isLoss: phases.suspectMs !== null,
  };
}

/** Returns the colour of what an election ended with. */
export function kindOf({ result, unclean }) {
  if (result === "no_master_elected") return "bad";
  if (unclean) return "fair";
  return result === "new_master_elected" ? "good" : "plain";
}

/** Returns the colour of the role of a broker. */
export function kindOfRole(verdict) {
  return { serves: "good", held: "fair", unknown: "fair", failed: "bad", superseded: "plain" }[verdict] ?? "plain";
}
