// What differs between two routes, as tables.

import { badge, h, named, table } from "../dom.js";
import { t } from "../messages.js";

const STATES = { agrees: "good", differs: "fair", absent: "fair", unreachable: "bad" };
const CHANGES = { added: "good", removed: "bad", changed: "fair" };
const SHOWN_MAX = 200;

/** Returns a table of differences, as `differences` makes them. */
export function differenceTable(caption, found) {
  return [
    table(
      caption,
      [
        { label: t("diff.what"), cell: (row) => [t(row.what), row.name && " ", row.name && named(row.name)] },
        { label: t("diff.change"), cell: (row) => badge(CHANGES[row.change], t(`change.${row.change}`)) },
        { label: t("diff.before"), cell: (row) => named(row.before || "–") },
        { label: t("diff.after"), cell: (row) => named(row.after || "–") },
      ],
      found.slice(0, SHOWN_MAX),
      t("diff.none"),
    ),
    found.length > SHOWN_MAX && h("p", {}, t("and_more", { count: found.length - SHOWN_MAX })),
  ];
}

/** Returns a table of NameServers and whether they have the same route, as `agreement` makes its rows. */
export function agreementTable(rows, source) {
  return table(
    t("topic.name_servers"),
    [
      { label: t("address"), cell: (row) => [named(row.peer.address), row.peer.isSelf ? h("small", {}, ` ${t("this_server")}`) : null] },
      { label: t("state"), cell: (row) => badge(STATES[row.state], t(`route.${row.state}`)) },
      { label: t("details"), cell: (row) => [row.problem, row.peer === source ? t("route.shown") : row.differences.map(line)] },
    ],
    rows,
    t("name_servers.none"),
  );
}

function line({ what, name, before, after }) {
  return h("div", {}, t(what), " ", name && named(name), " ", named(before || "–"), " → ", named(after || "–"));
}
