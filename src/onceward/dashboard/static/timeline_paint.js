// Draws the timeline on its canvas: bars stacked by phase and sink, rows below, happenings above.
import { steps, typical } from "./epochs.js";
import { filled, pathOf } from "./icons.js";
import { clock, count, ms, short } from "./words.js";

export const EDGE = 16; // right of the newest bar: room for what happened after it
export const LANE = 26; // of the marks, on top
export const ROWS = 34; // of the rows that were read, below the bars
const GAP = 10;
const AXIS = 36;
export const MARKS = { // who wins where several fall on one place; the tone of each
  killed: "kill", failed: "bad", aborted: "open", takeover: "busy", paused: "open", reset: "soft", restored: "soft", skipped: "soft",
};
const FONT = '12px system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif';
const shapes = new Map();

/** `it`: {epochs, marks, right, bar, width, height, left, selected, hovered, colours, tones, whole, lit}; `width` without the edge. */
export function paint(ctx, it) {
  const scene = measured(it);
  ctx.clearRect(0, 0, it.width + EDGE, it.height);
  ctx.font = FONT;
  terms(ctx, it, scene);
  grid(ctx, it, scene);
  pointed(ctx, it, scene);
  ctx.save();
  ctx.beginPath();
  ctx.rect(it.left, 0, it.width - it.left + EDGE, it.height);
  ctx.clip();
  bars(ctx, it, scene);
  rows(ctx, it, scene);
  chosen(ctx, it, scene);
  ctx.restore();
  axis(ctx, it, scene);
  return { ...scene, marks: marks(ctx, it, scene) };
}

export const xOf = (it, index) => it.width - (it.right - index) * it.bar;
export const indexOf = (it, x) => Math.floor(it.right - (it.width - x) / it.bar);

function measured(it) {
  const from = Math.max(0, Math.floor(it.right - (it.width - it.left) / it.bar));
  const to = Math.min(it.epochs.length, Math.ceil(it.right));
  const seen = it.epochs.total.slice(from, to);
  const top = Math.max(1, it.whole ? Math.max(...seen, 1) * 1.06 : typical(seen));
  const bottom = it.height - AXIS - ROWS - GAP;
  return { from, to, top, bottom, ceiling: LANE + 8, tall: bottom - LANE - 8, columns: columns(it, from, to) };
}

/** Bars on whole pixels: crisp, and drawn far quicker. Of several epochs on one pixel the longest stands for all. */
function columns(it, from, to) {
  const found = [];
  for (let at = from; at < to; at++) {
    const x = Math.round(xOf(it, at));
    const wide = Math.max(1, Math.round(xOf(it, at + 1)) - x - (it.bar >= 3 ? 1 : 0));
    const last = found.at(-1);
    if (last?.x !== x) found.push({ at, x, wide });
    else if (it.epochs.total[at] > it.epochs.total[last.at]) last.at = at;
  }
  return found;
}

function terms(ctx, it, { from, to, bottom }) {
  let began = from;
  let labelled = -Infinity;
  ctx.textAlign = "left";
  for (let at = from; at <= to; at++) {
    if (at < to && it.epochs.term[at] === it.epochs.term[began]) continue;
    const x1 = Math.max(it.left, xOf(it, began));
    const x2 = Math.max(it.left, xOf(it, at));
    if (it.epochs.term[began] % 2) {
      ctx.fillStyle = it.tones.band;
      ctx.fillRect(x1, LANE, x2 - x1, bottom - LANE);
    }
    if (began > from) line(ctx, it.tones.line, x1, LANE, x1, bottom);
    if (x2 - x1 > 56 && x1 > labelled) {
      ctx.fillStyle = it.tones.soft;
      ctx.fillText(`term ${it.epochs.term[began] ?? "?"}`, x1 + 5, LANE + 14);
      labelled = x1 + 50;
    }
    began = at;
  }
}

function grid(ctx, it, { top, bottom, tall }) {
  ctx.textAlign = "right";
  for (const value of steps(top, tall > 160 ? 5 : 3)) {
    const y = Math.round(bottom - (value / top) * tall) + 0.5;
    line(ctx, it.tones.line, it.left, y, it.width, y);
    ctx.fillStyle = it.tones.soft;
    ctx.fillText(value >= 1000 ? `${short(value / 1000)} s` : `${value} ms`, it.left - 8, y + 4);
  }
}

function pointed(ctx, it, { bottom }) {
  if (it.hovered === null || it.hovered < 0) return;
  ctx.fillStyle = it.tones.line;
  ctx.globalAlpha = 0.6;
  ctx.fillRect(xOf(it, it.hovered) - 1, LANE, it.bar + 1, bottom + GAP + ROWS - LANE);
  ctx.globalAlpha = 1;
}

function bars(ctx, it, { columns: drawn, top, bottom, tall, ceiling }) {
  const heights = new Float64Array(drawn.length);
  const scale = tall / top;
  it.epochs.series.forEach((series, number) => {
    ctx.fillStyle = it.colours[number];
    ctx.globalAlpha = it.lit === null || it.lit === number ? 1 : 0.22;
    for (let place = 0; place < drawn.length; place++) {
      const { at, x, wide } = drawn[place];
      if (!series.ms[at]) continue;
      const low = heights[place];
      heights[place] = low + series.ms[at] * scale;
      const y = Math.max(ceiling, Math.round(bottom - heights[place]));
      const until = Math.round(bottom - low);
      if (until > y) ctx.fillRect(x, y, wide, until - y);
    }
  });
  ctx.globalAlpha = 1;
  drawn.forEach(({ at, x, wide }, place) => { if (heights[place] > tall + 1) cut(ctx, it, at, x, ceiling, wide); });
}

/** A bar that is longer than the picture: torn, with its length beside it. */
function cut(ctx, it, at, x, ceiling, wide) {
  ctx.fillStyle = it.tones.paper;
  ctx.fillRect(x - 0.5, ceiling + 7, wide + 1, 3);
  ctx.fillStyle = it.tones.ink;
  ctx.textAlign = x > it.width - 70 ? "right" : "left";
  ctx.fillText(ms(it.epochs.total[at]), x > it.width - 70 ? x - 5 : x + wide + 5, ceiling + 11);
}

function rows(ctx, it, { columns: drawn, from, to, bottom }) {
  const floor = bottom + GAP + ROWS;
  let most = 1;
  for (let at = from; at < to; at++) most = Math.max(most, it.epochs.rows_in[at] ?? 0);
  ctx.fillStyle = it.tones.rows;
  for (const { at, x, wide } of drawn) {
    const tall = Math.round(((it.epochs.rows_in[at] ?? 0) / most) * ROWS);
    if (tall > 0) ctx.fillRect(x, floor - tall, wide, tall);
  }
  line(ctx, it.tones.line, it.left, floor + 0.5, it.width, floor + 0.5);
}

function chosen(ctx, it, { bottom }) {
  const at = it.selected;
  if (at === null || at < 0) return;
  const x = xOf(it, at);
  ctx.strokeStyle = it.tones.ink;
  ctx.lineWidth = 1.5;
  const wide = Math.max(it.bar, 5);
  ctx.strokeRect(x + it.bar / 2 - wide / 2 - 1.5, LANE + 2, wide + 2, bottom + GAP + ROWS - LANE - 1);
}

function axis(ctx, it, { from, to, bottom }) {
  const floor = bottom + GAP + ROWS;
  ctx.textAlign = "right";
  ctx.fillStyle = it.tones.soft;
  ctx.fillText("rows", it.left - 8, floor - ROWS / 2 + 4);
  const every = Math.max(1, Math.ceil(96 / it.bar));
  ctx.textAlign = "center";
  for (let at = Math.ceil(from / every) * every; at < to; at += every) {
    const x = xOf(it, at) + it.bar / 2;
    if (x < it.left + 4 || x > it.width - 12) continue;
    line(ctx, it.tones.soft, x, floor, x, floor + 4);
    ctx.fillStyle = it.tones.ink;
    ctx.fillText(count(it.epochs.epoch[at]), x, floor + 17);
    ctx.fillStyle = it.tones.soft;
    ctx.fillText(clock(it.epochs.at[at]), x, floor + 32);
  }
}

/** What happened, above the bars; several on one place are one mark with their number. */
function marks(ctx, it, { from, to, bottom }) {
  const seen = it.marks.filter((mark) => mark.index >= from - 1 && mark.index < to).map((mark) => ({ ...mark, x: placeOf(it, mark) }));
  const order = Object.keys(MARKS);
  return grouped(seen).map((found) => {
    found.sort((one, other) => order.indexOf(one.kind) - order.indexOf(other.kind));
    const { kind, x } = found[0];
    const tone = it.tones[MARKS[kind] ?? "soft"];
    ctx.setLineDash([2, 3]);
    line(ctx, tone, x, 20, x, bottom);
    ctx.setLineDash([]);
    sign(ctx, kind, tone, x, it.tones.paper);
    if (found.length > 1) {
      ctx.fillStyle = it.tones.soft;
      ctx.textAlign = "left";
      ctx.fillText(String(found.length), x + 9, 14);
    }
    return { x, found };
  });
}

/** In an epoch, or between two: a driver dies after the last epoch it committed, and its successor begins there. */
function placeOf(it, { index, kind, between }) {
  const x = between ? xOf(it, index + 1) : xOf(it, index) + it.bar / 2;
  return Math.max(it.left + 8, x + ({ killed: -8, takeover: 8 }[kind] ?? 0));
}

function grouped(all) {
  const groups = [];
  for (const mark of [...all].sort((one, other) => one.x - other.x)) {
    if (groups.length && mark.x - groups.at(-1)[0].x < 15) groups.at(-1).push(mark);
    else groups.push([mark]);
  }
  return groups;
}

function sign(ctx, kind, tone, x, paper) {
  if (!shapes.has(kind)) shapes.set(kind, new Path2D(pathOf(kind)));
  ctx.save();
  ctx.translate(x - 7.5, 2);
  ctx.scale(15 / 16, 15 / 16);
  ctx.strokeStyle = paper;
  ctx.lineWidth = 5;
  ctx.lineCap = ctx.lineJoin = "round";
  ctx.stroke(shapes.get(kind));
  ctx.strokeStyle = ctx.fillStyle = tone;
  ctx.lineWidth = kind === "killed" ? 2.4 : 1.8;
  if (filled(kind)) ctx.fill(shapes.get(kind));
  else ctx.stroke(shapes.get(kind));
  ctx.restore();
}

function line(ctx, tone, x1, y1, x2, y2) {
  ctx.strokeStyle = tone;
  ctx.lineWidth = 1;
  ctx.beginPath();
  ctx.moveTo(x1, y1);
  ctx.lineTo(x2, y2);
  ctx.stroke();
}
