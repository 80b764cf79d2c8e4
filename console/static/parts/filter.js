// A field that narrows what a view shows; its text is a part of the address, so that a colleague sees the same.

import { h } from "../dom.js";

/** Returns a field with a text; `changed(text)` is called as the user types. `address` is that of the view without the text. */
export function filterField(label, text, address, changed) {
  return h(
    "label",
    { class: "field filter" },
    h("span", {}, label),
    h("input", {
      type: "search",
      value: text,
      maxlength: 255,
      spellcheck: "false",
      oninput: (event) => {
        const wanted = event.target.value.trim();
        // Without an event: the view goes on.
        history.replaceState(null, "", wanted ? `${address}/${encodeURIComponent(wanted)}` : address);
        changed(wanted);
      },
    }),
  );
}
