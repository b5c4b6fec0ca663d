// How numbers, times and states are said.

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Cs}\p{Zl}\p{Zp}]/gu; // control, bidirectional and invisible characters

/** On one line, without what would turn, hide or end a line, and not longer than that. What is cut is marked. */
export function printable(text, most = 200) {
  const clean = String(text ?? "").replace(/\s+/g, " ").trim().replace(UNPRINTABLE, "\u{FFFD}");
  const letters = [...clean];
  return letters.length <= most ? clean : letters.slice(0, most - 1).join("") + "…";
}

export const known = (value) => value !== null && value !== undefined && !Number.isNaN(value);

export function count(value) {
  return known(value) ? whole.format(value) : "–";
}

/** Three digits and a letter: for charts and narrow cells. */
export function short(value) {
  if (!known(value)) return "–";
  const size = Math.abs(value);
  for (const [unit, letter] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (size >= unit) return `${digits(value / unit)}${letter}`;
  }
  return size >= 10 || Number.isInteger(value) ? whole.format(value) : value.toFixed(1);
}

function digits(value) {
  const size = Math.abs(value);
  return size >= 100 ? value.toFixed(0) : value.toFixed(1).replace(/\.0$/, "");
}

export function ms(value) {
  if (!known(value)) return "–";
  if (value < 10) return `${value.toFixed(1).replace(/\.0$/, "")} ms`;
  if (value < 1000) return `${value.toFixed(0)} ms`;
  return seconds(value / 1000);
}

/** A length of time, in its two largest units. */
export function seconds(value) {
  if (!known(value)) return "–";
  if (value < 1) return `${Math.max(0, value).toFixed(1)} s`;
  if (value < 10) return `${value.toFixed(1).replace(/\.0$/, "")} s`;
  const s = Math.floor(value);
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

/** How long ago, from a moment of the server's. */
export function ago(iso) {
  if (!iso) return "never";
  const passed = since(iso);
  return passed < 1 ? "now" : seconds(passed);
}

export function bytes(value) {
  if (!known(value)) return "–";
  for (const [unit, name] of [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]]) {
    if (value >= unit) return `${digits(value / unit)} ${name}`;
  }
  return `${whole.format(value)} B`;
}

const two = (number) => String(number).padStart(2, "0");

/** The time of day, where the reader is. */
export function clock(iso) {
  const at = new Date(iso);
  if (!iso || Number.isNaN(at.getTime())) return "–";
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

/** With the day, unless it is today. */
export function moment(iso) {
  const at = new Date(iso);
  if (!iso || Number.isNaN(at.getTime())) return "–";
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  return at.toDateString() === new Date().toDateString() ? clock(iso) : `${day} ${clock(iso)}`;
}

let ahead = 0; // by how much the browser's clock is ahead of the server's

/** The server's time, as it has just said it: all ages are by its clock. */
export function itIs(iso) {
  const at = Date.parse(iso);
  if (!Number.isNaN(at)) ahead = Date.now() - at;
}

/** Seconds since then. */
export function since(iso) {
  const at = iso ? Date.parse(iso) : NaN;
  return Number.isNaN(at) ? null : Math.max(0, (Date.now() - ahead - at) / 1000);
}

export function counted(number, thing, things = `${thing}s`) {
  return `${count(number)} ${number === 1 ? thing : things}`;
}

/** Of all topics together; nothing is known of sources that do not tell. */
export const lag = (topics) => (Object.keys(topics ?? {}).length ? short(sum(topics)) : "–");

export function sum(values) {
  return Object.values(values ?? {}).reduce((all, it) => all + (it ?? 0), 0);
}

// In the order in which they want a look. The sign differs for each, so that colour is never all that tells them apart.
export const STATES = {
  damaged: { tone: "bad", means: "Its home holds something that nobody wrote there. Look at the reason before you start it." },
  failed: { tone: "bad", means: "It stopped with an error, and nothing runs." },
  "in doubt": { tone: "open", means: "An epoch may be decided and is not committed everywhere. The next start resolves it." },
  killed: { tone: "bad", means: "Its process ended without saying so. Start it again: it goes on where it was." },
  fenced: { tone: "bad", means: "A newer driver took over: this one can add nothing any more." },
  gone: { tone: "bad", means: "Its home is not there any more." },
  recovering: { tone: "busy", means: "It has just taken over, and finds out what its predecessor decided." },
  waiting: { tone: "open", means: "Something it needs is out of reach; it goes on by itself." },
  paused: { tone: "open", means: "Its driver stands still: the lease is not renewed." },
  stopped: { tone: "soft", means: "Nothing runs. It goes on where it was when it is started." },
  running: { tone: "good", means: "It runs, and everything it committed is visible." },
};
const ORDER = Object.keys(STATES);
export const tone = (state) => STATES[state]?.tone ?? "soft";
export const rank = (state) => (ORDER.includes(state) ? ORDER.indexOf(state) : ORDER.length);
export const healthy = (state) => ["running", "recovering", "stopped"].includes(state);
