// How numbers and times are written. Null is not known, and shown as a dash.

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const shortClock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const day = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });

export const NONE = "–";

export function count(value) {
  return value === null || value === undefined ? NONE : whole.format(value);
}

export function many(value, one, more = `${one}s`) {
  if (value === null || value === undefined) return "not known";
  return `${count(value)} ${value === 1 ? one : more}`;
}

export function bytes(value) {
  if (value === null || value === undefined) return NONE;
  const units = ["B", "kB", "MB", "GB", "TB"];
  let at = 0;
  let size = value;
  while (size >= 1000 && at < units.length - 1) {
    size /= 1000;
    at += 1;
  }
  return `${size < 10 && at ? size.toFixed(1) : Math.round(size)} ${units[at]}`;
}

// Some words for a rate, calm enough to read: whole from ten on.
export function rate(value) {
  if (value === null || value === undefined) return NONE;
  return value < 10 && value > 0 ? value.toFixed(1) : whole.format(value);
}

export function seconds(value) {
  if (value === null || value === undefined) return NONE;
  if (value > 0 && value < 1) return `${Math.max(1, Math.round(value * 1000))} ms`;
  if (value < 10) return `${value.toFixed(1)} s`;
  if (value < 120) return `${Math.round(value)} s`;
  if (value < 7200) return `${Math.round(value / 60)} min`;
  if (value < 172800) return `${Math.round(value / 3600)} h`;
  return `${Math.round(value / 86400)} d`;
}

export const milliseconds = (value) => (value === null || value === undefined ? NONE : seconds(value / 1000));

export const minute = (ms) => {
  if (!ms) return NONE;
  const date = new Date(ms);
  const today = new Date().toDateString() === date.toDateString();
  return today ? shortClock.format(date) : `${day.format(date)} ${shortClock.format(date)}`;
};

const withZone = new Intl.DateTimeFormat("en-GB", { year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", timeZoneName: "short" });
export const dated = (ms) => (ms ? withZone.format(new Date(ms)) : NONE);
