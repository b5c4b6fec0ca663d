// One epoch, beside the page: what went in, what came out, who voted, who decided, and which tries were aborted.
import { get, pipelinePath } from "./api.js";
import { rank } from "./epochs.js";
import { icon } from "./icons.js";
import { colours } from "./palette.js";
import { button, name, phase, table } from "./parts.js";
import { h } from "./view.js";
import { count, counted, known, moment, ms, printable, sum } from "./words.js";

const SETTLE_MS = 120; // whoever runs through epochs with the arrow keys asks for the last one only

export class EpochPanel {
  constructor(app, id, { step, close }) {
    this.app = app;
    this.id = id;
    this.step = step;
    this.close = close;
    this.epoch = null;
    this.found = null;
    this.error = "";
  }

  show(epoch) {
    if (epoch === this.epoch && (this.found || this.timer)) return;
    this.epoch = epoch;
    this.error = "";
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.#ask(epoch), this.found ? SETTLE_MS : 0);
  }

  async #ask(epoch) {
    this.timer = 0;
    try {
      const found = await get(`${pipelinePath(this.id)}/epochs/${epoch}`);
      if (epoch !== this.epoch) return;
      this.found = found;
    } catch (error) {
      if (epoch !== this.epoch) return;
      this.found = null;
      this.error = error.message;
    }
    this.app.draw();
  }

  /** A decision that is not final yet is asked for again. */
  refresh() {
    if (this.epoch !== null && !this.timer && this.found && this.found.phase !== "done") this.#ask(this.epoch);
  }

  render() {
    if (this.epoch === null) return null;
    const it = this.found;
    const stale = it && it.epoch !== this.epoch;
    return h("aside", { key: "epoch", id: "epoch", class: `panel ${stale ? "stale" : ""}`, role: "dialog", "aria-label": `Epoch ${this.epoch}`, tabindex: -1 },
      h("div", { class: "panel-head" },
        h("h2", null, `Epoch ${count(this.epoch)}`),
        h("div", { class: "panel-tools" }, button("The epoch before (←)", "left", () => this.step(-1)), button("The next epoch (→)", "right", () => this.step(1)), button("Close (Esc)", "close", this.close))),
      this.error ? h("p", { class: "problem" }, printable(this.error, 400)) : null,
      it && !stale ? this.#body(it) : this.error ? null : h("p", { class: "note" }, "Asking …"));
  }

  #body(it) {
    return [
      h("p", { class: "decision" }, decision(it)),
      h("p", { class: "note" }, `${moment(it.at)}, term ${count(it.term)}. ${known(it.input_rows) ? `${counted(it.input_rows, "row")} read. ` : ""}`,
        it.attempts > 1 ? h("b", { class: "tone-open" }, counted(it.attempts, "try", "tries")) : "One try", "."),
      h("h3", null, "Where the time went"), took(it),
      it.aborted?.length ? [h("h3", null, "Aborted tries"), h("ol", { class: "tries" }, it.aborted.map((tried) => h("li", { key: tried.attempt }, icon("aborted"), h("b", null, `try ${count(tried.attempt)} `), h("code", null, printable(tried.cause, 60)),
        h("span", { class: "about" }, moment(tried.at)), h("p", null, printable(tried.reason, 400)))))] : it.attempts > 1 ? h("p", { class: "note" }, "What ended the tries before the last one is not known here any more.") : null,
      h("h3", null, "Read"), positions(it.positions ?? []),
      it.skipped?.length ? [h("h3", null, "Passed over, as a person has said"), h("ul", { class: "words" }, it.skipped.slice(0, 50).map((place) => h("li", null, name(place, 120))), it.skipped.length > 50 ? h("li", null, `and ${count(it.skipped.length - 50)} more`) : null)] : null,
      h("h3", null, "Written"), (it.sinks ?? []).map((sink) => written(sink, it)),
    ];
  }
}

function positions(all) {
  const kafka = all.filter((at) => known(at.topic));
  return [
    kafka.length ? table("Positions", [["topic"], ["partition", "number"], ["from", "number"], ["to", "number"], ["records", "number"]],
      kafka.slice(0, 200).map((at) => [name(at.topic, 60), String(at.partition), count(at.from), count(at.to), known(at.from) && known(at.to) ? count(at.to - at.from) : "–"]), { wide: true }) : null,
    all.filter((at) => at.raw).map((at) => h("p", { class: "digest" }, h("code", null, printable(at.raw, 300)))),
    all.length ? null : h("p", { class: "note" }, "The sources do not tell positions."),
  ];
}

function decision(it) {
  const who = printable(it.decided_by || it.decider, 80) || "the ledger";
  const words = {
    done: ["yes", "good", `Committed everywhere. Decided by ${who}.`],
    decided: ["waiting", "open", `Decided by ${who}; the commits are under way.`],
    prepared: ["in doubt", "open", `Every sink has voted; ${who} decides. The outcome is not recorded here yet.`],
    started: ["waiting", "open", "Begun, at most once: it will not be written again."],
  };
  const [sign, of, said] = Object.hasOwn(words, it.phase) ? words[it.phase] : ["waiting", "open", `${printable(it.phase, 40)}: decided by ${who}.`];
  return h("span", { class: `tone-${of} decided` }, icon(sign), said);
}

/** By phase and sink; what no sink's step accounts for is "other", so that nothing of the whole is missing. */
function layers(it) {
  const parts = (it.sinks ?? []).flatMap((sink) => Object.entries(sink.milliseconds ?? {}).map(([phase, took]) => ({
    name: phase, sink: sink.name, took: phase === "write" ? Math.max(0, took - (sink.milliseconds.compute ?? 0)) : took, // it is measured within
  })));
  const rest = sum(it.milliseconds) - parts.reduce((all, part) => all + part.took, 0);
  if (rest > 0.05) parts.push({ name: "other", sink: null, took: rest });
  return parts.filter((part) => part.took > 0).sort((one, other) => rank(one.name) - rank(other.name));
}

/** A bar of all phases, and the same as a list. */
function took(it) {
  const parts = layers(it);
  const total = parts.reduce((all, part) => all + part.took, 0) || 1;
  const inks = colours(parts);
  return [
    h("div", { class: "stackbar", "aria-hidden": "true" }, parts.map((part, at) => h("i", { style: { background: inks[at], "flex-grow": String(part.took / total) } }))),
    h("ul", { class: "took-list" }, parts.map((part, at) => h("li", null, h("i", { class: "swatch", style: { background: inks[at] } }), phase(part), h("span", null, ms(part.took))))),
  ];
}

function written(sink, it) {
  const entries = Object.entries(sink.committable ?? {});
  return h("div", { key: sink.name, class: "sink" },
    h("h4", null, name(sink.name, 60), h("span", { class: "about" }, printable(sink.kind, 60), it.decider === sink.name ? [" ", icon("decides"), "decides"] : null)),
    h("p", { class: sink.voted ? "yes" : "no" }, icon(sink.voted ? "yes" : "no"), sink.voted ? "voted yes" : "has not voted", `, ${counted(sink.rows, "row")}`),
    h("p", { class: "digest" }, "digest ", h("code", null, printable(sink.digest, 80))),
    sink.partitions?.length ? table(`Partitions of ${printable(sink.name, 60)}`, [["topic"], ["partition", "number"], ["rows", "number"], ["digest"]],
      sink.partitions.slice(0, 200).map((part) => [name(part.topic, 40), String(part.partition), count(part.rows), h("code", null, printable(part.digest, 40))]), { wide: true }) : null,
    entries.length ? h("details", null, h("summary", null, "Committable: what it takes to commit this again"),
      h("dl", { class: "pairs" }, entries.slice(0, 60).map(([key, value]) => [h("dt", null, printable(key, 60)), h("dd", null, h("code", null, printable(typeof value === "string" ? value : JSON.stringify(value), 600)))]))) : null);
}
