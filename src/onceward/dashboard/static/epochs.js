// The epochs that the timeline has loaded, as columns. Pure.

const MOST = 12_000; // loaded at once; older and newer ones are asked for again
export const PHASES = ["plan", "read", "reading", "begin", "compute", "write", "pre_commit", "vote", "decide", "commit"];

export class Epochs {
  constructor() {
    this.epoch = [];
    this.at = [];
    this.term = [];
    this.attempts = [];
    this.rows_in = [];
    this.total = [];
    this.rows_out = {};
    this.series = []; // {name, sink, ms}, in the order in which they happen
    this.from_start = false; // nothing older exists
    this.to_end = true; // nothing newer exists that is not loaded
  }

  get length() { return this.epoch.length; }
  get first() { return this.epoch[0]; }
  get last() { return this.epoch.at(-1); }

  /** Older ones go before, newer ones behind; what is there already stays. How many went before. */
  add(columns) {
    const given = ascending(columns);
    const older = this.length ? given.filter((at) => columns.epoch[at] < this.first) : [];
    const newer = this.length ? given.filter((at) => columns.epoch[at] > this.last) : given;
    if (older.length) this.#join(columns, older, true);
    if (newer.length) this.#join(columns, newer, false);
    this.#keep(older.length > 0);
    return older.length;
  }

  /** Where an epoch is, or the nearest one before it. */
  indexOf(epoch) {
    let low = 0;
    let high = this.length - 1;
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if (this.epoch[middle] <= epoch) low = middle;
      else high = middle - 1;
    }
    return this.length ? low : -1;
  }

  /** Where something that happened at a moment belongs. */
  indexAt(iso) {
    const at = Date.parse(iso);
    if (Number.isNaN(at) || !this.length || at < Date.parse(this.at[0])) return -1;
    let low = 0;
    let high = this.length - 1;
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if (Date.parse(this.at[middle]) <= at) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  #join(columns, which, before) {
    const pick = (values) => which.map((at) => values?.[at] ?? null);
    const put = (mine, given) => (before ? given.concat(mine) : mine.concat(given));
    const had = this.length;
    for (const name of ["epoch", "at", "term", "attempts", "rows_in"]) this[name] = put(this[name], pick(columns[name]));
    const given = new Map((columns.phases ?? []).map((it) => [keyOf(it), it]));
    for (const [key, it] of given) {
      if (!this.series.some((mine) => keyOf(mine) === key)) {
        this.series.push({ name: String(it.name), sink: it.sink ?? null, ms: Array(had).fill(0) });
      }
    }
    this.series.sort((one, other) => rank(one.name) - rank(other.name) || String(one.sink).localeCompare(String(other.sink)));
    for (const it of this.series) it.ms = put(it.ms, which.map((at) => given.get(keyOf(it))?.ms[at] ?? 0));
    const sinks = new Set([...Object.keys(this.rows_out), ...Object.keys(columns.rows_out ?? {})]);
    for (const sink of sinks) this.rows_out[sink] = put(this.rows_out[sink] ?? Array(had).fill(null), pick(columns.rows_out?.[sink]));
    this.total = put(this.total, which.map((at) => [...given.values()].reduce((all, it) => all + (it.ms[at] ?? 0), 0)));
  }

  #keep(grownBefore) {
    const over = this.length - MOST;
    if (over <= 0) return;
    const cut = (values) => (grownBefore ? values.slice(0, MOST) : values.slice(over));
    for (const name of ["epoch", "at", "term", "attempts", "rows_in", "total"]) this[name] = cut(this[name]);
    for (const it of this.series) it.ms = cut(it.ms);
    for (const sink of Object.keys(this.rows_out)) this.rows_out[sink] = cut(this.rows_out[sink]);
    if (grownBefore) this.to_end = false;
    else this.from_start = false;
  }
}

/** The height that shows nearly all bars whole: a few that are far longer are cut, and marked. */
export function typical(values) {
  if (!values.length) return 1;
  const sorted = [...values].sort((one, other) => one - other);
  const most = sorted.at(-1);
  const usual = sorted[Math.floor((sorted.length - 1) * 0.97)] * 1.25;
  return most > usual * 1.6 ? usual : most * 1.06;
}

/** Round steps for an axis from 0. */
export function steps(top, most) {
  const least = top / most;
  const power = 10 ** Math.floor(Math.log10(least || 1));
  const step = [1, 2, 5, 10].map((it) => it * power).find((it) => it >= least) ?? power;
  const found = [];
  for (let at = 0; at <= top; at += step) found.push(at);
  return found;
}

function ascending(columns) {
  const all = columns.epoch.map((_, at) => at);
  return all.sort((one, other) => columns.epoch[one] - columns.epoch[other]);
}

const keyOf = (phase) => `${phase.name}\u0000${phase.sink ?? ""}`;
export const rank = (name) => (PHASES.includes(name) ? PHASES.indexOf(name) : PHASES.length);
