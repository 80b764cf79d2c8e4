// How far to look back.

import { h } from "../dom.js";
import { t } from "../messages.js";
import { SPANS } from "./times.js";

/** Returns a list of lengths of time with its label; `onChoose` gets the ms of what is chosen. */
export function spanChoice(id, presentMs, onChoose) {
  return h(
    "span",
    { class: "field" },
    h("label", { for: id }, t("span")),
    h(
      "select",
      { id, onchange: (event) => onChoose(Number(event.target.value)) },
      Object.entries(SPANS).map(([key, ms]) => h("option", { value: ms, selected: ms === presentMs }, t(key))),
    ),
  );
}
