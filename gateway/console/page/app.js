// The page as a whole: who asks, the feed, and which view is shown.

import { Refused, ask, listen, token } from "./api.js";
import { alertsView } from "./alerts.js";
import { cutoverView } from "./cutover.js";
import { attr, h, keyed, say, text } from "./dom.js";
import { fleetView } from "./fleet.js";
import { groupView, groupsView } from "./groups.js";
import { lockView } from "./lock.js";
import { migrationFileView } from "./migration_file.js";
import { migrationView, migrationsView } from "./migrations.js";
import { partitionsView } from "./partitions.js";
import { search } from "./search.js";
import { Store } from "./store.js";
import { timelineView } from "./timeline.js";
import { topicView, topicsView } from "./topics.js";
import { transactionsView } from "./transactions.js";
import { linkView } from "./wizard.js";

const VIEWS = [
  ["lock", "Lock", lockView],
  ["migrations", "Migrations", migrationsView],
  ["topics", "Topics", topicsView],
  ["partitions", "Partitions", partitionsView],
  ["groups", "Groups", groupsView],
  ["transactions", "Transactions", transactionsView],
  ["fleet", "Fleet", fleetView],
  ["timeline", "Timeline", timelineView],
  ["alerts", "Alerts", alertsView],
];
const DETAILS = { cutover: cutoverView, topic: topicView, group: groupView, link: linkView, migration: migrationView, "migration-file": migrationFileView };
const PARENTS = { cutover: "lock", topic: "topics", group: "groups", link: "lock", migration: "migrations", "migration-file": "migrations" };
const RETRY_MS = [500, 1000, 2000, 5000];

const byId = (id) => document.getElementById(id);
const store = new Store();
// `role`: viewer, operator or admin, as the gateway has proved it. `draft`: of a migration file, until it is applied.
const session = { role: "", name: "", draft: "" };
let shown = null;
let stop = null;

// #/topic/LINK/NAME -> ["topic", "LINK", "NAME"]; names are escaped.
function place() {
  const [view, ...names] = location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  return [view || "lock", ...names];
}

function show() {
  const [view, ...names] = place();
  const make = DETAILS[view] || (VIEWS.find(([key]) => key === view) || VIEWS[0])[2];
  if (shown && shown.close) shown.close();
  shown = make({ store, session }, ...names);
  byId("view").replaceChildren(shown.node);
  keyed(byId("nav"), VIEWS.map(([key]) => key), (key) => tab(key), (node, key) => {
    const parent = PARENTS[view] || view;
    attr(node, "aria-current", key === parent ? "page" : null);
  });
  tabInSight();
  shown.update();
  const heading = shown.node.querySelector("h2");
  document.title = `${heading ? heading.textContent : "lockgate"} – lockgate console`;
}

// A narrow page scrolls its tabs sideways; one that becomes narrow (a phone that is turned) does so later.
function tabInSight() {
  document.querySelector("#nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
}

function tab(key) {
  const label = VIEWS.find(([each]) => each === key)[1];
  return h("a", { href: `#/${key}` }, label, key === "alerts" ? h("span", { class: "count", hidden: true }) : null);
}

function redraw() {
  const alerts = Object.keys(store.rows("alerts")).length;
  const badge = document.querySelector("#nav .count");
  if (badge) {
    attr(badge, "hidden", alerts === 0);
    text(badge, ` ${alerts}`);
  }
  const lock = store.row("lock");
  text(byId("target"), lock ? `Target cluster ${lock.target_cluster_id}` : "");
  if (shown) shown.update();
}

function live(state, line) {
  attr(byId("dot"), "class", state);
  text(byId("live-text"), line);
}

function problem(line) {
  text(byId("problem"), line);
  attr(byId("problem"), "hidden", !line);
}

function askForToken(line) {
  stop?.abort();
  stop = null;
  attr(byId("enter"), "hidden", false);
  attr(byId("nav"), "hidden", true);
  attr(byId("search"), "hidden", true);
  attr(byId("forget"), "hidden", true);
  attr(byId("who"), "hidden", true);
  byId("view").replaceChildren();
  shown = null;
  session.draft = "";
  store.forget();
  live("", "not connected");
  problem(line);
  byId("token").focus();
}

const hears = {
  hello({ name, role, gateway }) {
    session.role = role;
    session.name = name;
    text(byId("who-asks"), `${name} · ${role}`);
    text(byId("which-gateway"), ` · gateway ${gateway}`);
    attr(byId("who"), "hidden", false);
    attr(byId("enter"), "hidden", true);
    attr(byId("nav"), "hidden", false);
    attr(byId("search"), "hidden", false);
    attr(byId("forget"), "hidden", !token.get());
    problem("");
  },
  all(sections) {
    store.all(sections);
    live("on", "live");
    problem("");
    if (!shown) show();
    redraw();
  },
  change(told) {
    store.change(told);
    live("on", "live");
    problem("");
    redraw();
  },
  trouble({ message }) {
    live("off", "waiting");
    problem(message);
  },
};

async function follow() {
  stop?.abort();
  const mine = new AbortController();
  stop = mine;
  for (let failed = 0; !mine.signal.aborted; ) {
    try {
      await listen({ ...hears, all: (data) => { failed = 0; hears.all(data); } }, mine.signal);
    } catch (error) {
      if (mine.signal.aborted) return;
      if (error instanceof Refused && (error.status === 401 || error.status === 403)) {
        const had = token.get();
        token.forget();
        askForToken(had ? error.message : "");
        return;
      }
      live("off", "no connection: trying again");
      if (error instanceof Refused) problem(error.message);
      failed += 1;
    }
    await new Promise((resume) => setTimeout(resume, RETRY_MS[Math.min(failed, RETRY_MS.length - 1)]));
  }
}

byId("enter").addEventListener("submit", (event) => {
  event.preventDefault();
  token.set(byId("token").value.trim());
  byId("token").value = "";
  follow();
});
byId("forget").addEventListener("click", () => {
  token.forget();
  askForToken("");
  say("The token is forgotten.");
});
search(store, byId("search-for"), byId("found"));
new ResizeObserver(tabInSight).observe(byId("nav"));
window.addEventListener("hashchange", () => {
  if (!shown) return;
  show();
  byId("main").focus({ preventScroll: true });
  window.scrollTo(0, 0);
});

// A certificate or a Unix socket may prove who asks without any token.
async function begin() {
  try {
    if (token.get() || (await ask("GET", "/console/caller")).role !== "anyone") follow();
    else askForToken("");
  } catch (error) {
    askForToken(error.message);
  }
}
begin();
