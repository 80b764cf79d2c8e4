// One broker: what NameServers and the controller know of it, and its share of the load; no request and no element here.

/** Returns what one NameServer lists of a broker: `{peer, broker, problem, state}`, `registered`, `absent` or `unreachable`. */
export function registrations(answers, cluster, brokerId) {
  return answers.map(({ peer, value, problem }) => {
    if (!value) return { peer, broker: null, problem, state: "unreachable" };
    const broker = value.items.find((each) => each.brokerId === brokerId && each.cluster === cluster) ?? null;
    return { peer, broker, problem: "", state: broker ? "registered" : "absent" };
  });
}

/** Returns the share of a set's queues in those of its cluster, in percent with one digit; null where there are none. */
export function share(queues, all) {
  return all > 0 ? Math.round((queues / all) * 1000) / 10 : null;
}

/** Returns the replica of a stored set that a broker with this address is; null if the controller does not know it. */
export function replicaOf(storedSet, address) {
  return storedSet?.replicas.find((each) => each.address === address) ?? null;
}

/**
 * Returns the lives that several servers have recorded as one lane for each NameServer; where more than one has rows of a
 * NameServer, the one that knows the most of it counts.
 */
export function lanes(answers) {
  const found = new Map();
  for (const { value } of answers) {
    const own = new Map();
    for (const span of value?.life ?? []) own.set(span.nsId, [...(own.get(span.nsId) ?? []), span]);
    for (const [nsId, spans] of own) {
      if (!found.has(nsId) || observedMs(found.get(nsId)) < observedMs(spans)) found.set(nsId, spans);
    }
  }
  return [...found].map(([nsId, spans]) => ({ nsId, spans })).sort((one, other) => (one.nsId < other.nsId ? -1 : 1));
}

function observedMs(spans) {
  const observed = spans.filter((each) => each.state !== "unobserved");
  return observed.reduce((sum, each) => sum + each.lastUnixMs - each.firstUnixMs, 0);
}

/** Returns the events that several servers have recorded, each once, the newest first. */
export function events(answers) {
  const found = new Map();
  for (const { value } of answers) {
    for (const event of value?.events ?? []) found.set(JSON.stringify([event.unixMs, event.nsId, event.sentence]), event);
  }
  return [...found.values()].sort((one, other) => other.unixMs - one.unixMs);
}
