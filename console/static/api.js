// Requests to the server of this page. Addresses are relative, so that a proxy may serve the console below any path.

const ANSWER_MS = 8000;
const PAGE_ITEMS = 1000;
// A list longer than this is shown in part.
const PAGES_MAX = 20;

/** A server refused a request, or did not answer: status 0. */
export class RequestFailed extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
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
    throw new RequestFailed(answer?.status ?? 0, error.message);
  }
  if (!answer.ok) throw new RequestFailed(answer.status, value?.error?.message ?? answer.statusText);
  return value;
}

/** Returns the address of a path of a server's API; of this page's own server without the relay. */
export function pathOf(peer, path) {
  return peer.isSelf ? `../v1/${path}` : `peer/${peer.kind}/${peer.number}/v1/${path}`;
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
