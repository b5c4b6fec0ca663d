// Every pipeline at a glance: is all well, what flows, and who needs a look.
import { graph, inWords, widthOf } from "./graph.js";
import { icon } from "./icons.js";
import { banner, button, fact, name, section, spark, state } from "./parts.js";
import { h } from "./view.js";
import { ago, count, counted, healthy, known, lag, ms, printable, rank, seconds, short, since, STATES, sum, tone } from "./words.js";

const ZOOMS = [0.4, 0.55, 0.75, 1, 1.3];
const READABLE = 0.75; // smaller than that it is not by itself
const SORTS = {
  attention: ["needs a look first", (one, other) => rank(one.state) - rank(other.state)],
  name: ["name", () => 0],
  rate: ["rows/s", (one, other) => (other.rows_in_per_s ?? 0) - (one.rows_in_per_s ?? 0)],
  latency: ["p95 latency", (one, other) => (other.latency_ms?.p95 ?? 0) - (one.latency_ms?.p95 ?? 0)],
  lag: ["lag", (one, other) => sum(other.lag) - sum(one.lag)],
  commit: ["age of the last commit", (one, other) => (since(other.last_commit_at) ?? 0) - (since(one.last_commit_at) ?? 0)],
};

export class Overview {
  constructor(app) {
    this.app = app;
    this.filter = "";
    this.only = null;
    this.sort = "attention";
    this.zoom = null;
    this.chosen = null;
  }

  get title() { return "Overview"; }

  end() {}

  render() {
    const { overview } = this.app;
    if (!overview) return h("p", { class: "note loading" }, "Asking the server …");
    if (!overview.pipelines.length) return [this.#empty(overview)];
    return [this.#verdict(overview), this.#facts(overview), this.#flows(overview), this.#list(overview)];
  }

  key(event) {
    if (event.key === "/") { document.getElementById("filter")?.focus(); return true; }
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const rows = [...document.querySelectorAll(".pipelines .go")];
      const at = rows.indexOf(document.activeElement);
      if (at < 0 && event.target !== document.body) return false;
      rows[Math.max(0, Math.min(rows.length - 1, at + (event.key === "ArrowDown" ? 1 : -1)))]?.focus();
      return true;
    }
    return false;
  }

  #empty(overview) {
    return [banner({ tone: "soft", sign: "gone", kicker: `onceward ${printable(overview.version, 20)}`, title: "No pipeline here yet",
      because: "The homes that this page was told to look at hold none. It shows the first one as soon as it starts." })];
  }

  #verdict(overview) {
    const { pipelines, kafka } = overview;
    const ill = pipelines.filter((it) => !healthy(it.state));
    const counts = Object.keys(STATES).map((word) => [word, pipelines.filter((it) => it.state === word).length]).filter(([, number]) => number);
    const worst = [...pipelines].sort((one, other) => rank(one.state) - rank(other.state))[0];
    const held = this.app.stuck.length;
    const title = ill.length ? `${count(ill.length)} of ${counted(pipelines.length, "pipeline")} ${ill.length === 1 ? "needs" : "need"} a look`
      : held ? "Committed readers are held back" : pipelines.length === 1 ? "The pipeline is well" : `All ${count(pipelines.length)} pipelines are well`;
    return banner({
      tone: ill.length ? tone(worst.state) : held ? "open" : "good", sign: ill.length ? worst.state : held ? "waiting" : "yes",
      kicker: [`onceward ${printable(overview.version, 20)}`, kafka ? `Kafka ${printable(kafka.bootstrap, 60)}${kafka.reachable ? "" : ", out of reach"}` : ""].filter(Boolean).join(", "),
      title, because: `${counts.map(([word, number]) => `${count(number)} ${word}`).join(", ")}.`,
      more: held ? h("p", { class: "aside" }, h("a", { href: "#/kafka" }, `read_committed consumers wait on ${counted(held, "partition")}, for ${seconds(since(this.app.stuck[0].holder?.began_at))}: who holds them back?`)) : null,
    });
  }

  #facts({ pipelines, kafka }) {
    const running = pipelines.filter((it) => it.state === "running");
    const slow = most(running, (it) => it.latency_ms?.p95);
    const told = pipelines.filter((it) => lag(it.lag) !== "–");
    const behind = most(told, (it) => sum(it.lag));
    const dark = pipelines.filter((it) => !told.includes(it) && (it.sources ?? []).length && it.state !== "running").length;
    const unknown = dark ? (told.length ? `not known of ${counted(dark, "other")}` : "not known now") : "";
    const old = most(running, (it) => since(it.last_commit_at));
    const out = pipelines.reduce((all, it) => all + sum(it.rows_out_per_s), 0);
    const named = (it) => (it ? name(it.name, 28) : null);
    return h("dl", { key: "facts", class: "facts" },
      fact("Running", `${count(running.length)} of ${count(pipelines.length)}`),
      fact("Rows in", `${short(pipelines.reduce((all, it) => all + (it.rows_in_per_s ?? 0), 0))}/s`, `${short(out)}/s out`),
      fact("Slowest, p95", slow ? ms(slow.latency_ms.p95) : "–", named(slow)),
      fact("Longest lag", behind ? short(sum(behind.lag)) : "–", !behind ? unknown || "the sources do not tell" : sum(behind.lag) ? [named(behind), unknown ? `; ${unknown}` : ""] : unknown || "nothing is unread"),
      fact("Oldest last commit", old ? ago(old.last_commit_at) : "–", old ? ["of those that run: ", named(old)] : null),
      fact("Open transactions", kafka ? count(kafka.open_transactions) : "–",
        kafka ? h("a", { href: "#/kafka" }, this.app.stuck.length ? `${counted(this.app.stuck.length, "partition")} held back for long` : "no reader is held back for long") : h("a", { href: "#/kafka" }, "Kafka is not watched")));
  }

  #flows(overview) {
    const room = Math.min(window.innerWidth, 1320) - 82;
    const zoom = this.zoom ?? Math.min(1, Math.max(READABLE, room / widthOf(overview)));
    const to = (by) => () => { this.zoom = (by > 0 ? ZOOMS.find((it) => it > zoom) : ZOOMS.findLast((it) => it < zoom)) ?? zoom; this.app.draw(); };
    return section("What flows where", null,
      h("div", { class: "graph-frame" },
        h("div", { class: "graph-scroll", tabindex: 0, role: "region", "aria-label": "Graph of pipelines, scrolls" },
          this.#graph(overview, zoom)),
        h("div", { class: "graph-tools" }, button("Smaller", "minus", to(-1)), button("Larger", "plus", to(1)))),
      h("details", null, h("summary", null, "The same in words"), this.#said(overview)));
  }

  /** Drawn anew when there is news, not whenever an age has grown. */
  #graph(overview, zoom) {
    const { made } = this;
    if (made?.overview === overview && made.zoom === zoom && made.chosen === this.chosen) return made.tree;
    const choose = (id) => { if (this.chosen !== id) { this.chosen = id; this.app.draw(); } };
    this.made = { overview, zoom, chosen: this.chosen, tree: graph(overview, { zoom, chosen: this.chosen, choose }) };
    return this.made.tree;
  }

  #said(overview) {
    if (this.words?.overview !== overview) this.words = { overview, tree: h("ul", { class: "words" }, inWords(overview)) };
    return this.words.tree;
  }

  #list({ pipelines }) {
    const states = Object.keys(STATES).filter((word) => pipelines.some((it) => it.state === word));
    const wanted = this.filter.toLowerCase();
    const shown = pipelines
      .filter((it) => (!this.only || it.state === this.only) && (!wanted || `${it.name} ${it.home}`.toLowerCase().includes(wanted)))
      .sort((one, other) => SORTS[this.sort][1](one, other) || String(one.name).localeCompare(String(other.name)));
    const chip = (word, label, number) => h("button", { type: "button", class: `chip ${word ? `tone-${tone(word)}` : ""}`, "aria-pressed": String(this.only === word),
      on: { click: () => { this.only = this.only === word ? null : word; this.app.draw(); } } }, word ? icon(word) : null, label, h("b", null, count(number)));
    return section("Pipelines", null,
      h("div", { class: "tools" },
        h("input", { id: "filter", type: "search", placeholder: "Filter by name or home", "aria-label": "Filter pipelines by name or home", value: this.filter,
          on: { input: (event) => { this.filter = event.target.value; this.app.draw(); } } }),
        h("label", { class: "sort" }, "Order by ", h("select", { on: { change: (event) => { this.sort = event.target.value; this.app.draw(); } } },
          Object.entries(SORTS).map(([key, [label]]) => h("option", { key, value: key, selected: key === this.sort }, label)))),
        h("div", { class: "chips", role: "group", "aria-label": "Only one state" }, chip(null, "all", pipelines.length), states.map((word) => chip(word, word, pipelines.filter((it) => it.state === word).length)))),
      shown.length ? h("div", { class: "pipelines", role: "table", "aria-label": "Pipelines" }, HEAD, shown.map(row)) : h("p", { class: "note" }, "No pipeline is like that."));
  }
}

const cell = (kind, label, ...content) => h("span", { class: `cell ${kind}`, role: "cell", "data-label": label }, ...content);
const HEADS = [["state-cell", "state"], ["who", "pipeline"], ["epochs", "last 60 epochs"], ["number", "rows/s in"], ["number", "out"], ["number", "p50"], ["number", "p95"], ["number", "lag"], ["number", "last commit"]];
const HEAD = h("div", { class: "row head", role: "row", key: HEADS }, HEADS.map(([kind, label]) => h("span", { class: `cell ${kind}`, role: "columnheader" }, label)));

function row(it) {
  const behind = sum(it.lag);
  const about = it.state !== "running" && (it.reason || (it.state === "waiting" && it.waits_for) || it.last_error);
  return h("div", { key: it.id, class: `row tone-${tone(it.state)}`, role: "row" },
    cell("state-cell", "state", state(it.state, it.reason)),
    cell("who", "pipeline", h("a", { class: "go", href: `#/p/${encodeURIComponent(it.id)}` }, name(it.name, 60)),
      h("span", { class: "about" }, about ? h("bdi", null, printable(about, 110)) : [`epoch ${count(it.epoch)}`, known(it.in_doubt) && it.state !== "running" ? `, epoch ${count(it.in_doubt)} in doubt` : "", ` · ${(it.sinks ?? []).map((sink) => printable(sink.kind, 16)).join(", ")}`])),
    cell("epochs", "last 60 epochs", spark(it.recent)),
    cell("number", "rows/s in", short(it.rows_in_per_s)),
    cell("number", "out", short(sum(it.rows_out_per_s))),
    cell("number", "p50", ms(it.latency_ms?.p50)),
    cell("number", "p95", ms(it.latency_ms?.p95)),
    cell(`number ${behind >= 10_000 ? "much" : ""}`, "lag", lag(it.lag)),
    cell("number", "last commit", ago(it.last_commit_at)));
}

function most(list, value) {
  const told = list.filter((it) => known(value(it)));
  return told.length ? told.reduce((best, it) => (value(it) > value(best) ? it : best)) : null;
}
