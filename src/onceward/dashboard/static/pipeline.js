// One pipeline: the epoch under way, its epochs over time, what happened to it, and what can be gone back to.
import { get, pipelinePath, Poll, Refused } from "./api.js";
import { EpochPanel } from "./epoch.js";
import { icon } from "./icons.js";
import { banner, button, fact, name, phase, section, table } from "./parts.js";
import { colours } from "./palette.js";
import { Timeline } from "./timeline.js";
import { inDoubt, inHand } from "./two_phases.js";
import { h, held } from "./view.js";
import { ago, bytes, count, counted, known, lag, moment, ms, printable, seconds, short, since, STATES, sum, tone } from "./words.js";

const EVERY_MS = 700;
const TOLD = 12; // happenings that are listed at first

export class PipelineView {
  constructor(app, id) {
    this.app = app;
    this.id = id;
    this.detail = null;
    this.error = null;
    this.told = TOLD;
    const changed = () => app.draw();
    this.timeline = new Timeline(id, {
      changed,
      select: (epoch) => { if (this.panel.epoch !== null && epoch !== null) app.go(`#/p/${encodeURIComponent(id)}/e/${epoch}`, true); },
      open: (epoch) => app.go(`#/p/${encodeURIComponent(id)}/e/${epoch}`, this.panel.epoch !== null),
    });
    this.panel = new EpochPanel(app, id, { step: (by) => this.timeline.step(by), close: () => this.#close() });
    this.poll = new Poll(() => this.#ask(), EVERY_MS);
  }

  get title() { return printable(this.#known()?.name ?? this.id, 60); }

  end() {
    this.poll.end();
    this.timeline.end();
  }

  /** The address names an epoch, or none. */
  at(epoch) {
    if (epoch === null) { this.panel.epoch = null; this.panel.found = null; return; }
    const opened = this.panel.epoch === null;
    this.panel.show(epoch);
    if (this.timeline.selected !== epoch) {
      if (this.timeline.epochs.length) this.timeline.jump(epoch);
      else this.wanted = epoch;
    }
    if (opened) requestAnimationFrame(() => requestAnimationFrame(() => { if (document.activeElement !== this.timeline.element) document.getElementById("epoch")?.focus({ preventScroll: true }); }));
  }

  key(event) {
    if (event.key === "Escape" && this.panel.epoch !== null) { this.#close(); return true; }
    const acts = { ArrowLeft: () => this.timeline.step(-1), ArrowRight: () => this.timeline.step(1), "+": () => this.timeline.zoom(1), "-": () => this.timeline.zoom(-1),
      Enter: () => this.timeline.selected !== null && this.panel.epoch === null && this.timeline.open(this.timeline.selected) };
    if (!Object.hasOwn(acts, event.key)) return false;
    if (event.key === "Enter" && event.target.closest("a, button, summary, input, select")) return false;
    acts[event.key]();
    return true;
  }

  #close() {
    this.app.go(`#/p/${encodeURIComponent(this.id)}`, true);
    this.timeline.element.focus({ preventScroll: true });
  }

  async #ask() {
    try {
      const detail = await get(pipelinePath(this.id));
      this.detail = detail;
      this.error = null;
      await this.timeline.update(this.detail);
      if (known(this.wanted)) { const epoch = this.wanted; this.wanted = null; await this.timeline.jump(epoch); }
      this.panel.refresh();
    } catch (error) {
      this.error = error;
    }
    this.app.draw();
  }

  #known() {
    const seen = this.app.overview?.pipelines.find((it) => it.id === this.id);
    return this.detail ? { ...this.detail, ...(seen ?? {}) } : seen;
  }

  render() {
    const it = this.#known();
    if (!it) return [this.#missing()];
    return [
      this.#head(it),
      this.error instanceof Refused ? h("p", { key: "problem", class: "problem" }, printable(this.error.message, 400), this.detail ? " What is shown below was seen before that." : "") : null,
      this.#facts(it),
      inDoubt(it),
      inHand(it),
      this.#epochs(it),
      this.#happened(it),
      this.#starts(it),
      this.#saved(it),
      this.panel.render(),
    ];
  }

  #missing() {
    if (!this.error) return h("p", { class: "note loading" }, "Asking the server …");
    return banner({ tone: "bad", sign: "gone", kicker: "Pipeline", title: "There is no such pipeline here", because: printable(this.error.message, 300),
      more: h("p", { class: "aside" }, h("a", { href: "#/" }, "All pipelines")) });
  }

  #head(it) {
    const means = printable(it.reason, 400) || STATES[it.state]?.means;
    const lineage = it.lineage ? `, lineage ${printable(it.lineage, 12)}` : "";
    return [
      h("p", { key: "back", class: "crumb" }, h("a", { href: "#/" }, icon("left"), "All pipelines")),
      banner({
        tone: tone(it.state), sign: it.state, title: [name(it.name, 60), h("span", { class: "is" }, printable(it.state, 20))],
        kicker: [printable(it.guarantee, 30), h("bdi", null, printable(it.home, 160)), `term ${count(it.term)}${lineage}`].flatMap((part, at) => (at ? [", ", part] : [part])),
        because: means, more: it.last_error && it.state !== "running" && printable(it.last_error) !== printable(it.reason) ? h("p", { class: "aside" }, "Last error: ", printable(it.last_error, 400)) : null,
      }),
    ];
  }

  #facts(it) {
    const list = (values, say) => Object.entries(values ?? {}).slice(0, 4).map(([key, value], at) => [at ? ", " : "", name(key, 26), " ", say(value)]);
    const sized = known(it.state_rows) || known(it.state_bytes);
    return h("dl", { key: "facts", class: "facts" },
      fact("Last commit", ago(it.last_commit_at).replace(/\d.*/, "$& ago"), `epoch ${count(it.epochs?.last ?? it.epoch)}`),
      fact("Rows in", `${short(it.rows_in_per_s)}/s`, (it.sources ?? []).length ? ["from ", it.sources.slice(0, 3).map((topic, at) => [at ? ", " : "", name(topic, 26)])] : null),
      fact("Rows out", `${short(sum(it.rows_out_per_s))}/s`, list(it.rows_out_per_s, (value) => `${short(value)}/s`)),
      fact("Latency, p95", ms(it.latency_ms?.p95), `p50 ${ms(it.latency_ms?.p50)}`),
      fact("Lag", lag(it.lag), Object.keys(it.lag ?? {}).length || it.state === "running" ? list(it.lag, count) : this.app.overview?.kafka ? "not known now" : "not known now; --kafka measures it"),
      fact("State", sized ? `${short(it.state_rows)} rows` : "–", known(it.state_bytes) ? bytes(it.state_bytes) : "none, or not told yet"));
  }

  #epochs(it) {
    const line = this.timeline;
    const range = it.epochs;
    const inks = colours(line.epochs.series);
    const counted_ = range?.count ? `${counted(range.count, "epoch")} on record, from ${count(range.first)} to ${count(range.last)}. ` : "";
    return section("Epochs", `${counted_}Each bar is one, stacked by phase and sink: drag or use the arrow keys, click for what is in it.`,
      h("div", { class: "tools" },
        h("div", { class: "tool-group" }, button("Older", "left", () => line.page(-1)), button("Newer", "right", () => line.page(1)), button("Newest", "newest", () => line.newest().then(() => this.app.draw()), { "aria-pressed": String(line.follow) })),
        h("div", { class: "tool-group" }, button("More epochs", "minus", () => line.zoom(-1)), button("Wider bars", "plus", () => line.zoom(1))),
        h("label", { class: "check" }, h("input", { type: "checkbox", on: { change: (event) => { line.whole = event.target.checked; line.draw(); } } }), "whole height of the longest"),
        h("form", { class: "jump", on: { submit: (event) => { event.preventDefault(); const wanted = Number(event.target.elements.epoch.value); if (Number.isSafeInteger(wanted) && wanted >= 0) line.jump(wanted).then(() => line.open(line.selected)); } } },
          h("input", { name: "epoch", inputmode: "numeric", placeholder: "epoch", "aria-label": "Go to epoch", size: 8 }), h("button", { type: "submit" }, "Go"))),
      line.error ? h("p", { class: "problem" }, printable(line.error, 300)) : null,
      held(line.element),
      h("ul", { class: "legend" }, line.epochs.series.map((series, at) => h("li", { key: `${series.name}\u0000${series.sink}`, on: {
        pointerenter: () => { line.lit = at; line.draw(); }, pointerleave: () => { line.lit = null; line.draw(); } } },
      h("i", { class: "swatch", style: { background: inks[at] } }), phase(series)))),
      this.#legendOfMarks());
  }

  #legendOfMarks() {
    const kinds = [...new Set((this.detail?.marks ?? []).map((mark) => mark.kind))];
    return kinds.length ? h("ul", { class: "legend" }, kinds.map((kind) => h("li", { key: kind }, h("span", { class: `mark-${markTone(kind)}` }, icon(kind)), printable(kind, 20)))) : null;
  }

  #happened(it) {
    const marks = [...(it.marks ?? [])].reverse();
    if (!marks.length) return section("What happened to it", "Nothing: no kill, no take-over, no aborted try is on record.");
    const at = (mark) => (mark.epoch >= 0 && known(mark.epoch) ? h("a", { href: `#/p/${encodeURIComponent(this.id)}/e/${mark.epoch}` }, count(mark.epoch)) : "–");
    return section("What happened to it", null,
      table("What happened", [["what"], ["when"], ["epoch", "number"], ["in words", "words"]], marks.slice(0, this.told).map((mark) => [
        h("span", { class: `mark-${markTone(mark.kind)} happened` }, icon(mark.kind), printable(mark.kind, 20)), moment(mark.at), at(mark), printable(mark.text, 300)])),
      marks.length > this.told ? h("button", { type: "button", class: "more-button", on: { click: () => { this.told = Infinity; this.app.draw(); } } }, `All ${count(marks.length)}`) : null);
  }

  #starts(it) {
    const starts = [...(it.starts ?? [])].reverse();
    if (!starts.length) return null;
    return section("Its drivers", "Each start raises the term; only the newest one can commit.",
      table("Starts", [["term"], ["started"], ["went on after epoch", "number"], ["ended"], ["how"], ["lived", "number"]], starts.slice(0, 30).map((start) => [
        h("span", { title: printable(start.by, 200) || null }, `term ${count(start.term)}`), moment(start.at), known(start.boundary) && start.boundary >= 0 ? count(start.boundary) : "the start", start.ended_at ? moment(start.ended_at) : "–",
        h("span", { class: `happened ${start.how === "running" ? "tone-good" : start.how === "stopped" ? "tone-soft" : "tone-bad"}` }, icon(start.how), printable(start.how, 20)),
        start.ended_at ? seconds(Math.max(0, (Date.parse(start.ended_at) - Date.parse(start.at)) / 1000)) : ["running", "paused"].includes(start.how) ? seconds(since(start.at)) : "–"])));
  }

  #saved(it) {
    const saved = [...(it.savepoints ?? []).map((one) => ["savepoint", one]), ...(it.snapshots ?? []).map((one) => ["snapshot", one])];
    return section("What can be gone back to", saved.length ? null : "No savepoint and no snapshot is known here. `onceward savepoint create` makes one.".replaceAll("`", ""),
      saved.length ? table("Savepoints and snapshots", [["name"], ["kind"], ["epoch", "number"], ["made"], ["size", "number"]], saved.map(([kind, one]) => [
        [name(one.name, 60), one.problem ? h("p", { class: "about" }, printable(one.problem, 200)) : null], kind, count(one.epoch), moment(one.at), bytes(one.bytes)])) : null);
  }
}

function markTone(kind) {
  return { killed: "kill", failed: "bad", aborted: "open", takeover: "busy", paused: "open" }[kind] ?? "soft";
}
