// Requests that each NameServer answers for itself.

import * as api from "../api.js";

/** Returns the servers of consolePeers by kind. */
export async function peersByKind() {
  const peers = (await api.request("peers")).items;
  return (kind) => peers.filter((peer) => peer.kind === kind);
}

/** Returns which servers can be reached, as a text that changes with them. */
export function reachable(peers) {
  return JSON.stringify(peers.filter((peer) => peer.reachable).map((peer) => peer.address));
}

/** Returns {peer, value, problem, isAbsent} of each server; where there is no such thing `isAbsent`, and no problem. */
export function answersOf(peers, path, options = {}) {
  return Promise.all(peers.map((peer) => answerOf(peer, path, options)));
}

/**
 * Returns the answers of servers about one thing, as `answersOf`: `list` is the path of a list in which `isThere(item)` tells it, and `path` is requested only where it is. A browser would log each 404 as an error of the page.
 */
export async function answersWhereListed(peers, list, isThere, path) {
  return Promise.all(
    peers.map(async (peer) => {
      const listed = await answerOf(peer, list);
      if (!listed.value) return listed;
      const found = listed.value.items.some(isThere);
      return found ? answerOf(peer, path) : { ...listed, value: null, isAbsent: true };
    }),
  );
}

/** Returns the answer of one server as `answersOf` does. */
export async function answerOf(peer, path, options = {}) {
  const answer = await api.answerOf(peer, () => api.request(api.pathOf(peer, path), options));
  return { ...answer, isAbsent: answer.status === 404 };
}
