// What can be done with a migration: apply its file, pause, go on, rehearse, undo, abort, forget.

import { ask, name } from "./api.js";
import { line } from "./cli.js";
import { many, milliseconds } from "./numbers.js";
import { inNumbers, problemsOf } from "./plan.js";
import { lateOf, undoApplication } from "./undo.js";

const path = (migration, verb = "", dry = false) => `/v3/migrations/${name(migration)}${verb}${dry ? "?validate_only=true" : ""}`;

// As if it were applied: what would be left. Throws Refused.
export const dryRun = (file, signal) => ask("PUT", path(file.migration, "", true), file, signal);

// `before`: the row of a migration of this name, if there is one. `called`: the file's name in the command.
export function applyAction(file, before, called) {
  const migration = file.migration;
  return { id: "apply", label: "Apply…", title: `Apply the file of migration ${migration}`, role: "operator", danger: true, name: migration,
    cli: () => line("migration", "apply", called),
    plan: async () => {
      const plan = await dryRun(file);
      return { facts: inNumbers(plan), problems: problemsOf(plan), lines: [
        before ? `Migration ${migration} is there already, and ${before.state}: it goes on by this file, RUNNING.` : `Migration ${migration} begins, RUNNING.`,
        ...(before && before.stopped_by ? [`It was stopped by a rule of its file: ${before.stopped_by}. Who applies one accepts that value.`] : []),
        "The fleet takes each step as soon as it waits for nothing, until nothing is left, or somebody pauses it.",
        `Writes pause for some tens of milliseconds at each promote of topics; ${file.failback_keep === "0" ? "no promote can be taken back by undo" : `each can be taken back for ${file.failback_keep || "24h"}`}.`,
      ] };
    },
    run: async () => {
      const said = await ask("PUT", path(migration), file);
      location.hash = `#/migration/${name(migration)}`;
      return `Migration ${said.migration} is ${said.state}.`;
    } };
}

// `row`: of the migration. `rows`: of its applications.
export function migrationActions(row, rows) {
  if (!row) return [];
  const { migration, state } = row;
  const found = [];
  if (state === "RUNNING" || state === "PAUSED") found.push(paused(row), aborted(migration));
  if (rows.some((one) => one.promoted < one.topics) && state !== "ABORTED") found.push(rehearsed(migration, rows));
  if (rows.some((one) => one.undo_open)) found.push(undone(migration, rows));
  found.push({ id: "change", label: "Change its file", role: "operator", go: `#/migration-file/${name(migration)}` });
  if (state !== "RUNNING") found.push(forgotten(migration));
  return found;
}

function paused({ migration, state, stopped_by }) {
  const verb = state === "RUNNING" ? "pause" : "resume";
  const label = state === "RUNNING" ? "Pause" : "Resume";
  return { id: verb, label, title: `${label} migration ${migration}`, role: "operator",
    cli: () => line("migration", verb, migration),
    plan: async () => {
      const plan = await ask("POST", path(migration, `:${verb}`, true));
      return { facts: inNumbers(plan), problems: problemsOf(plan), lines: [
        verb === "pause" ? "No further step is taken until it is resumed. What has begun comes to its end." : "The fleet goes on with the steps that are left.",
        stopped_by && `It was stopped by a rule of its file: ${stopped_by}. Who resumes it accepts that value.`].filter(Boolean) };
    },
    run: async () => { await ask("POST", path(migration, `:${verb}`)); return `Migration ${migration}: ${verb}d.`; } };
}

function aborted(migration) {
  return { id: "abort", label: "Abort…", title: `Abort migration ${migration}`, role: "operator", danger: true, name: migration,
    cli: () => line("migration", "abort", migration),
    plan: async () => {
      const plan = await ask("POST", path(migration, ":abort", true));
      const left = plan.applications.reduce((total, one) => total + one.steps.length, 0);
      return { facts: [["Steps that are not taken any more", left]], lines: ["What is done stays as it is: mirrors go on, groups and topics are where they are.", "Only a file that is applied again goes on."] };
    },
    run: async () => { await ask("POST", path(migration, ":abort")); return `Migration ${migration} is ABORTED.`; } };
}

function rehearsed(migration, rows) {
  const topics = rows.reduce((total, one) => total + one.topics - one.promoted, 0);
  return { id: "rehearse", label: "Rehearse…", title: `Rehearse the promotes of ${migration}`, role: "operator",
    cli: () => line("migration", "rehearse", migration),
    plan: async () => {
      await ask("POST", path(migration, ":rehearse", true));
      return { lines: [`All of the promotes of ${many(topics, "topic")} but the cutover, and back, one application after the other: writes pause for some tens of milliseconds.`] };
    },
    run: async () => {
      const done = (await ask("POST", path(migration, ":rehearse"))).applications;
      return { stay: true, facts: done.map((one) => [one.application, outcome(one)]), lines: ["Nothing has changed sides."] };
    } };
}

function outcome({ refused, rehearsal }) {
  if (!rehearsal) return `refused: ${refused}`;
  return rehearsal.reached ? `writes were paused for ${milliseconds(rehearsal.pause_ms)}; ${many(rehearsal.num_clients, "client")} waited` : `given up: ${rehearsal.given_up}`;
}

// All of its applications, as one set.
function undone(migration, rows) {
  return { ...undoApplication({ migration, name: migration, applications: 1, whole: true }, lateOf(rows.map((one) => one.late))), title: `Undo the promotes of migration ${migration}` };
}

function forgotten(migration) {
  return { id: "delete", label: "Forget…", title: `Forget migration ${migration}`, role: "operator", danger: true, name: migration,
    cli: () => line("migration", "delete", migration),
    plan: async () => {
      const { journal, journal_dropped: dropped } = await ask("GET", path(migration));
      await ask("DELETE", path(migration, "", true));
      return { facts: [["Entries of its journal", journal.length + dropped]], lines: ["Its file and its journal are gone then. Mirrors, groups and topics stay as they are."] };
    },
    run: async () => { await ask("DELETE", path(migration)); location.hash = "#/migrations"; return `Migration ${migration} is forgotten.`; } };
}
