// Why servers know nothing of a time.

import { h, named } from "../dom.js";

/** Returns one line for each server. */
export function problemsOf(answers) {
  return answers.map(({ peer, value, problem }) => h("p", { class: "doubt" }, named(peer.address), ": ", problem || value?.problem));
}

/** Returns the answers of servers that may know more: they were not reached, or refused the request. */
export const failed = (answers) => answers.filter((each) => each.problem);
