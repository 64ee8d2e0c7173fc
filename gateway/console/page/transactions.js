// Open transactions on both clusters: a promote waits for those that have its topics.

import { ask, name } from "./api.js";
import { h, text } from "./dom.js";
import { count, milliseconds } from "./numbers.js";
import { table } from "./table.js";

const EVERY_MS = 3000;

export function transactionsView({ store }) {
  const found = table({
    label: "Open transactions",
    empty: "No transaction is open.",
    columns: [
      { key: "id", label: "Transactional id", wide: "2fr", value: (row) => row.transactional_id },
      { key: "side", label: "On", value: (row) => row.cluster },
      { key: "state", label: "State", value: (row) => row.state, low: 1 },
      { key: "age", label: "Open for", number: true, value: (row) => milliseconds(row.age_ms), order: (row) => row.age_ms },
      { key: "topics", label: "Topics", value: (row) => row.topics.join(", ") },
      { key: "producer", label: "Producer id", number: true, value: (row) => count(row.producer_id), order: (row) => row.producer_id, low: 1 },
    ],
  });
  const line = h("p", { class: "soft" }, "…");
  const node = h("section", {}, h("h2", {}, "Transactions"), line, found.node);
  let asked = 0;
  let closed = false;

  async function look() {
    asked = Date.now();
    const rows = new Map();
    const unknown = [];
    for (const link of Object.keys(store.rows("links"))) {
      try {
        const said = await ask("GET", `/v3/links/${name(link)}/transactions`);
        for (const one of said.data) rows.set(`${link}/${one.cluster}/${one.transactional_id}`, one);
        unknown.push(...Object.entries(said.unknown).map(([cluster, why]) => `The ${cluster} does not tell: ${why}`));
      } catch (error) {
        unknown.push(error.message);
      }
    }
    if (closed) return;
    text(line, unknown.length ? unknown.join(" · ") : "Asked of the brokers every three seconds while you look.");
    found.update(rows);
  }

  return {
    node,
    close() {
      closed = true;
    },
    update() {
      if (Date.now() - asked >= EVERY_MS) look();
    },
  };
}
