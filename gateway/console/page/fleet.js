// The gateways before the target, and how long each may go on writing without contact.

import { h } from "./dom.js";
import { count, dated, seconds } from "./numbers.js";
import { table } from "./table.js";

export function fleetView({ store }) {
  const found = table({
    label: "Gateways",
    empty: "No gateway is known.",
    columns: [
      { key: "name", label: "Gateway", wide: "1.6fr", value: (row) => row.name },
      { key: "state", label: "State", value: (row) => (row.leads ? `${row.state}, leads` : row.state), mark: (row) => (row.state === "up" ? "" : "bad") },
      { key: "partitions", label: "Mirrors", number: true, value: (row) => `${count(row.mirror_partitions)} partitions`, order: (row) => row.mirror_partitions },
      { key: "lease", label: "Lease", number: true, value: (row) => seconds(row.lease_s), order: (row) => row.lease_s },
      { key: "left", label: "Lease left", number: true, value: (row) => seconds(row.lease_left_s), order: (row) => row.lease_left_s, low: 1 },
      { key: "workers", label: "Processes", number: true, value: (row) => count(row.workers), order: (row) => row.workers, low: 1 },
      { key: "bootstrap", label: "Clients connect to", wide: "1.6fr", value: (row) => row.bootstrap, low: 1 },
      { key: "since", label: "Since", wide: "1.8fr", value: (row) => dated(row.since_ms), order: (row) => row.since_ms, low: 1 },
    ],
  });
  const node = h("section", {}, h("h2", {}, "Fleet"), h("p", { class: "soft" }, "A gateway that loses contact may keep writing to the source until its lease ends; promotes wait for it."), found.node);
  return { node, update: () => found.update(store.rows("gateways")) };
}
