// The chain of pipelines, joined by what they read and write: what flows where, and where it piles up.
import { layout } from "./graph_layout.js";
import { icon } from "./icons.js";
import { h } from "./view.js";
import { count, known, ms, printable, short, sum } from "./words.js";

const PIPELINE = { w: 172, h: 54 };
const PLACE = { w: 128, h: 32 };
const MARGIN = 16;
const LETTERS = { pipeline: 15, other: 12 }; // of a name that fit into its box
const KINDS = { topic: "topic", table: "table", files: "files", lake: "lake table", pipeline: "pipeline" };

const ALONG = [0.34, 0.42, 0.5, 0.58, 0.66, 0.28, 0.72]; // from the end where edges do not meet
const LABEL = { w: 54, h: 33 };

let last = { key: "", places: null };

/** How wide it is at life size. */
export function widthOf({ graph: drawn }) {
  return drawn?.nodes.length ? placed(drawn.nodes, drawn.edges).width + 2 * MARGIN : 0;
}

/** `zoom` 1 is life size. */
export function graph(overview, { zoom, chosen, choose }) {
  const { nodes, edges } = overview.graph ?? { nodes: [], edges: [] };
  if (!nodes.length) return h("p", { class: "note" }, "There is no pipeline yet, so nothing flows.");
  const places = placed(nodes, edges);
  const pipelines = new Map(overview.pipelines.map((it) => [it.id, it]));
  const near = chosen ? neighbourhood(chosen, edges) : null;
  const width = places.width + 2 * MARGIN;
  const height = places.height + 2 * MARGIN;
  const flows = places.edges.map((route) => flow(route, edges[route.edge.number], near));
  return h("svg", {
    class: "graph", width: Math.round(width * zoom), height: Math.round(height * zoom), role: "group",
    viewBox: `${-MARGIN} ${-MARGIN} ${width} ${height}`, "aria-label": "Pipelines and what they read and write; the same in words is below",
  },
  h("defs", null, h("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto", markerUnits: "userSpaceOnUse" },
    h("path", { d: "M0 .6L7.4 4 0 7.4z" }))),
  h("g", null, flows.map((it) => it.line)),
  h("g", null, nodes.map((it) => box(it, places.nodes.get(it.id), pipelines.get(it.pipeline), near, choose))),
  h("g", null, flows.map((it) => it.label)));
}

/** The same for those who cannot see it. */
export function inWords(overview) {
  const { nodes, edges } = overview.graph ?? { nodes: [], edges: [] };
  const names = new Map(nodes.map((it) => [it.id, it]));
  const said = (id) => (names.has(id) ? `${KINDS[names.get(id).kind] ?? ""} ${printable(names.get(id).label, 80)}` : "something unknown");
  return edges.map((it, at) => h("li", { key: at }, h("bdi", null, said(it.from)), " to ", h("bdi", null, said(it.to)),
    known(it.rows_per_s) ? `: ${short(it.rows_per_s)} rows/s` : "", it.lag ? `, ${count(it.lag)} not read yet` : ""));
}

function placed(nodes, edges) {
  const key = JSON.stringify([nodes.map((it) => [it.id, it.kind]), edges.map((it) => [it.from, it.to])]);
  if (key !== last.key) {
    const sized = nodes.map((it) => ({ id: it.id, ...(it.kind === "pipeline" ? PIPELINE : PLACE) }));
    last = { key, places: layout(sized, edges.map((it, number) => ({ from: it.from, to: it.to, number }))) };
    label(last.places, new Set(nodes.filter((it) => it.kind === "pipeline").map((it) => it.id)));
  }
  return last.places;
}

function neighbourhood(id, edges) {
  const found = new Set([id]);
  for (const [mine, other] of [["to", "from"], ["from", "to"]]) {
    const open = [id];
    const seen = new Set(open);
    while (open.length) {
      const at = open.pop();
      for (const edge of edges) {
        if (edge[mine] === at && !seen.has(edge[other])) { seen.add(edge[other]); open.push(edge[other]); found.add(edge[other]); }
      }
    }
  }
  return found;
}

function flow(route, edge, near) {
  const rate = edge.rows_per_s;
  const dim = near && !(near.has(edge.from) && near.has(edge.to));
  const wide = rate > 0 ? Math.min(5, 1.2 + Math.log10(1 + rate) * 0.6) : 1.2;
  const key = `${edge.from}\u0000${edge.to}\u0000${route.edge.number}`;
  const [x, y] = route.label;
  const d = route.back ? around(route) : curve(route.points);
  const line = h("g", { key, class: `edge ${rate > 0 ? "moving" : "still"} ${dim ? "dim" : ""}` },
    h("path", { class: "way", d, style: { "stroke-width": `${wide}px` }, "marker-end": "url(#arrow)" }),
    rate > 0 ? h("path", { class: "drops", d, style: { "stroke-width": `${Math.max(1.4, wide * 0.6)}px` } }) : null);
  const label = h("g", { key, class: `flow-label ${dim ? "dim" : ""}` },
    known(rate) ? h("text", { x, y: y - 6 }, rate > 0 ? `${short(rate)}/s` : "still") : null,
    edge.lag > 0 ? h("text", { class: edge.lag >= 10_000 ? "lag much" : "lag", x, y: y + 14 }, `lag ${short(edge.lag)}`) : null);
  return { line, label };
}

/** Where on its edge each label goes: the first of some places where it covers no other one. */
function label(places, pipelines) {
  for (const route of places.edges) {
    route.choices = route.back ? [[(route.points[0][0] + route.points.at(-1)[0]) / 2, route.low]] : ALONG.map((part) => pointAt(route.points, pipelines.has(route.edge.to) ? part : 1 - part));
    [route.label] = route.choices;
  }
  for (let round = 0; round < 3; round++) {
    for (const route of places.edges) {
      const covered = ([x, y]) => places.edges.reduce((all, it) => (it === route ? all : all + over(x - it.label[0], LABEL.w) * over(y - it.label[1], LABEL.h)), 0);
      const found = route.choices.map((it) => [covered(it), it]);
      [, route.label] = found.reduce((best, it) => (it[0] < best[0] ? it : best));
    }
  }
}

const over = (apart, size) => Math.max(0, size - Math.abs(apart));

/** On the first curve of an edge. */
function pointAt([[x1, y1], [x2, y2]], part) { // an edge that passes other layers has its label before the first
  const rest = 1 - part;
  const bend = (3 * part * rest * rest + 3 * part * part * rest) / 2; // both handles are half way across
  const weight = 3 * part * part * rest + part ** 3;
  return [x1 * rest ** 3 + (x1 + x2) * bend + x2 * part ** 3, y1 * (1 - weight) + y2 * weight];
}

function curve(points) {
  let d = `M${points[0].join(" ")}`;
  for (let at = 1; at < points.length; at++) {
    const [x1, y1] = points[at - 1];
    const [x2, y2] = points[at];
    const bend = (x2 - x1) / 2;
    d += at % 2 ? `C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}` : `L${x2} ${y2}`;
  }
  return d;
}

/** An edge that leads back: down, below everything, and up again. */
function around({ points, low }) {
  const [x1, y1] = points[0];
  const [x2, y2] = points.at(-1);
  const right = x1 + 26;
  const left = x2 - 26;
  return `M${x1} ${y1}C${right} ${y1} ${right} ${y1} ${right} ${y1 + 14}L${right} ${low - 14}C${right} ${low} ${right} ${low} ${right - 14} ${low}`
    + `L${left + 14} ${low}C${left} ${low} ${left} ${low} ${left} ${low - 14}L${left} ${y2 + 14}C${left} ${y2} ${left} ${y2} ${x2} ${y2}`;
}

function box(node, at, pipeline, near, choose) {
  const dim = near && !near.has(node.id) ? "dim" : "";
  const chosen = () => choose(node.id);
  const listeners = { pointerenter: chosen, pointerleave: () => choose(null), focus: chosen, blur: () => choose(null) };
  return node.kind === "pipeline" ? pipelineBox(node, at, pipeline, dim, listeners) : placeBox(node, at, dim, listeners);
}

function pipelineBox(node, { x, y, w, h: tall }, pipeline, dim, on) {
  const state = pipeline?.state ?? "gone";
  const name = printable(node.label, 200);
  const behind = sum(pipeline?.lag);
  const facts = [pipeline && known(pipeline.rows_in_per_s) ? `${short(pipeline.rows_in_per_s)}/s in` : null,
    known(pipeline?.latency_ms?.p95) ? `p95 ${ms(pipeline.latency_ms.p95)}` : null].filter(Boolean).join(" · ");
  return h("a", {
    key: node.id, class: `node pipeline state-${slug(state)} ${dim}`, href: `#/p/${encodeURIComponent(node.pipeline ?? node.id)}`, on,
    "aria-label": `${name}: ${state}${behind ? `, ${count(behind)} not read yet` : ""}`,
  },
  h("title", null, `${name}: ${state}`),
  h("rect", { class: "shape", x, y, width: w, height: tall, rx: 7 }),
  h("rect", { class: "tab", x, y: y + 7, width: 4, height: tall - 14 }),
  h("svg", { x: x + 14, y: y + 10, width: 15, height: 15, viewBox: "0 0 16 16", class: "icon" }, icon(state).children),
  h("text", { class: "name", x: x + 35, y: y + 22 }, printable(node.label, LETTERS.pipeline)),
  h("text", { class: "what", x: x + 14, y: y + 42 }, state === "running" ? facts || "running" : state));
}

/** Of a path its end says most. */
function shortened({ kind, label: text }) {
  return kind === "topic" ? text : String(text).split("/").filter(Boolean).at(-1) ?? text;
}

function placeBox(node, { x, y, w, h: tall }, dim, on) {
  const name = printable(node.label, 200);
  return h("g", { key: node.id, class: `node place ${dim}`, on },
    h("title", null, `${KINDS[node.kind] ?? node.kind}: ${name}`),
    h("rect", { class: "shape", x, y, width: w, height: tall, rx: node.kind === "topic" ? tall / 2 : 4 }),
    h("svg", { x: x + 11, y: y + 9, width: 14, height: 14, viewBox: "0 0 16 16", class: "icon" }, icon(node.kind).children),
    h("text", { class: "name", x: x + 31, y: y + 21 }, printable(shortened(node), LETTERS.other)));
}

export const slug = (word) => String(word).replace(/[^a-z]+/g, "-");
