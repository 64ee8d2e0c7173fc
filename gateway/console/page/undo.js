// Undo: promotes are taken back while what is written on the target is mirrored back to the source.

import { ask, mirrorsPath, name } from "./api.js";
import { line } from "./cli.js";
import { count, dated, many } from "./numbers.js";

const risk = (records) => (records === null ? "how many records are at risk is not known" : `${many(records, "record")} at risk`);
const until = (ms) => (ms ? `until ${dated(ms)}` : "without an end");

// Of a topic's row; "" where nothing of it was asked for.
export function undoOf(row) {
  if (row.undo === "open") return `${until(row.undo_until_ms)}; ${risk(row.at_risk)}`;
  if (row.undo === "over") return `over since ${dated(row.undo_until_ms)}`;
  return { ended: "ended by somebody: there is no mirror back", refused: "could not be begun: see mirror describe" }[row.undo] || "";
}

// Of an application's row: "undo until 18:00; 0 records at risk".
export function undoOfApplication(row) {
  const found = [];
  if (row.undo_open) found.push(`undo ${row.undo_open < row.promoted ? `of ${row.undo_open} of ${many(row.promoted, "topic")} ` : ""}${until(row.undo_until_ms)}; ${risk(row.at_risk)}`);
  if (row.undo_over) found.push(`undo is over: ${many(row.undo_over, "topic")}`);
  if (row.undo_refused) found.push(`no undo: ${many(row.undo_refused, "topic")}`);
  return found.join(" · ");
}

export const canGoHome = (row) => row.undo === "open" && row.direction === "REVERSE" && row.state !== "PENDING_STOPPED";

const facts = (ends, records, topics, groups) => [
  ["It can be undone", ends.length ? until(Math.min(...ends)) : "without an end"],
  ["Records at risk, copied to the source first", records.includes(null) ? "not known" : count(records.reduce((sum, each) => sum + each, 0))],
  ["Topics that go home", count(topics)],
  ["Groups that go home with them", count(groups)],
];
const lateCount = (late) => (late === null ? "not measured yet" : count(late));
const KEPT = "Records that came to the source beside the gateway, and stay";
// `late`: null where it is not measured yet.
const keepLate = (late, of = "") => (late !== 0 ? [{ key: "keep", label: `Keep ${late === null ? "records (how many is not measured yet)" : many(late, "record")}${of} that came to the source beside the gateway: they stay where they are` }] : []);
const HOME = "Writes pause until the mirror back has drained, for some tens of milliseconds, and go to the source again from then on.";

// `groups`: those that read on the target, of which some may have to change sides with the topics. `late`: records that
// were written to the source beside the gateway, null: not measured.
export function undoTopics(link, topics, groups, late, word = "") {
  const what = topics.length === 1 ? topics[0] : `${topics.length} topics`;
  return { id: "undo", label: word ? `Undo ${word}…` : "Undo…", title: `Undo the promote of ${what}`, role: "operator", danger: true, name: topics.length === 1 ? topics[0] : link,
    options: [...(groups.length ? [{ key: "groups", type: "names", names: groups, label: "Groups that move with the topics" }] : []),
      ...keepLate(late)],
    cli: ({ groups: along = [], keep }) => line("mirror", "undo", ...topics, "--link", link, ...(along.length ? ["--groups", along.join(",")] : []), ...(keep ? ["--keep-late-writes"] : [])),
    plan: async ({ groups: along = [], keep }) => {
      const body = { mirror_topic_names: topics, group_names: along, keep_late_writes: Boolean(keep) };
      const found = (await ask("POST", mirrorsPath(link, "undo", true), body)).data.map((one) => one.undo);
      const kept = found.filter((one) => one && one.until_time_ms);
      return { facts: [...facts(kept.map((one) => one.until_time_ms), found.map((one) => (one ? one.records_at_risk : null)), topics.length, along.length),
        ...(late !== 0 ? [[KEPT, lateCount(late)]] : [])],
        lines: [HOME, "Clients go on. Only groups whose transactions tie them to the topics must go with them; the others read on as they do."] };
    },
    run: async ({ groups: along = [], keep }) => {
      await ask("POST", mirrorsPath(link, "undo"), { mirror_topic_names: topics, group_names: along, keep_late_writes: Boolean(keep) });
      return `${what}: going home.`;
    } };
}

// The sum of what is late; null while that of one is not measured.
export const lateOf = (found) => (found.includes(null) ? null : found.reduce((sum, each) => sum + each, 0));

// Of an application of a migration, or of all of them: `whole` is all of them from the beginning. `late`: records that
// were written to the source of any of them beside the gateway.
export function undoApplication(row, late) {
  const isAll = (chosen) => row.whole || chosen.all;
  const path = (chosen, dry) => {
    const query = [isAll(chosen) ? "" : `application=${name(row.name)}`, chosen.groups ? "groups=true" : "", chosen.keep ? "keep_late_writes=true" : "", dry ? "validate_only=true" : ""].filter(Boolean).join("&");
    return `/v3/migrations/${name(row.migration)}:undo${query ? `?${query}` : ""}`;
  };
  const what = (chosen) => (isAll(chosen) ? row.migration : row.name);
  return { id: "undo", label: "Undo…", title: `Undo the promotes of ${row.name}`, role: "operator", danger: true, name: what,
    options: [{ key: "groups", label: "Groups that only read, too: they are demoted first, and their members go to the source" },
      ...(row.applications > 1 ? [{ key: "all", label: `All applications of migration ${row.migration}, as one set` }] : []), ...keepLate(late, row.applications > 1 ? ` of migration ${row.migration}` : "")],
    cli: (chosen) => line("migration", "undo", row.migration, ...(isAll(chosen) ? [] : ["--application", row.name]), chosen.groups ? "--groups" : "", chosen.keep ? "--keep-late-writes" : ""),
    plan: async (chosen) => {
      const home = await ask("POST", path(chosen, true));
      const undone = home.migration.applications.filter((one) => isAll(chosen) || one.name === row.name).map((one) => one.undo).filter(Boolean);
      const goes = home.migration.state === "ABORTED" ? [] : [`Migration ${row.migration} is PAUSED, so that nothing is promoted again behind it.`];
      return { facts: [...facts(undone.map((one) => one.until_time_ms).filter(Boolean), undone.map((one) => one.records_at_risk), home.mirror_topic_names.length, home.groups.length),
        ["Groups that are demoted before", count(home.demoted_groups.length)],
        ...(chosen.keep ? [[KEPT, lateCount(isAll(chosen) ? late : row.late)]] : [])], lines: [HOME, ...goes] };
    },
    run: async (chosen) => {
      const home = await ask("POST", path(chosen, false));
      return `${many(home.mirror_topic_names.length, "topic")} of ${what(chosen)} on the way home; migration ${row.migration} is ${home.migration.state}.`;
    } };
}
