// Labelled fields of forms.

import { h } from "../dom.js";

/** Returns a labelled field; its input is `field.querySelector("input, select")`. */
export function field(label, input) {
  return h("label", { class: "field" }, h("span", {}, label), input);
}

/** Returns a labelled check box. */
export function checkBox(label, name, isChecked = false) {
  return h("label", { class: "check" }, h("input", { type: "checkbox", name, checked: isChecked }), h("span", {}, label));
}
