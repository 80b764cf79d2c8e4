// Requests that each NameServer answers for itself.

import { pathOf, request } from "../api.js";

/** Returns the servers of consolePeers by kind. */
export async function peersByKind() {
  const peers = (await request("peers")).items;
  return (kind) => peers.filter((peer) => peer.kind === kind);
}

/** Returns {peer, value, problem, isAbsent} of each server; where there is no such thing `isAbsent`, and no problem. */
export function answersOf(peers, path, options = {}) {
  return Promise.all(peers.map((peer) => answerOf(peer, path, options)));
}

/** Returns the answer of one server as `answersOf` does. */
export async function answerOf(peer, path, options = {}) {
  const empty = { peer, value: null, problem: "", isAbsent: false };
  if (!peer.reachable) return { ...empty, problem: peer.problem };
  try {
    return { ...empty, value: await request(pathOf(peer, path), options) };
  } catch (failure) {
    if (failure.status === 401) throw failure;
    return failure.status === 404 ? { ...empty, isAbsent: true, problem: failure.message } : { ...empty, problem: failure.message };
  }
}
