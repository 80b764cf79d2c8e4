// How far groups are behind in a topic; no request and no element here. An unknown lag is never 0.

/** Returns one row for each queue of a lag answer, by broker set and queue id. */
export function lagQueues(lag) {
  return [...lag.queues].sort((one, other) =>
    one.brokerName === other.brokerName ? one.queueId - other.queueId : one.brokerName < other.brokerName ? -1 : 1,
  );
}

/** Returns {known, unknown, longest} of a lag answer: the sum of what is known, queues that are not, the most in one queue. */
export function lagSummary(lag) {
  const known = lag.queues.map((each) => each.lag).filter((each) => each !== "unknown");
  return { known: lag.knownLag, unknown: lag.unknown, longest: Math.max(0, ...known) };
}
