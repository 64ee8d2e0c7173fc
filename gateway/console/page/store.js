// What the feed has told: sections of rows by key. And rates: counters over the last seconds.

const SAMPLES = 6;

export class Store {
  constructor() {
    this.sections = {};
    this.watchers = new Set();
    this.history = new Map();
  }

  rows(section) {
    return this.sections[section] || {};
  }

  row(section, key = "") {
    return this.rows(section)[key];
  }

  all(sections) {
    this.sections = sections;
    this.seen();
  }

  change(told) {
    for (const [section, { set = {}, gone = [] }] of Object.entries(told)) {
      const rows = { ...this.rows(section) };
      for (const [key, fields] of Object.entries(set)) rows[key] = { ...rows[key], ...fields };
      for (const key of gone) delete rows[key];
      this.sections[section] = rows;
    }
    this.seen();
  }

  seen() {
    const lock = this.row("lock");
    if (!lock) return;
    this.sample("lock", lock.at_ms, { to_source: lock.to_source, to_target: lock.to_target, held: lock.held });
    for (const [key, link] of Object.entries(this.rows("links"))) {
      this.sample(`links/${key}`, lock.at_ms, { origin_end: link.origin_end, copy_end: link.copy_end });
    }
    for (const watcher of this.watchers) watcher();
  }

  sample(key, atMs, counters) {
    const samples = this.history.get(key) || [];
    if (samples.length && atMs <= samples[samples.length - 1].atMs) return;
    samples.push({ atMs, counters });
    if (samples.length > SAMPLES) samples.shift();
    this.history.set(key, samples);
  }

  // Per second over the last samples; null until there are two. What falls has begun anew, and counts from there.
  rate(key, field) {
    const samples = (this.history.get(key) || []).filter((one) => typeof one.counters[field] === "number");
    if (samples.length < 2) return null;
    let sum = 0;
    for (let at = 1; at < samples.length; at += 1) {
      sum += Math.max(0, samples[at].counters[field] - samples[at - 1].counters[field]);
    }
    return (sum * 1000) / (samples[samples.length - 1].atMs - samples[0].atMs);
  }

  forget() {
    this.sections = {};
    this.history.clear();
  }
}
