// How far a group is behind in each queue, read from brokers when the user wants it: each reading loads all of them.

import { answersOf, pathOf, request } from "../api.js";
import { h, named, sentence, svg, table } from "../dom.js";
import { count, moment, t, tOr } from "../messages.js";
import { lagByTopic, serving } from "../offsets_model.js";
import { problemOfRead } from "../parts/problems.js";

/** Returns the form that opens the lag of a group. */
export function lagForm() {
  const input = h("input", { type: "search", name: "group", required: true, maxlength: 255, spellcheck: "false" });
  const open = (event) => {
    event.preventDefault();
    location.hash = `#/offsets/lag/${encodeURIComponent(input.value.trim())}`;
  };
  return h(
    "form",
    { class: "inline", onsubmit: open },
    h("label", { class: "field" }, h("span", {}, t("offsets.lag_of")), input),
    h("button", { type: "submit" }, t("offsets.show_lag")),
  );
}

/** Shows the lag of a group; it is read once, and again when the user wants it. */
export function showLag(root, page, group) {
  const content = h("div", { id: "lag", "aria-live": "polite" });
  const button = h("button", { type: "button", onclick: read }, t("offsets.read_again"));
  root.replaceChildren(
    h("h1", {}, t("offsets.lag_title"), " ", named(group)),
    h("div", { class: "tools" }, button, lagForm()),
    content,
    h("p", {}, h("a", { href: "#/offsets" }, t("offsets.all"))),
  );
  let isEnded = false;

  async function read() {
    button.disabled = true;
    content.replaceChildren(h("p", {}, t("offsets.reading")));
    const shown = await contentOf(group, page);
    if (isEnded) return;
    content.replaceChildren(...shown);
    button.disabled = false;
  }

  read();
  return () => {
    isEnded = true;
  };
}

async function contentOf(group, page) {
  let address = t("offset_managers");
  try {
    const manager = serving(await answersOf("offsets", (peer) => request(pathOf(peer, "manager"))));
    if (manager === null) return [h("p", {}, t("offsets.none"))];
    address = manager.peer.address;
    const lag = await request(pathOf(manager.peer, `offsets/lag?group=${encodeURIComponent(group)}`));
    // It grows old, and says itself when it was read.
    page.fresh(null, null, false);
    return lagSections(lag);
  } catch (failure) {
    if (failure.status === undefined) throw failure;
    if (failure.status === 401) page.fresh(failure, null, false);
    return [h("p", { class: "problem", role: "alert" }, problemOfRead(failure, address))];
  }
}

function lagSections({ knownLag, unknown, queues, unavailable }) {
  const topics = lagByTopic(queues);
  const longest = Math.max(1, ...topics.map((each) => each.lag));
  return [
    h("p", {}, t("offsets.lag_sum", { lag: count(knownLag), unknown, time: moment(Date.now()) })),
    ...unavailable.map((each) => h("p", { class: "problem" }, named(each.brokerName), ": ", sentence(each.reason))),
    table(
      t("topics"),
      [
        { label: t("topic"), cell: (row) => named(row.topic) },
        { label: t("offsets.lag"), cell: (row) => [count(row.lag), bar(row.lag / longest)] },
        { label: t("offsets.unknown_queues"), cell: (row) => row.unknown },
        { label: t("offsets.queues"), cell: (row) => row.queues },
      ],
      topics,
      t("offsets.no_lag"),
    ),
    table(
      t("offsets.queues"),
      [
        { label: t("topic"), cell: (row) => named(row.topic) },
        { label: t("queue"), cell: (row) => [named(row.brokerName), ` / ${row.queueId}`] },
        {
          label: t("offsets.lag"),
          cell: (row) => (row.lag === "unknown" ? [t("unknown"), " ", sentence(row.reason)] : count(row.lag)),
        },
        {
          label: t("offsets.committed"),
          cell: (row) => [
            count(row.committedOffset),
            row.committedIn ? h("small", {}, ` ${tOr(`offsets.in.${row.committedIn}`, row.committedIn)}`) : null,
          ],
        },
        { label: t("offsets.end"), cell: (row) => count(row.maxOffset) },
      ],
      queues,
      t("offsets.no_lag"),
    ),
  ];
}

// The number beside it says the same.
function bar(share) {
  return svg(
    "svg",
    { class: "bar", width: "100%", height: 8, "aria-hidden": "true" },
    svg("rect", { class: "phase-0", x: 0, y: 0, height: 8, width: `${(share * 100).toFixed(1)}%` }),
  );
}
