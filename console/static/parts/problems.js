// What a failed request means, as a sentence that says what to do.

import { t } from "../messages.js";

// No answer of the server itself came.
const UNANSWERED = new Set([0, 502, 504]);
// A server was sent the request, and may have done a part of it or all, although it did not say so.
const UNCERTAIN = new Set([...UNANSWERED, 500, 503]);

/** Returns the sentence for a request that only showed something, or would have: nothing was changed. */
export function problemOfRead(failure, server) {
  return sentenceOf(failure, server, UNANSWERED.has(failure.status) ? "problem.no_answer" : null);
}

/** Returns the sentence for a request that was to change something. */
export function problemOfChange(failure, server) {
  return sentenceOf(failure, server, UNCERTAIN.has(failure.status) ? "problem.may_be_done" : null);
}

function sentenceOf(failure, server, unanswered) {
  const values = { server, problem: failure.message, seconds: failure.retryAfterS || 1 };
  if (unanswered !== null) return t(unanswered, values);
  const key = {
    401: "problem.token",
    403: "problem.refused",
    409: "problem.conflict",
    429: "problem.too_many",
    500: "problem.unavailable",
    503: "problem.unavailable",
  };
  return t(key[failure.status] ?? "problem.refused", values);
}
