// How far groups are behind in a topic; no request and no element here. An unknown lag is never 0.

/** Returns one row for each queue of a lag answer, by broker set and queue id. */
export function lagQueues(lag) {
  return [...lag.queues].sort((one, other) =>
    one.brokerName === other.brokerName ? one.queueId - other.queueId : one.brokerName < other.brokerName ? -1 : 1,
  );
}

/** Returns {known, unknown} of a lag answer: its sum, null if nothing is known or a broker set lacks, and how many queues are unknown. */
export function lagSummary(lag) {
  return { known: lag.unavailable.length ? null : lag.knownLag, unknown: lag.unknown };
}
