// A table of any length: only the rows in sight are in the page. Their order stays until a heading is pressed, so that
// nothing jumps while numbers change.

import { attr, h, newId, text } from "./dom.js";
import { count } from "./numbers.js";

const ROW = 36;
const SPARE = 6;

// columns: {key, label, value(row) -> text, order(row) -> sortable, number, wide, href(row), mark(row) -> class, low,
// lines}. `lines`: of `trends.js`, in place of text; `value` is their key then, and `order` what is sorted by.
// `low`: 1 is left out on a narrow page first, 2 last.
export function table({ label, columns, empty, height = 18 }) {
  const heads = columns.map((column, at) => {
    const button = h("button", { type: "button", onclick: () => sortBy(at) }, column.label);
    return h("div", { role: "columnheader", class: cellClass(column), "aria-sort": "none" }, button);
  });
  const head = h("div", { role: "row", class: "row head", "aria-rowindex": 1 }, ...heads);
  const room = h("div", { class: "room", role: "rowgroup" });
  // The headings scroll with the rows, and stay at the top: so they are as wide, with a scrollbar or without.
  const grid = h("div", { role: "table", "aria-label": label, class: "table" }, h("div", { role: "rowgroup", class: "heads" }, head), room);
  const box = h("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": `${label}, rows` }, grid);
  const none = h("p", { class: "empty", hidden: true });
  const nothing = empty || "Nothing here.";
  const needle = h("input", { type: "search", id: newId("filter"), placeholder: "part of any column", oninput: () => { arrange(); draw(); } });
  const found = h("span", { class: "soft", role: "status" });
  const filter = h("p", { class: "bar" }, h("label", { for: needle.id }, `Filter ${label[0].toLowerCase()}${label.slice(1)}`), needle, found);
  const grown = h("div", { class: "table-box" }, box, none);
  const node = h("div", {}, filter, grown);
  box.style.setProperty("--rows", height);
  grown.style.setProperty("--columns", columns.map((column) => column.wide || (column.number ? "1fr" : "1.4fr")).join(" "));
  const pool = [];
  let order = [];
  let rows = new Map();
  let sorted = { at: 0, down: false };

  function cellClass(column) {
    return `cell${column.number ? " number" : ""}${column.low ? ` low${column.low}` : ""}`;
  }

  function sortBy(at) {
    sorted = { at, down: sorted.at === at ? !sorted.down : Boolean(columns[at].number) };
    arrange();
    draw();
  }

  function arrange() {
    const column = columns[sorted.at];
    const value = column.order || column.value;
    const sign = sorted.down ? -1 : 1;
    const asked = needle.value.trim().toLowerCase();
    const wanted = asked ? [...rows.entries()].filter(([, row]) => worded(row).includes(asked)) : [...rows.entries()];
    text(found, asked ? `${count(wanted.length)} of ${count(rows.size)}` : "");
    const known = wanted.map(([key, row]) => [key, value(row)]);
    known.sort(([, one], [, other]) => sign * compared(one, other));
    order = known.map(([key]) => key);
    heads.forEach((each, at) => {
      attr(each, "aria-sort", at === sorted.at ? (sorted.down ? "descending" : "ascending") : "none");
    });
  }

  function worded(row) {
    return columns.filter((column) => !column.lines).map((column) => column.value(row)).join("\n").toLowerCase();
  }

  function compared(one, other) {
    if (one === other) return 0;
    if (one === null || one === undefined) return -1;
    if (other === null || other === undefined) return 1;
    if (typeof one === "string") return one.localeCompare(other, undefined, { numeric: true });
    return one - other;
  }

  function newRow() {
    const cells = columns.map((column) => {
      const inner = column.lines ? column.lines.make() : column.href ? h("a", {}) : h("span", {});
      return h("div", { role: "cell", class: cellClass(column) }, inner);
    });
    return h("div", { role: "row", class: "row" }, ...cells);
  }

  function draw() {
    attr(grid, "aria-rowcount", order.length + 1);
    attr(filter, "hidden", rows.size === 0);
    text(none, rows.size ? "No row has that." : nothing);
    attr(none, "hidden", order.length > 0);
    attr(box, "hidden", order.length === 0);
    room.style.setProperty("--length", order.length);
    const first = Math.max(0, Math.floor(box.scrollTop / ROW) - SPARE);
    const seen = Math.min(order.length - first, Math.ceil((box.clientHeight || 600) / ROW) + 2 * SPARE);
    while (pool.length < seen) {
      pool.push(newRow());
      room.append(pool[pool.length - 1]);
    }
    pool.forEach((each, slot) => fill(each, first + ((slot - first) % pool.length + pool.length) % pool.length, first + seen));
  }

  // Each row of the pool stands for every so many-th one, so scrolling by one row writes one row.
  function fill(node, at, end) {
    const row = at < end ? rows.get(order[at]) : null;
    attr(node, "hidden", !row);
    if (!row) return;
    attr(node, "aria-rowindex", at + 2);
    node.style.setProperty("--at", at);
    columns.forEach((column, which) => {
      const inner = node.children[which].firstChild;
      const said = column.value(row);
      if (column.lines) {
        column.lines.draw(inner, said);
        return;
      }
      text(inner, said);
      attr(inner, "title", !column.number && String(said).length > 24 ? said : null);
      if (column.href) attr(inner, "href", column.href(row));
      attr(inner, "class", column.mark ? column.mark(row) : null);
    });
  }

  box.addEventListener("scroll", draw, { passive: true });

  return {
    node,
    // rows: key -> row. A new key is put where the order has it; nothing else moves.
    update(found) {
      const fresh = found instanceof Map ? found : new Map(Object.entries(found));
      const same = fresh.size === rows.size && [...fresh.keys()].every((key) => rows.has(key));
      rows = fresh;
      if (!same) arrange();
      draw();
    },
  };
}
