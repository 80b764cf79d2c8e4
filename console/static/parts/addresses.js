// Addresses of views that are about one thing, so that they can be sent to a colleague.

/** Returns the address of the view of a topic, of a moment of its past where one is given (`2026-11-21T20:00:00`). */
export function topicAddress(topic, at = null) {
  return `#/topic/${encodeURIComponent(topic)}${at === null ? "" : `?at=${at}`}`;
}

/** Returns the address of the view of a broker. */
export function brokerAddress(cluster, brokerName, brokerId) {
  return `#/broker/${[cluster, brokerName, brokerId].map(encodeURIComponent).join("/")}`;
}

/** Changes the query of the present address; nothing is loaded anew, and no step back is added. */
export function setQuery(values) {
  const [path] = location.hash.split("?");
  const query = new URLSearchParams(Object.entries(values).filter(([, value]) => value));
  const text = query.toString();
  history.replaceState(history.state, "", text ? `${path}?${text}` : path);
}
