// The lock as a picture: the source's and the target's water, the gates, the chamber, and each application's steps.

import { actionBar, linkActions } from "./actions.js";
import { copyButton } from "./copy.js";
import { attr, h, keyed, svg, text } from "./dom.js";
import { count, many, rate, seconds } from "./numbers.js";
import { stepsView } from "./steps.js";
import { trendCharts } from "./trends.js";

const TOP = 56; // of the source's water, below the names
const BED = 190;
const DEEPEST = 104; // how far below the source's the target's water can be
const PER_DECADE = 15; // pixels for each factor of ten that the copy is behind

export function lockView(context) {
  const { store, session } = context;
  const links = h("div", { class: "locks" });
  const empty = h("section", { class: "card welcome" }, h("h2", {}, "No link yet"),
    h("p", {}, "A link names the source cluster. Its topics are mirrored to the target, clients move one by one, and the gate opens when both sides are level."),
    h("a", { class: "button", href: "#/link" }, "Create a link"));
  const more = h("p", {}, h("a", { href: "#/link" }, "Create another link"));
  const steps = stepsView(context);
  const node = h("div", { class: "lock-view" }, h("h2", { class: "visually-hidden" }, "The lock"), empty, links, steps.node, more);
  const pictures = new Map();
  return {
    node,
    update() {
      const keys = Object.keys(store.rows("links"));
      attr(empty, "hidden", keys.length > 0);
      attr(more, "hidden", keys.length === 0 || session.role !== "admin");
      keyed(links, keys, (key) => {
        pictures.set(key, picture(context, key));
        return pictures.get(key).node;
      }, (each, key) => pictures.get(key).update());
      steps.update();
    },
    close() {
      for (const each of pictures.values()) each.close();
    },
  };
}

function picture(context, key) {
  const { store } = context;
  const drawing = draw();
  const gates = h("ul", { class: "gates" });
  const gatesHead = h("h3", {}, "Gates");
  const facts = { source: factList(), chamber: factList(), target: factList() };
  const title = h("h3", { class: "link-name" });
  const state = h("span", { class: "state" });
  const actions = actionBar(context, () => linkActions(store, store.row("links", key)));
  const node = h("section", { class: "card lock", "aria-label": `Link ${key}` },
    h("div", { class: "card-head" }, title, state, actions.node),
    drawing.node,
    h("div", { class: "columns" }, facts.source.node, facts.chamber.node, facts.target.node),
    gatesHead, gates);
  const watch = new ResizeObserver(() => drawing.resize());
  watch.observe(drawing.node);
  // Asked for while they are open only.
  const trends = trendCharts({ of: "link", link: key, name: key });
  const folded = h("details", { ontoggle: () => folded.open && trends.update() }, h("summary", {}, "Trends of this link"), trends.node);
  const help = h("details", {}, h("summary", {}, "What the picture shows"), h("ul", { class: "lines" },
    h("li", {}, "The dashed line is the source's level. The target's water is below it by what the copy is behind: a step for each factor of ten."),
    h("li", {}, "The gate to the source sinks into its place as topics are written on the target; the gate to the target opens as groups and topics pass."),
    h("li", {}, "A boat is a group that waits at its gate, with the number of its members. Arrows are writes, and what the mirror copies.")));
  node.append(folded, help);

  return {
    node,
    close() {
      watch.disconnect();
      trends.close();
    },
    update() {
      if (folded.open) trends.update();
      const link = store.row("links", key);
      const lock = store.row("lock");
      if (!link || !lock) return;
      const groups = Object.values(store.rows("groups")).filter((one) => one.link === key);
      const gateways = Object.values(store.rows("gateways"));
      const topics = Object.values(store.rows("topics")).filter((one) => one.link === key);
      text(title, `Link ${link.link}`);
      text(state, link.state === "ACTIVE" ? many(link.topics, "mirror topic") : `${link.state} ${link.error}`);
      attr(state, "class", `state ${link.state === "ACTIVE" ? "" : "bad"}`);
      actions.update();
      const flow = {
        in: store.rate(`links/${key}`, "origin_end"),
        toSource: store.rate("lock", "to_source"),
        toTarget: store.rate("lock", "to_target"),
        held: store.rate("lock", "held"),
        copied: store.rate(`links/${key}`, "copy_end"),
      };
      const waiting = groups.filter((one) => one.waiting);
      drawing.update({ link, lock, flow, waiting, moved: link.topics ? link.on_target / link.topics : 0,
        open: groups.filter((one) => one.state === "PROMOTED").length, gated: groups.length,
        paused: topics.some((one) => one.state === "PENDING_STOPPED") });
      const behind = topics.filter((one) => one.written_on === "source").reduce((most, one) => Math.max(most, one.lag ? one.lag_ms || 0 : 0), 0);
      facts.source.update([
        ["Cluster", link.cluster_id], ["Brokers", link.bootstrap], ["Log ends", ends(link.origin_end)],
        ["Written", `${rate(flow.in)} records/s`],
      ]);
      facts.chamber.update([
        ["Gateways", `${gateways.filter((one) => one.state === "up").length} of ${gateways.length} up`],
        ["Writes to source", `${rate(flow.toSource)} /s`], ["Writes to target", `${rate(flow.toTarget)} /s`],
        ["Held by a pause", lock.paused ? `${many(lock.paused, "topic")}, ${rate(flow.held)} /s` : "none"],
        ["Bypassing the gateway", link.bypassed ? `${count(link.bypassed)} records/min` : "none"],
      ]);
      facts.target.update([
        ["Cluster", lock.target_cluster_id], ["Log ends", ends(link.copy_end)],
        ["Behind", link.lag === null ? "not known" : link.lag ? `${many(link.lag, "record")}, ${seconds(behind / 1000)}` : "level"],
        ["Written here", `${link.on_target} of ${many(link.topics, "topic")}`],
      ]);
      attr(gatesHead, "hidden", groups.length === 0);
      keyed(gates, groups.map((one) => one.group).sort(), () => gate(), (each, name) => fillGate(each, store.row("groups", `${key}/${name}`)));
    },
  };
}

const ends = (sum) => (sum === null ? "not measured now" : many(sum, "record"));

const COPIED = ["Cluster", "Brokers"];

function factList() {
  const node = h("dl", { class: "facts" });
  return {
    node,
    update(pairs) {
      keyed(node, pairs.map(([label]) => label), (label) => {
        const said = h("span", {});
        const copy = COPIED.includes(label) ? copyButton(() => said.textContent, label.toLowerCase() === "cluster" ? "the cluster's id" : "the brokers", said) : null;
        return h("div", {}, h("dt", {}, label), h("dd", {}, said, copy));
      },
        (each, label) => {
          const said = pairs.find(([other]) => other === label)[1];
          text(each.lastChild.firstChild, said);
          attr(each.lastChild, "title", said);
        });
    },
  };
}

function gate() {
  return h("li", {}, h("span", { class: "gate-mark", "aria-hidden": "true" }), h("a", {}), h("span", { class: "gate-says" }));
}

function fillGate(node, group) {
  if (!group) return;
  const [mark, link, says] = node.children;
  const open = group.state === "PROMOTED";
  attr(mark, "class", `gate-mark ${open ? "open" : group.waiting ? "waits" : "shut"}`);
  attr(link, "href", `#/group/${encodeURIComponent(group.link)}/${encodeURIComponent(group.group)}`);
  text(link, group.group);
  text(says, gateLine(group));
}

export function gateLine(group) {
  if (group.state === "PROMOTED") return "open: reads on the target";
  if (group.state === "PENDING_PROMOTED") return "its offsets are carried over";
  if (group.state === "FAILED") return `not promoted: ${group.message}`;
  const left = group.members === null ? "members on the source, how many is not known yet" : `${many(group.members, "member")} on the source`;
  if (group.waiting) return `closed: ${count(group.waiting)} at the gate for ${seconds(group.longest_wait_s)}, waiting for ${left}`;
  return `closed: nobody at the gate, ${left}`;
}

// -- the drawing -----------------------------------------------------------------------------------------------

function draw() {
  const part = {};
  for (const name of ["sourceWater", "chamberWater", "targetWater"]) part[name] = svg("rect", { class: `water ${name}`, y: 0, height: 400 });
  for (const name of ["sourceTop", "chamberTop", "targetTop"]) part[name] = svg("line", { class: "surface" });
  part.level = svg("line", { class: "level" });
  part.bed = svg("rect", { class: "bed", y: BED, height: 12, x: 0 });
  part.upper = svg("rect", { class: "gate" });
  part.lower = svg("rect", { class: "gate" });
  part.boats = svg("g", { class: "boats" });
  part.names = ["Source", "Gateways", "Target"].map((name) => svg("text", { class: "name", y: 24, "text-anchor": "middle" }, name));
  part.mirror = svg("path", { class: "flow mirror" });
  part.mirrorSays = svg("text", { class: "says", "text-anchor": "middle" });
  part.writes = svg("path", { class: "flow writes" });
  part.writesSay = svg("text", { class: "says", "text-anchor": "middle" });
  const clip = svg("clipPath", { id: "bed" }, svg("rect", { x: 0, y: 0, width: 4000, height: BED }));
  const waters = svg("g", { "clip-path": "url(#bed)" }, part.sourceWater, part.chamberWater, part.targetWater,
    part.sourceTop, part.chamberTop, part.targetTop, part.level);
  const node = svg("svg", { class: "picture", role: "img", height: BED + 12 }, svg("defs", {}, clip), waters, part.bed,
    part.mirror, part.mirrorSays, part.writes, part.writesSay, part.boats, part.upper, part.lower, ...part.names);
  let last = null;
  let width = 0;
  let gap = DEEPEST; // the last that was known: a level does not fall for want of an answer

  function place() {
    const gateWidth = width < 600 ? 8 : 14;
    const basin = (width - 2 * gateWidth) / 3;
    const left = [0, basin + gateWidth, 2 * (basin + gateWidth)];
    attr(node, "viewBox", `0 0 ${width} ${BED + 12}`);
    ["sourceWater", "chamberWater", "targetWater"].forEach((name, at) => {
      attr(part[name], "x", left[at]);
      attr(part[name], "width", basin + (at < 2 ? gateWidth + 1 : 0)); // behind the gate, too
    });
    ["sourceTop", "chamberTop", "targetTop"].forEach((name, at) => {
      attr(part[name], "x1", left[at]);
      attr(part[name], "x2", left[at] + basin + (at < 2 ? gateWidth : 0));
    });
    attr(part.level, "x1", left[2]);
    attr(part.level, "x2", width);
    attr(part.level, "y1", TOP);
    attr(part.level, "y2", TOP);
    attr(part.bed, "width", width);
    attr(part.upper, "x", basin);
    attr(part.lower, "x", left[2] - gateWidth);
    for (const each of [part.upper, part.lower]) attr(each, "width", gateWidth);
    part.names.forEach((each, at) => attr(each, "x", left[at] + basin / 2));
    return { basin, left, gateWidth };
  }

  function paint({ link, flow, waiting, moved, open, gated, paused }) {
    const { basin, left, gateWidth } = place();
    if (link.lag !== null) gap = link.lag ? Math.min(DEEPEST, 6 + PER_DECADE * Math.log10(1 + link.lag)) : 0;
    const levels = { source: TOP, chamber: TOP, target: link.topics ? TOP + gap : TOP + DEEPEST };
    for (const [name, y] of Object.entries(levels)) {
      part[`${name}Water`].style.setProperty("transform", `translateY(${y}px)`);
      part[`${name}Top`].style.setProperty("transform", `translateY(${y}px)`);
    }
    // A gate that is open has sunk: the upper one (writes to the source) shuts as topics go to the target, the lower opens.
    gateTo(part.upper, moved);
    gateTo(part.lower, gated ? Math.max(moved, open / gated) : moved, paused);
    const middle = left[1] + basin / 2;
    const narrow = width < 600;
    // writes: from the chamber to the source until the cutover, then to the target
    const toTarget = moved >= 1;
    const reach = Math.min(basin * 0.62, 170);
    const [from, to] = toTarget ? [middle + 8, left[2] + reach * 0.5] : [middle - 8, basin - reach * 0.5];
    attr(part.writes, "d", arrow(from, 112, to, 112));
    attr(part.writes, "class", `flow writes ${paused ? "held" : ""}`);
    attr(part.writesSay, "x", middle);
    attr(part.writesSay, "y", 134);
    const writes = toTarget ? flow.toTarget : flow.toSource;
    text(part.writesSay, paused ? "writes are paused" : writes === null ? "" : narrow ? `${rate(writes)} w/s` : `${rate(writes)} writes/s`);
    attr(part.mirror, "d", arrow(basin * 0.4, 168, left[2] + basin * 0.55, 168));
    attr(part.mirror, "class", `flow mirror ${toTarget || !link.topics ? "still" : ""}`);
    attr(part.mirrorSays, "x", middle);
    attr(part.mirrorSays, "y", 162);
    text(part.mirrorSays, toTarget || !link.topics || flow.copied === null ? "" : narrow ? `mirror ${rate(flow.copied)}/s` : `the mirror: ${rate(flow.copied)} records/s`);
    boats(part.boats, waiting, left[2] - gateWidth, basin, narrow);
    attr(node, "aria-label", spoken(link, waiting, flow, paused));
  }

  function gateTo(node_, share, paused = false) {
    attr(node_, "y", TOP - 16);
    attr(node_, "height", BED - TOP + 16);
    attr(node_, "class", `gate ${paused ? "closing" : ""}`);
    node_.style.setProperty("transform", `translateY(${Math.round(share * (BED - TOP + 8))}px)`);
  }

  return {
    node,
    resize() {
      const now = Math.round(node.getBoundingClientRect().width);
      if (now && now !== width) {
        width = now;
        if (last) paint(last);
      }
    },
    update(now) {
      last = now;
      if (!width) this.resize();
      if (width) paint(now);
    },
  };
}

function arrow(from, y1, to, y2) {
  const back = to > from ? -8 : 8;
  return `M${from} ${y1}L${to} ${y2}m${back} -5L${to} ${y2}m${back} 5L${to} ${y2}`;
}

// One boat for each group at the gate, the nearest to it the one that waits longest.
function boats(parent, waiting, gateAt, basin, narrow) {
  const most = narrow ? 2 : 4;
  const step = narrow ? 40 : 62;
  const shown = [...waiting].sort((one, other) => other.longest_wait_s - one.longest_wait_s).slice(0, most);
  keyed(parent, shown.map((one) => one.group), () =>
    svg("g", { class: "boat" }, svg("path"), svg("text", { y: -5, "text-anchor": "middle" })),
  (node, name) => {
    const at = shown.findIndex((one) => one.group === name);
    node.style.setProperty("transform", `translate(${gateAt - (at + 1) * step}px, ${TOP - 4}px)`);
    attr(node.firstChild, "d", narrow ? "M0 0h32l-6 12h-20z" : "M0 0h52l-9 15h-34z");
    attr(node.lastChild, "x", narrow ? 16 : 26);
    text(node.lastChild, count(shown[at].waiting));
    attr(node, "data-group", name);
  });
}

function spoken(link, waiting, flow, paused) {
  const level = link.lag === null ? "How far the target is behind is not known." : link.lag ? `The target is ${many(link.lag, "record")} behind the source.` : "Source and target are level.";
  const boatsSay = waiting.length ? ` ${many(waiting.length, "group waits", "groups wait")} at the gate.` : "";
  const pause = paused ? " Writes are paused." : "";
  return `Lock of link ${link.link}. ${level} ${link.on_target} of ${many(link.topics, "topic")} written on the target.${boatsSay}${pause}`;
}
