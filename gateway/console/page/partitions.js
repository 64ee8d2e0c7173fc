// Partitions in numbers, of one topic or of all: asked for every two seconds while they are looked at.

import { ask, name } from "./api.js";
import { h, text } from "./dom.js";
import { bytes, count, many, milliseconds } from "./numbers.js";
import { table } from "./table.js";

const EVERY_MS = 2000;

export function partitionTable({ link = "", topic = "", label }) {
  const columns = [
    ...(topic ? [] : [{ key: "topic", label: "Topic", wide: "2fr", value: (row) => row.topic, href: (row) => `#/topic/${name(row.link)}/${name(row.topic)}` }]),
    { key: "partition", label: "Partition", number: true, value: (row) => row.partition, order: (row) => row.partition },
    { key: "phase", label: "Phase", value: (row) => row.phase, low: 1 },
    { key: "origin_end", label: "Source end", number: true, value: (row) => count(row.origin_end), order: (row) => row.origin_end, low: topic ? 0 : 1 },
    { key: "copy_end", label: "Copy end", number: true, value: (row) => count(row.copy_end), order: (row) => row.copy_end, low: topic ? 0 : 1 },
    { key: "lag", label: "Behind", number: true, value: (row) => count(row.lag), order: (row) => row.lag },
    { key: "lag_ms", label: "by time", number: true, value: (row) => (row.lag ? milliseconds(row.lag_ms) : "–"), order: (row) => row.lag_ms, low: 1 },
    { key: "rate", label: "Copied /s", number: true, value: (row) => bytes(row.bytes_per_s), order: (row) => row.bytes_per_s, low: 1 },
    { key: "note", label: "Waits for", value: (row) => row.note, low: 1 },
  ];
  const found = table({ label, columns, empty: "No partition is measured: nothing is mirrored here now.", height: topic ? 12 : 18 });
  const sums = h("p", { class: "soft" }, "…");
  let asked = 0;
  let closed = false;
  const stop = new AbortController();
  const query = new URLSearchParams(topic ? { link, topic } : {});

  async function look() {
    asked = Date.now();
    try {
      const said = await ask("GET", `/v3/console/partitions?${query}`, undefined, stop.signal);
      if (closed) return;
      const rows = new Map();
      for (const cells of said.rows) {
        const row = Object.fromEntries(said.columns.map((column, at) => [column, cells[at]]));
        rows.set(`${row.link}/${row.topic}/${row.partition}`, row);
      }
      const behind = [...rows.values()].filter((row) => row.lag);
      text(sums, `${many(rows.size, "partition")}, ${count(behind.length)} of them behind`);
      found.update(rows);
    } catch (error) {
      if (!closed) text(sums, error.message);
    }
  }

  return {
    node: h("div", {}, sums, found.node),
    close() {
      closed = true;
      stop.abort();
    },
    update() {
      if (Date.now() - asked >= EVERY_MS) look();
    },
  };
}

export function partitionsView() {
  const all = partitionTable({ label: "Partitions of all mirror topics" });
  return { node: h("section", {}, h("h2", {}, "Partitions"), all.node), update: () => all.update(), close: () => all.close() };
}
