// Trends: small lines in tables, charts of one object. A gap is drawn as a gap, and never as zero.

import { Refused, ask } from "./api.js";
import { attr, h, keyed, svg, text } from "./dom.js";
import { NONE, bytes, count, dated, many, milliseconds, minute } from "./numbers.js";

const EVERY_MS = 15000;
const LINES_MS = 30000; // those of a table are many
const HOUR_MS = 3600000;
const SPANS = [["hour", "The last hour"], ["whole", "Since it began"]];
const KINDS = {
  lag: { label: "Behind", says: (value) => many(value, "record"), axis: count },
  bytes_per_s: { label: "Copied", says: (value) => `${bytes(value)}/s`, axis: (value) => `${bytes(value)}/s` },
  pause_ms: { label: "Writes paused", says: (value) => (value ? milliseconds(value) : "not at all"), axis: milliseconds, bars: true },
};

const trendsPath = (asked) => `/v3/console/trends?${new URLSearchParams(asked)}`;

// -- points to paths -------------------------------------------------------------------------------------------

// Runs of neighbours that are known: [[index, value], ...], ...
export function runs(values) {
  const found = [];
  let run = null;
  values.forEach((value, at) => {
    if (value === null) run = null;
    else if (run) run.push([at, value]);
    else found.push((run = [[at, value]]));
  });
  return found;
}

// A path of lines; a point without neighbours is a short line, so that it is seen.
export function path(values, x, y) {
  return runs(values).map((run) => {
    const [[first, value]] = run;
    if (run.length === 1) return `M${x(first)} ${y(value)}h2`;
    return `M${run.map(([at, each]) => `${x(at)} ${y(each)}`).join("L")}`;
  }).join("");
}

function area(values, x, y) {
  return runs(values).filter((run) => run.length > 1)
    .map((run) => `M${x(run[0][0])} ${y(0)}L${run.map(([at, each]) => `${x(at)} ${y(each)}`).join("L")}L${x(run[run.length - 1][0])} ${y(0)}Z`).join("");
}

function barsOf(values, x, y) {
  return runs(values).flat().filter(([, value]) => value > 0).map(([at, value]) => `M${x(at)} ${y(0)}V${y(value)}`).join("");
}

const highest = (values) => values.reduce((most, each) => (each !== null && each > most ? each : most), 0);
const newest = (values) => values.reduce((last, each) => (each === null ? last : each), null);
const rounded = (value) => Math.round(value * 10) / 10;

// -- in tables -------------------------------------------------------------------------------------------------

const WIDE = 120;
const HIGH = 22;

// For a column of a table: `draw(node, row)`, from what `look` has fetched; `update` is called while the table is seen.
export function trendLines(of, changed) {
  let found = new Map();
  let asked = 0;
  let closed = false;

  async function look() {
    asked = Date.now();
    try {
      const { data } = await ask("GET", trendsPath({ of, series: "lag" }));
      found = new Map(data.map((one) => [`${one.link_name}/${one.name}`, one]));
      if (!closed) changed();
    } catch (error) {
      if (!(error instanceof Refused)) throw error; // without lines a table is a table
    }
  }

  return {
    make: () => svg("svg", { class: "spark", width: WIDE, height: HIGH, viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img" }, svg("path", { class: "line" })),
    draw(node, key) {
      const one = found.get(key);
      const values = one ? one.values : [];
      const top = highest(values) || 1;
      const slots = one ? Math.round(HOUR_MS / one.step_ms) : 1;
      const x = (at) => rounded(((slots - values.length + at + 0.5) * WIDE) / slots);
      attr(node.firstChild, "d", path(values, x, (value) => rounded(HIGH - 2 - (value / top) * (HIGH - 4))));
      attr(node, "aria-label", one && newest(values) !== null ? `the last hour: ${count(highest(values))} at most` : "not known");
    },
    update() {
      if (Date.now() - asked >= LINES_MS) look();
    },
    close() {
      closed = true;
    },
  };
}

// -- charts ----------------------------------------------------------------------------------------------------

const TALL = 120;
const FOOT = 18;
const HEAD = 16;

// All series of one object. `asked`: {of, link, name}.
export function trendCharts(asked) {
  const charts = new Map();
  const list = h("div", { class: "charts" });
  const none = h("p", { class: "empty" }, "Nothing has been heard yet: gateways look every fifteen seconds.");
  const problem = h("p", { class: "bad", hidden: true });
  const buttons = SPANS.map(([span, label]) => h("button", { type: "button", class: "quiet", "aria-pressed": "false", onclick: () => choose(span) }, label));
  const since = h("span", { class: "soft" });
  const node = h("section", { class: "card trends", "aria-label": "Trends" }, h("div", { class: "card-head" }, h("h3", {}, "Trends"), h("span", { class: "actions" }, ...buttons), since), problem, none, list);
  let shown = "hour";
  let last = 0;
  let closed = false;

  async function look() {
    const span = shown;
    last = Date.now();
    try {
      const { data } = await ask("GET", trendsPath({ ...asked, span }));
      if (closed || span !== shown) return;
      text(problem, "");
      draw(data);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      text(problem, error.message);
    }
    attr(problem, "hidden", !problem.textContent);
  }

  function draw(data) {
    attr(none, "hidden", data.length > 0);
    const begins = data.filter((one) => one.values.length).map((one) => one.since_ms);
    text(since, shown === "whole" && begins.length ? `since ${dated(Math.min(...begins))}` : "");
    keyed(list, data.map((one) => one.series), (series) => {
      charts.set(series, chart(KINDS[series]));
      return charts.get(series).node;
    });
    for (const one of data) charts.get(one.series).update(one, shown);
  }

  function choose(span) {
    shown = span;
    buttons.forEach((each, at) => attr(each, "aria-pressed", String(SPANS[at][0] === span)));
    look();
  }
  buttons.forEach((each, at) => attr(each, "aria-pressed", String(SPANS[at][0] === shown)));

  return {
    node,
    update() {
      if (Date.now() - last >= EVERY_MS) look();
    },
    close() {
      closed = true;
      for (const each of charts.values()) each.close();
    },
  };
}

function chart(kind) {
  const filled = svg("path", { class: "area" });
  const line = svg("path", { class: kind.bars ? "bars" : "line" });
  const floor = svg("line", { class: "axis" });
  const mark = svg("line", { class: "mark", hidden: true });
  const top = svg("text", { class: "says", x: 0, y: 11 });
  const from = svg("text", { class: "says", x: 0, y: HEAD + TALL + 14 });
  const to = svg("text", { class: "says", y: HEAD + TALL + 14, "text-anchor": "end" });
  const drawing = svg("svg", { class: "chart", role: "img", height: HEAD + TALL + FOOT }, filled, line, floor, mark, top, from, to);
  const now = h("strong", {});
  const node = h("figure", {}, h("figcaption", {}, `${kind.label} `, now), drawing);
  let last = null;
  let width = 0;

  function place() {
    const { values, since_ms, step_ms, span } = last;
    const ends = since_ms + values.length * step_ms;
    const begins = span === "hour" ? Math.min(since_ms, ends - HOUR_MS) : since_ms;
    const highest_ = highest(values) || 1;
    return {
      begins, ends, highest: highest_,
      x: (at) => rounded(((since_ms + (at + 0.5) * step_ms - begins) / (ends - begins)) * width),
      y: (value) => rounded(HEAD + TALL - (value / highest_) * TALL),
    };
  }

  function paint() {
    const { values } = last;
    const { begins, ends, highest: most, x, y } = place();
    attr(drawing, "viewBox", `0 0 ${width} ${HEAD + TALL + FOOT}`);
    attr(filled, "d", kind.bars ? null : area(values, x, y));
    attr(line, "d", kind.bars ? barsOf(values, x, y) : path(values, x, y));
    for (const [name, value] of [["x1", 0], ["x2", width], ["y1", HEAD + TALL], ["y2", HEAD + TALL]]) attr(floor, name, value);
    text(top, highest(values) ? kind.axis(most) : "");
    text(from, minute(begins));
    text(to, minute(ends));
    attr(to, "x", width);
    rest();
  }

  // What is shown while nobody points: the newest that is known, which may be old.
  function rest() {
    const { values, since_ms, step_ms } = last;
    attr(mark, "hidden", true);
    const silent = values.length - 1 - values.findLastIndex((each) => each !== null);
    const value = kind.bars ? highest(values) : newest(values);
    const at = since_ms + (values.length - silent) * step_ms;
    text(now, newest(values) === null ? "not known" : `${kind.says(value)}${kind.bars && value ? " at most" : ""}${silent > 1 ? ` at ${minute(at)}; nothing heard since` : ""}`);
    const gaps = runs(values).length - 1;
    attr(drawing, "aria-label", `${kind.label}: ${now.textContent}; ${kind.says(highest(values))} at most${gaps > 0 ? `; ${many(gaps, "gap")}` : ""}`);
  }

  function point(event) {
    if (!last || !width) return;
    const { values, since_ms, step_ms } = last;
    const { begins, ends, x } = place();
    const ms = begins + ((event.clientX - drawing.getBoundingClientRect().left) / width) * (ends - begins);
    const at = Math.floor((ms - since_ms) / step_ms);
    if (at < 0 || at >= values.length) return rest();
    attr(mark, "hidden", false);
    for (const [name, value] of [["x1", x(at)], ["x2", x(at)], ["y1", HEAD], ["y2", HEAD + TALL]]) attr(mark, name, value);
    text(now, `${values[at] === null ? NONE : kind.says(values[at])} at ${minute(since_ms + at * step_ms)}`);
  }

  drawing.addEventListener("pointermove", point);
  drawing.addEventListener("pointerleave", () => last && rest());
  const watch = new ResizeObserver(() => {
    const found = Math.round(drawing.getBoundingClientRect().width);
    if (!found || found === width) return;
    width = found;
    if (last) paint();
  });
  watch.observe(drawing);
  return {
    node,
    close: () => watch.disconnect(),
    update(one, span) {
      last = { ...one, span };
      if (width && one.values.length) paint();
      else if (!one.values.length) text(now, "not known");
    },
  };
}
