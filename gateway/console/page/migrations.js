// All migrations, and one of them: how far it is, what is left and what for it waits, and what was done.

import { actionBar, allowed } from "./actions.js";
import { Refused, ask, name } from "./api.js";
import { named } from "./copy.js";
import { attr, h, keyed, text } from "./dom.js";
import { migrationActions } from "./migration_actions.js";
import { count, dated, many, milliseconds } from "./numbers.js";
import { diff, problemsOf, some } from "./plan.js";
import { stepsView } from "./steps.js";
import { story } from "./story.js";
import { table } from "./table.js";
import { actionLine, fillAction } from "./timeline.js";

const LIST_MS = 5000;
const ONE_MS = 3000;
const JOURNAL = 50;

const applicationsOf = (store, migration) => Object.values(store.rows("applications")).filter((one) => one.migration === migration);
const total = (rows, field) => rows.reduce((sum, one) => sum + one[field], 0);

export function migrationsView({ store, session }) {
  let listed = [];
  let asked = 0;
  let closed = false;
  const found = table({
    label: "Migrations",
    empty: "There is no migration yet: apply a migration file.",
    columns: [
      { key: "migration", label: "Migration", wide: "2fr", value: (row) => row.migration, href: (row) => `#/migration/${name(row.migration)}` },
      { key: "state", label: "State", value: (row) => row.state, mark: (row) => (row.stopped_by ? "bad" : "") },
      { key: "link", label: "Link", value: (row) => row.link_name, low: 1 },
      { key: "applications", label: "Applications", number: true, value: (row) => count(row.applications), order: (row) => row.applications, low: 1 },
      { key: "promoted", label: "Promoted", number: true, value: (row) => `${count(row.promoted)} of ${many(row.topics, "topic")}`, order: (row) => row.promoted },
      { key: "since", label: "Since", wide: "1.8fr", value: (row) => dated(row.state_time_ms), order: (row) => row.state_time_ms, low: 1 },
      { key: "by", label: "Applied by", value: (row) => row.applied_by, low: 1 },
    ],
  });
  const problem = h("p", { class: "bad", hidden: true });
  const may = allowed(session, "operator");
  const node = h("section", {}, h("div", { class: "card-head" }, h("h2", {}, "Migrations"), h("a", { class: "button", href: "#/migration-file" }, "Apply a file")),
    h("p", { class: "soft" }, "A migration file describes the desired state; the fleet does what is missing.", may.ok ? "" : ` To apply one takes the role operator; '${session.name}' is ${session.role}.`), problem, found.node);

  async function look() {
    asked = Date.now();
    try {
      listed = (await ask("GET", "/v3/migrations")).data;
      text(problem, "");
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      text(problem, error.message);
    }
    attr(problem, "hidden", !problem.textContent);
    if (!closed) draw();
  }

  function draw() {
    found.update(new Map(listed.map((one) => {
      const rows = applicationsOf(store, one.migration);
      const [first] = rows;
      return [one.migration, { ...one, state: first ? first.state : one.state, stopped_by: first ? first.stopped_by : "", applications: rows.length, promoted: total(rows, "promoted"), topics: total(rows, "topics") }];
    })));
  }

  return {
    node,
    close() {
      closed = true;
    },
    update() {
      draw();
      if (Date.now() - asked > LIST_MS) look();
    },
  };
}

export function migrationView(context, migration) {
  const { store } = context;
  let said = null; // the gateway's last answer
  let asked = 0;
  let closed = false;
  const row = () => {
    const [first] = applicationsOf(store, migration);
    if (first) return { migration, state: first.state, stopped_by: first.stopped_by };
    return said && { migration, state: said.state, stopped_by: said.stopped_by };
  };
  const bar = actionBar(context, () => migrationActions(row(), applicationsOf(store, migration)));
  const line = h("p", { class: "bad", hidden: true });
  const facts = h("dl", { class: "facts wide" });
  const problems = h("ul", { class: "lines bad" });
  const steps = stepsView(context, migration);
  const left = diff("What is left");
  const journal = h("ol", { class: "timeline" });
  const none = h("p", { class: "empty" }, "Nothing yet.");
  const node = h("section", {}, h("p", {}, h("a", { href: "#/migrations" }, "All migrations")), h("div", { class: "card-head" }, ...named(migration, "migration"), bar.node),
    line, facts, problems, steps.node, h("section", { class: "card" }, h("h3", {}, "What is left"), left.node), h("section", { class: "card" }, h("h3", {}, "What was done"), none, journal));

  async function look() {
    asked = Date.now();
    try {
      const found = await ask("GET", `/v3/migrations/${name(migration)}`);
      if (closed) return;
      said = found;
      text(line, "");
      draw();
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      if (error.status === 404) said = null;
      text(line, error.message);
    }
    attr(line, "hidden", !line.textContent);
    bar.update();
  }

  function draw() {
    const stopped = said.stopped_by ? ` (STOPPED_BY_RULE: ${said.stopped_by})` : "";
    const pairs = [["State", `${said.state}${stopped} since ${dated(said.state_time_ms)}`], ["Link", said.link_name], ["Applied by", `${said.applied_by || "somebody"}; created ${dated(said.created_time_ms)}`],
      ["Undo is kept for", said.file.failback_keep || "24h"], ["Under way", said.running.length ? some(said.running, 3) : "nothing"]];
    if (Object.keys(said.failures).length) pairs.push(["Refused, and tried again", some(Object.entries(said.failures).map(([step, why]) => `${step}: ${why}`), 3)]);
    keyed(facts, pairs.map(([label]) => label), (label) => h("div", {}, h("dt", {}, label), h("dd", {})), (each, label) => text(each.lastChild, pairs.find(([one]) => one === label)[1]));
    keyed(problems, problemsOf(said), (each) => h("li", {}, each));
    left.update(said);
    const entries = story(said.journal.map((one, at) => [String(said.journal_dropped + at), entry(one)])).slice(0, JOURNAL);
    attr(none, "hidden", entries.length > 0);
    const byKey = new Map(entries.map((one) => [one.key, one]));
    keyed(journal, [...byKey.keys()], () => actionLine(), (each, key) => fillAction(each, byKey.get(key)));
  }

  return {
    node,
    close() {
      closed = true;
    },
    update() {
      bar.update();
      steps.update();
      if (Date.now() - asked > ONE_MS) look();
    },
  };
}

// An entry of the journal as an event of the timeline; it is where one is already, so it leads nowhere.
function entry(one) {
  const paused = one.pause_ms === null ? "" : `writes were paused for ${milliseconds(one.pause_ms)}`;
  const bad = one.what.endsWith("_REFUSED") || one.what === "STOPPED_BY_RULE";
  return { at_ms: one.time_ms, kind: "application", key: "", line: one.line, detail: [one.detail, paused].filter(Boolean).join("; "), bad, link: "", names: [], words: "", passing: false };
}
