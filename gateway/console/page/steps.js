// Each application's way through the steps.

import { actionBar, applicationActions } from "./actions.js";
import { name } from "./api.js";
import { attr, h, keyed, text } from "./dom.js";
import { count } from "./numbers.js";
import { undoOfApplication } from "./undo.js";

export const STEPS = [
  ["Mirrored", "mirrored", "topics", "topics are level with the source"],
  ["Producers", "moved", "topics", "topics have had no write that bypasses the gateway for a minute"],
  ["At the gate", "gated", "groups", "groups wait at the gateway or have passed"],
  ["Groups", "groups_moved", "groups", "groups read on the target"],
  ["Topics", "promoted", "topics", "topics are written on the target"],
];

// `migration`: only its applications.
export function stepsView(context, migration = "") {
  const { store } = context;
  const list = h("ul", { class: "applications" });
  const node = h("section", { class: "card", "aria-label": "Applications" }, h("h3", {}, "Applications"), list);
  const bars = new Map();
  return {
    node,
    update() {
      const rows = store.rows("applications");
      const keys = Object.keys(rows).filter((key) => !migration || rows[key].migration === migration);
      attr(node, "hidden", keys.length === 0);
      keyed(list, keys, (key) => {
        const bar = actionBar(context, () => {
          const row = store.row("applications", key);
          return applicationActions(row, row ? Object.values(store.rows("applications")).filter((one) => one.migration === row.migration) : []);
        });
        bars.set(key, bar);
        return h("li", { class: "application" },
          h("div", { class: "application-head" }, h("strong", {}), h("span", { class: "soft" }), h("span", { class: "bad" }), !migration && rows[key].migration ? h("a", { href: `#/migration/${name(rows[key].migration)}` }, `migration ${rows[key].migration}`) : null,
            h("a", { href: `#/cutover/${name(key)}`, "aria-label": `Big screen of ${rows[key].name}` }, "Big screen"), bar.node), newSteps());
      }, (each, key) => {
        fill(each, rows[key]);
        bars.get(key).update();
      });
    },
  };
}

function fill(node, row) {
  const [head, steps] = node.children;
  text(head.children[0], row.name);
  text(head.children[1], about(row));
  text(head.children[2], row.problem);
  attr(head.children[2], "hidden", !row.problem);
  fillSteps(steps, row);
}

export const newSteps = () => h("ol", { class: "steps" }, ...STEPS.map(([label, , , about]) => h("li", {}, h("span", { class: "step-name" }, label), h("span", { class: "step-count", title: about }))));

export function fillSteps(steps, row) {
  STEPS.forEach(([label, done, of], at) => {
    const step = steps.children[at];
    const total = row[of];
    const all = total > 0 && row[done] >= total;
    attr(step, "class", total === 0 ? "none" : all ? "done" : row[done] ? "part" : "to-do");
    text(step.lastChild, total === 0 ? "none" : `${count(row[done])} of ${count(total)}`);
    attr(step, "aria-label", total === 0 ? `${label}: none` : `${label}: ${row[done]} of ${total}`);
  });
}

function about(row) {
  const said = row.migration ? [`${row.state}${row.stopped_by ? ` (STOPPED_BY_RULE: ${row.stopped_by})` : ""}`] : [`all of link ${row.link} that is in no migration`];
  if (row.readiness !== null) said.push(`readiness ${row.readiness}`);
  if (row.after.length) said.push(`after ${row.after.join(", ")}`);
  if (row.together) said.push("moves together");
  if (row.trouble) said.push(`${row.trouble} in trouble`);
  const undo = undoOfApplication(row);
  if (undo) said.push(undo);
  return said.join(" · ");
}
