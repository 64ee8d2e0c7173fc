// One action is one line: what led to it, and what else happened with it, unfolds. Pure: events in, actions out.

const TOGETHER_MS = 5000; // the same, of several objects, as one
const STEP_MS = 15 * 60 * 1000; // a step of a migration ends with its entry; what it did came before

// events: [key, row] by time. Returns the newest first: {key, line, event, parts: [event]}.
export function story(events) {
  const actions = [];
  const last = new Map(); // object -> the action that told of it last
  for (const [key, event] of events) {
    const action = { key, event, own: [event], led: [] };
    if (event.kind === "application" && !event.bad) step(action, last); // one that was refused has done nothing
    else if (event.words) change(action, last);
    const before = actions.findLast((each) => each.own.length);
    if (before && (event.words ? sibling(before, event) : repeated(before, event))) {
      before.own.push(event);
      before.led.push(...action.led);
      if (!event.words) before.event = event; // the newest of several tries
      tell(last, event, before);
    } else {
      actions.push(action);
      tell(last, event, action);
    }
  }
  return actions.filter((each) => each.own.length).map(told).reverse();
}

const objects = ({ kind, link, names }) => names.map((name) => `${kind}/${link}/${name}`);

function tell(last, event, action) {
  if (event.words) for (const each of objects(event)) last.set(each, action);
}

// What was on the way to this comes under it.
function change(action, last) {
  const [object] = objects(action.event);
  const before = last.get(object);
  if (before && before.event.passing) claim(action, before, [object]);
}

// What a step did to the topics and groups that it names.
function step(action, last) {
  const { link, names, at_ms } = action.event;
  for (const object of names.flatMap((name) => [`topic/${link}/${name}`, `group/${link}/${name}`])) {
    const before = last.get(object);
    if (before && at_ms - before.event.at_ms <= STEP_MS) claim(action, before, [object]);
  }
}

// Takes what `before` tells of these objects; when that is all, it has nothing to tell any more.
function claim(action, before, wanted) {
  const isWanted = (event) => objects(event).some((each) => wanted.includes(each));
  action.led.push(...before.led.filter(isWanted), ...before.own.filter(isWanted));
  before.led = before.led.filter((event) => !isWanted(event));
  before.own = before.own.filter((event) => !isWanted(event));
  if (before.own.length) [before.event] = before.own;
}

// The same happened to another object a moment ago.
function sibling(before, event) {
  const one = before.event;
  const same = one.words === event.words && one.link === event.link && one.kind === event.kind && !event.bad;
  return same && event.at_ms - one.at_ms <= TOGETHER_MS && !before.own.some((each) => each.names[0] === event.names[0]);
}

// A step that is refused again and again is one line.
const repeated = (before, event) => before.event.line === event.line && before.event.key === event.key;

function told({ key, event, own, led }) {
  const parts = own.length > 1 ? [...led, ...own] : led;
  const names = own.map((each) => each.names[0]);
  const several = own.length > 1 && event.words;
  const line = several ? `${event.kind}s ${names.slice(0, 3).join(", ")}${names.length > 3 ? ` and ${names.length - 3} more` : ""} ${event.words}` : event.line;
  return { key, event, line, parts: parts.sort((one, other) => one.at_ms - other.at_ms) };
}
