// How far groups are behind in a topic; no request and no element here. An unknown lag is never 0.

/** Returns one row for each queue of a lag answer, by broker set and queue id. */
export function lagQueues(lag) {
  return [...lag.queues].sort((one, other) =>
    one.brokerName === other.brokerName ? one.queueId - other.queueId : one.brokerName < other.brokerName ? -1 : 1,
  );
}

/** Returns {known, unknown} of a lag answer: the sum of what is known, null if nothing is, and the number of queues of which it is not. */
export function lagSummary(lag) {
  const isKnown = lag.queues.some((each) => each.lag !== "unknown");
  return { known: isKnown ? lag.knownLag : null, unknown: lag.unknown };
}
