// What somebody should look at, with the remedy.

import { attr, h, keyed, text } from "./dom.js";
import { place } from "./timeline.js";

export function alertsView({ store }) {
  const list = h("ul", { class: "alerts" });
  const none = h("p", { class: "empty" }, "No alerts.");
  const node = h("section", {}, h("h2", {}, "Alerts"), none, list);
  return {
    node,
    update() {
      const rows = store.rows("alerts");
      const keys = Object.keys(rows).sort((one, other) => (rows[one].severity === rows[other].severity ? one.localeCompare(other) : rows[one].severity === "error" ? -1 : 1));
      attr(none, "hidden", keys.length > 0);
      keyed(list, keys, (key) => h("li", { class: rows[key].severity }, h("strong", {}), " ", h("a", { href: place(rows[key]) }), h("br"), h("span", { class: "soft" }, rows[key].remedy)),
        (each, key) => {
          text(each.children[0], rows[key].severity);
          text(each.children[1], rows[key].line);
        });
    },
  };
}
