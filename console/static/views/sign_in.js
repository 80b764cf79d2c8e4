// Asks for a token, and opens a session with it.

import { request } from "../api.js";
import { h } from "../dom.js";
import { t } from "../messages.js";

/** Shows the view; `page.signedIn` is called with the session. */
export function show(root, page) {
  const problem = h("p", { role: "alert", class: "problem" });
  const input = h("input", { id: "token", type: "password", autocomplete: "current-password", required: true, autofocus: true });

  async function signIn(event) {
    event.preventDefault();
    try {
      await page.signedIn(await request("session", { method: "POST", body: { token: input.value } }));
    } catch (failure) {
      problem.textContent = failure.status === 401 ? t("sign_in.wrong") : failure.message;
      input.select();
    }
  }

  const isOff = page.session.signIn === "off";
  root.replaceChildren(
    h("h1", {}, t("sign_in.title")),
    isOff
      ? h("p", {}, t("sign_in.off"))
      : h(
          "form",
          { onsubmit: signIn },
          h("p", {}, t("sign_in.explanation")),
          h("label", { for: "token" }, t("sign_in.token")),
          input,
          h("button", { type: "submit", class: "primary" }, t("sign_in.submit")),
          problem,
        ),
  );
  input.focus();
  return () => root.replaceChildren();
}
