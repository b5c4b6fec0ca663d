// Small things that every view is made of.
import { typical } from "./epochs.js";
import { icon } from "./icons.js";
import { h } from "./view.js";
import { counted, ms, printable, STATES, tone } from "./words.js";

/** A name from a home or a broker: on its own, so that it turns nothing around it. */
export function name(text, most = 80, more = "") {
  const whole = printable(text, 400);
  const cut = printable(text, most);
  return h("bdi", { class: `name ${more}`, title: cut === whole ? null : whole }, cut);
}

/** A state in a shape, a colour and a word. */
export function state(word, reason = "") {
  const said = printable(word, 20);
  return h("span", { class: `state tone-${tone(word)}`, title: printable(reason, 300) || STATES[word]?.means || null }, icon(word), said);
}

/** A label and its figure. */
export function fact(label, value, more = null, kind = "") {
  return h("div", { key: label, class: kind }, h("dt", null, label), h("dd", null, value), more ? h("dd", { class: "more" }, more) : null);
}

/** The sentence that a view begins with. */
export function banner({ tone: of, sign, kicker, title, because, more }) {
  return h("div", { key: "banner", class: `banner tone-${of}` },
    h("p", { class: "kicker" }, kicker),
    h("h1", null, icon(sign), h("span", null, title)),
    because ? h("p", { class: "because" }, because) : null,
    more);
}

export function section(title, note, ...body) {
  return keyedSection(title, title, note, ...body);
}

/** One whose title changes: it stays the same element all the same. */
export function keyedSection(key, title, note, ...body) {
  return h("section", { key, "aria-label": title }, h("h2", null, title), note ? h("p", { class: "note" }, note) : null, body);
}

/** `columns`: [title, class]; `rows`: arrays of cells. On a phone each cell is labelled by its column. */
export function table(label, columns, rows, { key, wide = false, className = "" } = {}) {
  return h("div", { class: "scroll" }, h("table", { class: `${wide ? "" : "stack"} ${className}`, "aria-label": label },
    h("thead", null, h("tr", null, columns.map(([title, kind]) => h("th", { scope: "col", class: kind }, title)))),
    h("tbody", null, rows.map((cells, at) => h("tr", { key: key ? key(at) : undefined },
      cells.map((cell, number) => h(number ? "td" : "th", {
        class: columns[number][1] ?? null, scope: number ? null : "row", "data-label": columns[number][0],
      }, h("div", { class: "value" }, cell))))))));
}

export function button(label, picture, click, more = {}) {
  return h("button", { type: "button", class: "plain", title: label, "aria-label": label, on: { click }, ...more }, icon(picture));
}

/** A phase, and of which sink. */
export function phase({ name: of, sink }) {
  return h("span", { class: "phase" }, printable(of, 20), sink ? [" · ", name(sink, 26)] : null);
}

const WIDE = 124;
const TALL = 26;

/** How long the last epochs took; those that needed more than one try stand out. */
export function spark(recent) {
  if (!recent?.length) return h("span", { class: "none" }, "no epoch yet");
  const totals = recent.map((it) => it[1] ?? 0);
  const top = typical(totals) || 1;
  const step = WIDE / Math.max(60, recent.length);
  const first = WIDE - recent.length * step;
  const paths = { once: "", again: "" };
  recent.forEach(([, total, , attempts], at) => {
    const y = TALL - Math.max(1, Math.min(1, (total ?? 0) / top) * TALL);
    paths[attempts > 1 ? "again" : "once"] += `M${(first + at * step + step / 2).toFixed(1)} ${TALL}V${y.toFixed(1)}`;
  });
  const redone = recent.filter((it) => it[3] > 1).length;
  const label = `The last ${counted(recent.length, "epoch")}: at most ${ms(Math.max(...totals))}${redone ? `, ${redone} with more than one try` : ""}`;
  return h("svg", { class: "spark", viewBox: `0 0 ${WIDE} ${TALL}`, width: WIDE, height: TALL, role: "img", "aria-label": label },
    h("title", null, label), h("path", { class: "once", d: paths.once }), h("path", { class: "again", d: paths.again }));
}
