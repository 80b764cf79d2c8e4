// Requests to the server of this page. Addresses are relative, so that a proxy may serve the console below any path.

const ANSWER_MS = 8000;
// Longer than a server works on a request that changes something, or shows what it would change.
const CHANGE_MS = 40_000;
const PAGE_ITEMS = 1000;
// A list longer than this is shown in part.
const PAGES_MAX = 20;

/** A server refused a request, or did not answer: status 0. `retryAfterS` is when to try again, 0 if nobody knows. */
export class RequestFailed extends Error {
  constructor(status, message, retryAfterS = 0) {
    super(message);
    this.status = status;
    this.retryAfterS = retryAfterS;
  }
}

/** Returns the JSON of an answer, which has to be there within `answerMs`; throws RequestFailed. */
export async function request(path, { method = "GET", body, answerMs = ANSWER_MS } = {}) {
  const headers = body === undefined ? {} : { "Content-Type": "application/json" };
  let answer;
  let value;
  try {
    answer = await fetch(new URL(path, document.baseURI.split("#")[0]), {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: AbortSignal.timeout(answerMs),
    });
    value = await answer.json();
  } catch (error) {
    // Of a good answer that breaks off nobody knows what was done.
    throw new RequestFailed(answer && !answer.ok ? answer.status : 0, error.message);
  }
  if (!answer.ok) {
    const waitS = Number(answer.headers.get("Retry-After")) || 0;
    throw new RequestFailed(answer.status, value?.error?.message ?? answer.statusText, waitS);
  }
  return value;
}

/**
 * Returns the address of a path of a server's API. This page's own server is reached through its relay too: a proxy in front of
 * it may let nothing but `/ui` pass.
 */
export const pathOf = (peer, path) => `peer/${peer.kind}/${peer.number}/v1/${path}`;

/**
 * Returns what a server answers to a request that changes something there, or shows what it would change; throws
 * RequestFailed. The relay adds the token of the session.
 */
export function change(peer, path, body, method = "POST") {
  return request(pathOf(peer, path), { method, body, answerMs: CHANGE_MS });
}

// Refusals that say nothing about the server that was asked: the session has ended, or too much is requested at a time. A view
// without its answer would be false; the picture before it is only old.
const NO_ANSWERS = new Set([401, 429]);

/** Returns {peer, value, problem, status} of a server: what `load(peer)` returns, null with the reason where it fails. */
export async function answerOf(peer, load) {
  if (!peer.reachable) return { peer, value: null, problem: peer.problem, status: 0 };
  try {
    return { peer, value: await load(peer), problem: "", status: 200 };
  } catch (failure) {
    if (failure.status === undefined || NO_ANSWERS.has(failure.status)) throw failure;
    return { peer, value: null, problem: failure.message, status: failure.status };
  }
}

/** Returns the answers of all servers of a kind, as `answerOf` does. */
export async function answersOf(kind, load) {
  const peers = (await request("peers")).items.filter((peer) => peer.kind === kind);
  return Promise.all(peers.map((peer) => answerOf(peer, load)));
}

/**
 * Returns all items of a list that comes in pages, {items, isWhole}; throws RequestFailed. `onPage` gets those of each page so
 * far, and how many there are in all.
 */
export async function items(peer, path, key = "items", onPage = () => {}) {
  const found = [];
  let cursor = null;
  for (let page = 0; page < PAGES_MAX; page += 1) {
    const after = cursor === null ? "" : `&cursor=${encodeURIComponent(cursor)}`;
    const answer = await request(pathOf(peer, `${path}?limit=${PAGE_ITEMS}${after}`));
    found.push(...answer[key]);
    cursor = answer.nextCursor;
    onPage(found, answer.total);
    if (cursor === null) return { items: found, isWhole: true };
  }
  return { items: found, isWhole: false };
}
