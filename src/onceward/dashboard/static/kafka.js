// Kafka's open transactions, and who holds committed readers back: the first question when a read_committed consumer stands still.
import { get, Poll } from "./api.js";
import { icon } from "./icons.js";
import { banner, fact, name, section, table } from "./parts.js";
import { h } from "./view.js";
import { count, counted, known, moment, printable, seconds, since } from "./words.js";

const EVERY_MS = 1000;
const LONG_S = 10; // a holder of that age is worth a look; younger ones come with every epoch

/** The partitions that are held back for longer than epochs take, the longest first. */
export function stuck(facts) {
  return (facts?.partitions ?? []).filter((part) => part.held_back > 0 && heldFor(part) >= LONG_S).sort((one, other) => heldFor(other) - heldFor(one));
}

export class KafkaView {
  constructor(app) {
    this.app = app;
    this.found = null;
    this.error = "";
    this.all = false;
    this.poll = new Poll(() => this.#ask(), EVERY_MS);
  }

  get title() { return "Transactions"; }

  end() { this.poll.end(); }

  key() { return false; }

  async #ask() {
    if (!this.app.overview?.kafka) return; // not heard of yet, or none was named
    try {
      this.found = await get("/api/kafka");
      this.error = "";
    } catch (error) {
      this.error = error.message;
    }
    this.app.draw();
  }

  render() {
    if (this.app.overview?.kafka === null) return [unknown(), EXPLAINED];
    if (this.found === null) return h("p", { class: "note loading" }, this.error ? printable(this.error, 300) : "Asking the server …");
    const it = this.found;
    const held = (it.partitions ?? []).filter((part) => part.held_back > 0).sort((one, other) => heldFor(other) - heldFor(one));
    return [
      this.#verdict(it, held),
      this.#facts(it, held),
      held.length ? this.#held(held) : null,
      this.#transactions(it),
      EXPLAINED,
      this.#partitions(it),
    ];
  }

  #verdict(it, held) {
    const kicker = `Kafka ${printable(it.bootstrap, 120)}`;
    if (!it.reachable) {
      return banner({ tone: "bad", sign: "gone", kicker, title: "Kafka is out of reach", because: printable(it.error, 300) || "Nobody answers there.",
        more: h("p", { class: "aside" }, "It is asked again every few seconds; what is shown below was seen before.") });
    }
    if (!held.length) {
      return banner({ tone: "good", sign: "yes", kicker, title: "Nobody holds readers back",
        because: `Consumers that read committed can read all ${counted((it.partitions ?? []).length, "output partition")} to the end.` });
    }
    const oldest = held[0];
    const age = heldFor(oldest);
    const usual = age < LONG_S;
    return banner({
      tone: usual ? "busy" : "open", sign: usual ? "recovering" : "waiting", kicker,
      title: `${counted(held.length, "partition")} held back${known(age) ? `, for ${seconds(age)}` : ""}`,
      because: ["Consumers that read committed wait at the last stable offset of ", h("b", null, place(oldest)), ". ", blame(oldest.holder, this.app)],
      more: h("p", { class: "aside" }, usual ? "That is usual: an epoch is being written, and ends within seconds. It is worth a look when it stays." : "Further down: what to do about it."),
    });
  }

  #facts(it, held) {
    const open = it.transactions ?? [];
    const oldest = open.reduce((best, one) => ((one.seconds ?? 0) > (best?.seconds ?? -1) ? one : best), null);
    return h("dl", { key: "facts", class: "facts" },
      fact("Open transactions", count(open.length), oldest ? ["the oldest: ", seconds(oldest.seconds)] : null),
      fact("Partitions held back", `${count(held.length)} of ${count((it.partitions ?? []).length)}`),
      fact("Records behind the stable end", count(held.reduce((all, part) => all + part.held_back, 0)), "written, and not to be read yet"),
      fact("By others", count(open.filter((one) => !one.pipeline).length), "whose producer is no pipeline shown here"));
  }

  #held(held) {
    return section("Who holds readers back", "The left part of each bar can be read; the right part is behind the first open transaction, whoever wrote it.",
      h("ul", { class: "logs" }, held.map((part) => log(part, this.app))),
      h("div", { class: "advice" }, h("h3", null, "What to do"),
        h("ol", null,
          h("li", null, "A pipeline of these holds, and it runs: wait. Its epoch ends, or the broker aborts the transaction at its timeout."),
          h("li", null, "A pipeline of these holds, and it is stopped, killed or paused: start it again. A start ends what its predecessor left open, before it does anything else."),
          h("li", null, "Somebody else holds: it is the producer whose transactional id is named. If it is dead and its timeout is long, an operator of Kafka can end it: ", h("code", null, "kafka-transactions.sh --bootstrap-server … abort --topic … --partition … --start-offset …"), "."))));
  }

  #transactions(it) {
    const open = [...(it.transactions ?? [])].sort((one, other) => (other.seconds ?? 0) - (one.seconds ?? 0));
    if (!open.length) return section("Open transactions", "None is open at this moment.");
    return section("Open transactions", null,
      table("Open transactions", [["transactional id", "wrap"], ["pipeline", "wrap"], ["state"], ["producer", "number"], ["open for"], ["partitions", "wrap"], ["coordinator", "number"]], open.map((one) => [
        name(one.transactional_id, 60), owner(one.pipeline, this.app), printable(one.state, 30), `${one.producer_id}, epoch ${one.producer_epoch}`, age(one), listed(one.partitions), known(one.coordinator) ? String(one.coordinator) : "–"]),
      { key: (at) => `${open[at].transactional_id}\u0000${open[at].producer_id}` }));
  }

  #partitions(it) {
    const parts = it.partitions ?? [];
    if (!parts.length) return null;
    const shown = this.all ? parts : parts.slice(0, 40);
    return section("Every output partition", null,
      table("Output partitions", [["partition", "wrap"], ["last stable offset", "number"], ["end", "number"], ["held back", "number"], ["holder", "wrap"]], shown.map((part) => [
        name(place(part), 80), count(part.stable), count(part.end), part.held_back ? h("b", { class: "tone-open" }, count(part.held_back)) : "0", part.holder ? name(part.holder.transactional_id ?? `producer ${part.holder.producer_id}`, 50) : "–"]),
      { key: (at) => place(shown[at]), wide: true }),
      parts.length > shown.length ? h("button", { type: "button", class: "more-button", on: { click: () => { this.all = true; this.app.draw(); } } }, `All ${count(parts.length)}`) : null);
  }
}

const place = (part) => `${part.topic}/${part.partition}`;
const heldFor = (part) => since(part.holder?.began_at);

function owner(id, app) {
  if (!id) return h("span", { class: "about" }, "none of these");
  const found = app.overview?.pipelines.find((it) => it.id === id);
  return h("a", { href: `#/p/${encodeURIComponent(id)}` }, name(found?.name ?? id, 40), found ? h("span", { class: "about" }, ` ${found.state}`) : null);
}

function blame(holder, app) {
  if (!holder) return "Who holds it back is not known yet.";
  const id = holder.transactional_id ? ["Transaction ", h("b", null, name(holder.transactional_id, 60))] : [`A transaction of producer ${holder.producer_id}`];
  const whose = holder.pipeline ? [" of the pipeline ", owner(holder.pipeline, app)] : [", of none of these pipelines,"];
  return [...id, ...whose, holder.began_at ? ` is open since ${moment(holder.began_at)}.` : " is open."];
}

function age(one) {
  const open = known(one.seconds) ? one.seconds : since(one.began_at);
  const left = known(one.timeout_s) && known(open) ? one.timeout_s - open : null;
  const part = known(one.timeout_s) && one.timeout_s > 0 ? Math.min(1, open / one.timeout_s) : 0;
  return h("div", { class: `age ${part > 0.75 ? "late" : ""}` }, h("b", null, seconds(open)),
    h("span", { class: "meter", "aria-hidden": "true" }, h("i", { style: { width: `${(part * 100).toFixed(1)}%` } })),
    h("span", { class: "about" }, left === null ? "" : left > 0 ? `the broker aborts it in ${seconds(left)}` : "past its timeout: the broker ends it"));
}

function listed(partitions) {
  const all = partitions ?? [];
  if (!all.length) return "none yet";
  return [all.slice(0, 4).map((it, at) => [at ? ", " : "", name(it, 50)]), all.length > 4 ? ` and ${count(all.length - 4)} more` : ""];
}

/** A partition's log: what can be read, and what is behind the first open transaction. */
function log(part, app) {
  // The held part is always wide enough to see; its true size is in the words.
  const share = Math.min(60, Math.max(12, (part.held_back / Math.max(1, part.end)) * 100));
  return h("li", { key: place(part), class: "log" },
    h("div", { class: "log-head" }, h("b", null, name(place(part), 80)), h("span", { class: "tone-open" }, `${count(part.held_back)} records held back`, known(heldFor(part)) ? ` for ${seconds(heldFor(part))}` : "")),
    h("div", { class: "log-bar", role: "img", "aria-label": `readable to ${part.stable}, end ${part.end}`, style: { "--held": `${share.toFixed(1)}%` } },
      h("span", { class: "readable" }, "readable"), h("span", { class: "waiting" }, "held back")),
    h("div", { class: "log-ends", style: { "--held": `${share.toFixed(1)}%` } }, h("span", null, "0"), h("span", { class: "stable" }, `last stable offset ${count(part.stable)}`), h("span", null, `end ${count(part.end)}`)),
    h("p", { class: "about" }, blame(part.holder, app)));
}

function unknown() {
  return banner({ tone: "soft", sign: "gone", kicker: "Kafka", title: "No Kafka is watched",
    because: "This page can show every open transaction, and who holds committed readers back. Tell it where the brokers are:",
    more: h("p", { class: "command" }, "onceward ui HOME… --kafka localhost:9092") });
}

const EXPLAINED = section("What this means", null, h("div", { class: "explained" },
  h("p", null, "A topic's partition is a log. Producers that use transactions write into it before it is decided whether their records count. So a partition has two ends: the ", h("b", null, "end"), ", behind the last record, and the ", h("b", null, "last stable offset"), ", in front of the first record of a transaction that is still open."),
  h("p", null, "A consumer with ", h("code", null, "isolation.level=read_committed"), " reads up to the last stable offset and no further: also what others have committed behind it must wait. One open transaction, of anybody, holds all of them back. Consumer lag grows then although every consumer is healthy, and no consumer can say why: ", h("span", { class: "nowrap" }, icon("waiting"), " this page can.")),
  h("p", null, "Each epoch of a pipeline is one transaction, so partitions are held back for a moment all the time. What lasts longer than an epoch is worth a look.")));
