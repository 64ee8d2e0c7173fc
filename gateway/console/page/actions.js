// What can be done with a link, topics, a group, a migration: the REST verb, what it will do in numbers, and the command.

import { ask, mirrorsPath, name } from "./api.js";
import { line } from "./cli.js";
import { confirmAction } from "./dialog.js";
import { attr, h, keyed, text } from "./dom.js";
import { count, many, milliseconds, seconds } from "./numbers.js";
import { canGoHome, lateOf, undoApplication, undoTopics } from "./undo.js";

const RANK = { anyone: 0, viewer: 1, operator: 2, admin: 3 };

export function allowed(session, role) {
  const ok = (RANK[session.role] || 0) >= RANK[role];
  return { ok, why: ok ? "" : `This takes the role ${role}; '${session.name}' is ${session.role}.` };
}

// Buttons that stay while what they do changes with the state. `actions() -> [action]`.
export function actionBar({ session }, actions) {
  const node = h("div", { class: "actions" });
  let now = new Map();
  return {
    node,
    update() {
      now = new Map(actions().map((each) => [each.id, each]));
      keyed(node, [...now.keys()], (id) => h("button", { type: "button", class: now.get(id).danger ? "danger-quiet" : "quiet", onclick: () => {
        const action = now.get(id);
        if (action.go) location.hash = action.go;
        else confirmAction(action, allowed(session, action.role));
      } }), (button, id) => {
        const action = now.get(id);
        const may = allowed(session, action.role);
        text(button, action.label);
        attr(button, "disabled", !may.ok);
        attr(button, "title", may.ok ? null : may.why);
      });
    },
  };
}

// Names of a link's groups: those that are promoted, or those that are not yet.
const groupsOf = (store, link, promoted) =>
  Object.values(store.rows("groups")).filter((one) => one.link === link && (promoted ? one.state === "PROMOTED" : one.state === "ACTIVE")).map((one) => one.group).sort();
const sum = (values) => Object.values(values).reduce((total, each) => total + Math.max(0, each), 0);

// -- links -----------------------------------------------------------------------------------------------------

export function linkActions(store, link) {
  if (!link) return [];
  const topics = Object.values(store.rows("topics")).filter((one) => one.link === link.link);
  const home = topics.filter(canGoHome);
  const path = `/v3/links/${name(link.link)}`;
  const paused = link.state === "PAUSED";
  const verb = paused ? "resume" : "pause";
  const forward = topics.filter((one) => one.written_on === "source" && one.direction === "FORWARD");
  return [
    { id: "mirror", label: "Mirror topics", role: "operator", go: `#/link/${name(link.link)}` },
    { id: verb, label: paused ? "Resume" : "Pause", title: `${paused ? "Resume" : "Pause"} link ${link.link}`, role: "operator",
      cli: () => line("link", verb, link.link),
      plan: async () => {
        await ask("POST", `${path}:${verb}?validate_only=true`);
        return { lines: paused ? ["Its mirrors go on from where their copies end."] : [`Nothing of ${many(link.topics, "mirror topic")} is copied until it is resumed; clients' writes go on.`, "No promote is possible meanwhile."] };
      },
      run: async () => { await ask("POST", `${path}:${verb}`); return `Link ${link.link}: ${verb}d.`; } },
    ...(forward.length ? promoteActions(link.link, forward.map((one) => one.topic), groupsOf(store, link.link, false), "all") : []),
    ...(home.length ? [undoTopics(link.link, home.map((one) => one.topic), groupsOf(store, link.link, true), lateOf(home.map((one) => one.after_cutover)), "all")] : []),
  ];
}

// -- topics ----------------------------------------------------------------------------------------------------

// `groups`: of which some may have to change sides with the topics.
function promoteActions(link, topics, groups, word = "") {
  const what = topics.length === 1 ? topics[0] : `${topics.length} topics`;
  const label = word ? `Promote ${word}…` : "Promote…";
  return [
    { id: "rehearse", label: word ? `Rehearse ${word}…` : "Rehearse…", title: `Rehearse the promote of ${what}`, role: "operator",
      options: [{ key: "bound_ms", label: "ms for which writes may be paused at most; 0: as a promote", type: "number", value: 0 }],
      cli: ({ bound_ms }) => line("mirror", "promote", ...topics, "--link", link, "--rehearse", ...(bound_ms ? ["--bound-ms", String(bound_ms)] : [])),
      plan: async ({ bound_ms }) => {
        await ask("POST", mirrorsPath(link, "rehearse-promote", true), { mirror_topic_names: topics, bound_ms });
        return { lines: [`All of a promote of ${many(topics.length, "topic")} but the cutover: writes pause for some tens of milliseconds, the mirror drains, and all goes on as before.`, "It tells which clients waited, and for how long."] };
      },
      run: async ({ bound_ms }) => rehearsed(await ask("POST", mirrorsPath(link, "rehearse-promote"), { mirror_topic_names: topics, bound_ms })) },
    { id: "promote", label, title: `Promote ${what}`, role: "operator", danger: true, name: topics.length === 1 ? topics[0] : link,
      options: [
        ...(groups.length ? [{ key: "groups", type: "names", names: groups, unless: "force", label: "Groups that move with the topics" }] : []),
        { key: "force", label: "Force: although groups still read on the source, or without the source" },
      ],
      cli: ({ force, groups: along = [] }) => line("mirror", "promote", ...topics, "--link", link, ...(along.length ? ["--groups", along.join(",")] : []), force ? "--force" : ""),
      plan: ({ force, groups: along = [] }) => promotePlan(link, topics, along, force),
      run: async ({ force, groups: along = [] }) => {
        await ask("POST", mirrorsPath(link, "promote"), { mirror_topic_names: topics, group_names: along, force, mirror_direction: "FORWARD" });
        return `The promote of ${what} has begun.`;
      } },
  ];
}

async function promotePlan(link, topics, groups, force) {
  const [plan, ready] = await Promise.all([
    ask("POST", mirrorsPath(link, "promote", true), { mirror_topic_names: topics, group_names: groups, force, mirror_direction: "FORWARD" }),
    ask("GET", `/v3/links/${name(link)}/readiness`).catch(() => null),
  ]);
  const lags = plan.topics.map((one) => one.lag);
  const behind = lags.includes(null) ? "not known" : many(lags.reduce((total, each) => total + each, 0), "record");
  const eta = Math.max(0, ...plan.topics.map((one) => one.eta_s || 0));
  const beside = plan.topics.reduce((total, one) => total + (one.clients_not_migrated ? one.clients_not_migrated.bypassed_last_minute : 0), 0);
  const readers = once(plan.topics.map((one) => (one.clients_not_migrated && one.clients_not_migrated.readers) || []));
  return {
    ready,
    blockers: plan.blockers,
    facts: [
      ["Topics that change sides", count(plan.topics.length)],
      ["Groups that change sides with them", count(groups.length)],
      ["To be copied first", eta > 1 ? `${behind}, about ${seconds(eta)}` : behind],
      ["Written directly to the source in the last minute", many(beside, "record")],
      ["Members that still read on the source", count(readers.length)],
    ],
    lines: [
      "Writes pause until the mirror has drained, for some tens of milliseconds, and go to the target from then on.",
      ...(groups.length ? [`${many(groups.length, "group")} under the same pause: offsets are carried over, and members join again on the target.`] : []),
      ...plan.topics.flatMap((one) => one.waits_for.map((reason) => `${one.mirror_topic_name} waits: ${reason}`)),
      ...readers.slice(0, 5).map((one) => `${one.client_id} (${one.host}) of group ${one.group} reads on the source.`),
    ],
  };
}

// Members that still read on the source: one that reads several topics is one. Two of one name at one host read a topic each.
function once(lists) {
  const most = new Map();
  for (const list of lists) {
    const of = new Map();
    for (const one of list) {
      const key = JSON.stringify([one.group, one.client_id, one.host]);
      of.set(key, [...(of.get(key) || []), one]);
    }
    for (const [key, found] of of) if (found.length > (most.get(key) || []).length) most.set(key, found);
  }
  return [...most.values()].flat();
}

function rehearsed(done) {
  return {
    stay: true,
    facts: [
      ["Came to the cutover", done.reached ? "yes" : `no: ${done.given_up}`],
      ["Writes were paused for", done.pause_ms === null ? "not at all" : milliseconds(done.pause_ms)],
      ["Clients whose requests waited", count(done.num_clients)],
    ],
    lines: done.stalls.slice(0, 5).map((one) => `${one.client_id} (${one.address}) waited ${milliseconds(one.stall_ms)}.`),
  };
}

export function topicActions(store, row) {
  if (!row) return [];
  const { link, topic } = row;
  const found = [];
  const one = (verb, dry = false) => `/v3/links/${name(link)}/mirrors/${name(topic)}:${verb}${dry ? "?validate_only=true" : ""}`;
  if (row.state === "PAUSED") found.push(simple("resume", "Resume", "The mirror goes on from where its copy ends."));
  if (row.state === "ACTIVE") found.push(simple("pause", "Pause", `Nothing is copied until it is resumed: it falls behind by what is written to the ${row.direction === "REVERSE" ? "target" : "source"}. Clients go on.`));
  if (row.state === "ACTIVE" && row.direction === "FORWARD") found.push(...promoteActions(link, [topic], groupsOf(store, link, false)));
  if (row.state === "ACTIVE" && row.direction === "REVERSE") found.push(failback(row));
  if (row.state === "PENDING_STOPPED") found.push(callOff(row));
  if (canGoHome(row)) found.push(undoTopics(link, [topic], groupsOf(store, link, true), row.after_cutover));
  if (row.state === "STOPPED") found.push(reverse(row, one));
  if (["ACTIVE", "SOURCE_UNAVAILABLE", "LINK_FAILED", "PAUSED", "FAILED"].includes(row.state) && row.direction === "FORWARD") found.push(failover(row, one));
  if (row.state === "FAILED") found.push(repair(row, one));
  found.push(remove(row));
  return found;

  function simple(verb, label, effect) {
    return { id: verb, label, title: `${label} ${topic}`, role: "operator", cli: () => line("mirror", verb, topic, "--link", link),
      plan: async () => { await ask("POST", one(verb, true)); return { lines: [effect], facts: [["Behind now", many(row.lag, "record")]] }; },
      run: async () => { await ask("POST", one(verb)); return `${topic}: ${verb}d.`; } };
  }
}

function failback({ link, topic, lag }) {
  return { id: "failback", label: "Fail back…", title: `Fail ${topic} back to the source`, role: "operator", danger: true, name: topic,
    cli: () => line("mirror", "promote", topic, "--link", link, "--failback"),
    plan: async () => {
      const plan = await ask("POST", mirrorsPath(link, "promote", true), { mirror_topic_names: [topic], force: false, mirror_direction: "REVERSE" });
      return { blockers: plan.blockers, facts: [["To be copied to the source first", many(lag, "record")]], lines: ["Writes pause until the mirror back has drained, and go to the source again from then on."] };
    },
    run: async () => { await ask("POST", mirrorsPath(link, "promote"), { mirror_topic_names: [topic], force: false, mirror_direction: "REVERSE" }); return `The failback of ${topic} has begun.`; } };
}

// Until it cuts over; behind that the gateway refuses it, and says how to go back.
function callOff({ link, topic }) {
  const body = { mirror_topic_names: [topic] };
  return { id: "call-off", label: "Call off…", title: `Call the promote of ${topic} off`, role: "operator",
    cli: () => line("mirror", "promote", topic, "--cancel", "--link", link),
    plan: async () => {
      const plan = await ask("POST", mirrorsPath(link, "cancel-promote", true), body);
      return {
        facts: [["Topics that go back", count(plan.data.length)]],
        lines: [
          "They are what they were before: mirrored on, and writes that are paused go on at once.",
          ...plan.paused_migrations.map((migration) => `Migration ${migration} is paused: it would promote them again.`),
        ],
      };
    },
    run: async () => {
      const done = await ask("POST", mirrorsPath(link, "cancel-promote"), body);
      return `The promote of ${done.data.map((one) => one.mirror_topic_name).join(", ")} is called off.`;
    } };
}

function reverse({ link, topic }, one) {
  return { id: "reverse", label: "Mirror back…", title: `Mirror ${topic} back to the source`, role: "operator", danger: true, name: topic,
    cli: () => line("mirror", "reverse", topic, "--link", link),
    plan: async () => {
      const plan = await ask("POST", one("reverse-and-start-mirror", true));
      return { blockers: plan.blockers, lines: ["What is written on the target is copied to the source from now on, so that the way back stays open.", "Clients notice nothing."] };
    },
    run: async () => { await ask("POST", one("reverse-and-start-mirror")); return `${topic} is going to be mirrored back.`; } };
}

function failover({ link, topic }, one) {
  return { id: "failover", label: "Fail over…", title: `Fail ${topic} over to the target`, role: "operator", danger: true, name: topic,
    cli: () => line("mirror", "failover", topic, "--link", link),
    plan: async () => {
      const plan = await ask("POST", one("failover", true));
      const left = sum(plan.records_not_mirrored);
      const unknown = Object.values(plan.records_not_mirrored).filter((each) => each < 0).length;
      return {
        facts: [["Records left behind on the source", plan.records_not_mirrored_exact ? count(left) : `${count(left)} or more`], ["Partitions of which nobody knows", count(unknown)]],
        lines: ["The topic is written on the target at once, whatever the source does. What is not mirrored by now is not on the target, and stays on the source."],
      };
    },
    run: async () => { await ask("POST", one("failover")); return `${topic} is written on the target.`; } };
}

function repair({ link, topic }, one) {
  return { id: "repair", label: "Repair…", title: `Repair ${topic}`, role: "operator", cli: () => line("mirror", "repair", topic, "--link", link),
    plan: async () => {
      const plan = await ask("POST", one("repair", true));
      const way = plan.repairs.find((each) => each.possible && each.action !== "recreate");
      return { facts: [["It FAILED with", plan.mirror_topic_error]], lines: way ? [way.effect] : [plan.way_out], blockers: way ? [] : ["Nothing can be done without deleting the copy: see the command."] };
    },
    run: async () => { await ask("POST", one("repair")); return `${topic} is going again.`; } };
}

function remove({ link, topic, copy_end }) {
  const path = `/v3/links/${name(link)}/mirrors/${name(topic)}`;
  return { id: "delete", label: "Delete…", title: `Delete the mirror of ${topic}`, role: "admin", danger: true, name: topic,
    options: [{ key: "delete_topic", label: "Delete the topic on the target, too" }],
    cli: ({ delete_topic }) => line("mirror", "delete", topic, "--link", link, delete_topic ? "--delete-topic" : ""),
    plan: async ({ delete_topic }) => {
      const plan = await ask("DELETE", `${path}?validate_only=true&delete_topic=${delete_topic}`);
      return {
        blockers: plan.refused ? [plan.refused] : [],
        facts: [["Records deleted on the target", delete_topic ? count(copy_end) : "none"], ["Groups that are not promoted", plan.groups_not_promoted === null ? "not known" : plan.groups_not_promoted.join(", ") || "none"]],
        lines: ["It is mirrored no more."],
      };
    },
    run: async ({ delete_topic }) => { await ask("DELETE", `${path}?delete_topic=${delete_topic}`); return `${topic} is mirrored no more.`; } };
}

// -- groups ----------------------------------------------------------------------------------------------------

export function groupActions(row) {
  if (!row) return [];
  const { link, group } = row;
  const path = (verb, dry = false) => `/v3/links/${name(link)}/groups/${name(group)}:${verb}${dry ? "?validate_only=true" : ""}`;
  const carried = (plan) => ({
    blockers: plan.blockers,
    facts: [["Offsets carried over", count(plan.offsets.length)], ["Members on the source", count(row.members)], ["Members at the gate", count(row.waiting)]],
    lines: [plan.waits_for && `It waits first: ${plan.waits_for}`, plan.note].filter(Boolean),
  });
  const forced = [{ key: "force", label: "Force: go on although a check says no" }];
  if (row.state === "PROMOTED") {
    return [{ id: "demote", label: "Send back…", title: `Send group ${group} back to the source`, role: "operator", danger: true, name: group, options: forced,
      cli: ({ force }) => line("group", "demote", group, "--link", link, force ? "--force" : ""),
      plan: async ({ force }) => { const said = carried(await ask("POST", path("demote", true), { force })); said.lines.push("Its gate closes: members are sent away until they are restarted onto the source."); return said; },
      run: async ({ force }) => { await ask("POST", path("demote"), { force }); return `Group ${group} reads on the source again.`; } }];
  }
  return [{ id: "promote", label: "Promote…", title: `Promote group ${group}`, role: "operator", danger: true, name: group, options: forced,
    cli: ({ force }) => line("group", "promote", group, "--link", link, force ? "--force" : ""),
    plan: async ({ force }) => { const said = carried(await ask("POST", path("promote", true), { force })); said.lines.push("Its offsets are committed on the target, and its gate opens. It is promoted by itself when its last member has left the source."); return said; },
    run: async ({ force }) => { await ask("POST", path("promote"), { force }); return `Group ${group} reads on the target.`; } }];
}

// -- applications ----------------------------------------------------------------------------------------------

// `rows`: of the applications of its migration.
export function applicationActions(row, rows) {
  if (!row || !row.migration) return [];
  const path = (verb, dry = false) => `/v3/migrations/${name(row.migration)}:${verb}${dry ? (verb.includes("?") ? "&" : "?") + "validate_only=true" : ""}`;
  const running = row.state === "RUNNING";
  const verb = running ? "pause" : "resume";
  const found = [];
  if (running || row.state === "PAUSED") {
    found.push({ id: verb, label: running ? "Pause" : "Resume", title: `${running ? "Pause" : "Resume"} migration ${row.migration}`, role: "operator",
      cli: () => line("migration", verb, row.migration),
      plan: async () => { await ask("POST", path(verb, true)); return { lines: [running ? "No further step is taken until it is resumed. What has begun comes to its end." : "The fleet goes on with the steps that are left.",
        row.stopped_by && `It was stopped by a rule of its file: ${row.stopped_by}. ${row.stopped_by.startsWith("client_errors_percent") ? "Who resumes it has answers counted anew." : "Who resumes it accepts that value."}`].filter(Boolean) }; },
      run: async () => { await ask("POST", path(verb)); return `Migration ${row.migration}: ${verb}d.`; } });
  }
  if (row.promoted < row.topics && row.topics) {
    const rehearse = `/v3/migrations/${name(row.migration)}:rehearse?application=${name(row.name)}`;
    found.push({ id: "rehearse", label: "Rehearse…", title: `Rehearse the promote of ${row.name}`, role: "operator",
      cli: () => line("migration", "rehearse", row.migration, "--application", row.name),
      plan: async () => { await ask("POST", `${rehearse}&validate_only=true`); return { lines: [`All of the promote of ${many(row.topics, "topic")} but the cutover, and back.`] }; },
      run: async () => {
        const done = (await ask("POST", rehearse)).applications[0];
        return done.rehearsal ? rehearsed(done.rehearsal) : { stay: true, blockers: [done.refused] };
      } });
  }
  if (row.undo_open) found.push(undoApplication(row, lateOf(rows.map((one) => one.late))));
  return found;
}
