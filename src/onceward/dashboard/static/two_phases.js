// The epoch under way, sink by sink: who has begun, written, voted and committed. And what is in doubt.
import { icon } from "./icons.js";
import { keyedSection, name, section } from "./parts.js";
import { h } from "./view.js";
import { count, ms, printable, seconds, since } from "./words.js";

const STEPS = [["begin", "begin"], ["write", "write"], ["pre_commit", "vote"], ["commit", "commit"]];

export function inHand(it) {
  const { current } = it;
  const sinks = current?.sinks ?? (it.sinks ?? []).map((sink) => ({ ...sink, steps: {}, state: "idle" }));
  const ordered = [...sinks].sort((one, other) => Number(one.decides) - Number(other.decides)); // the decider is asked last
  const tries = current?.attempt > 1 ? `, try ${current.attempt}` : "";
  const title = current ? `Epoch ${count(current.epoch)} under way${tries}` : "Two-phase commit";
  return keyedSection("under way", title, said(it, current),
    ordered.length ? h("div", { class: "scroll" }, h("table", { class: `two-phases ${current ? "" : "idle"}`, "aria-label": "Steps of the two-phase commit" },
      h("thead", null, h("tr", null, h("th", { scope: "col" }, "sink"), STEPS.map(([key, label]) => h("th", { scope: "col", class: key }, label, key === "commit" ? h("span", { class: "about" }, "only forward from here") : null)))),
      h("tbody", null, ordered.map((sink) => sinkRow(sink))))) : null);
}

function said(it, current) {
  if (current) return `${printable(current.phase, 60) || "under way"}, for ${seconds(since(current.began_at))}. Nothing is visible before the decision; after it every sink commits.`;
  const last = it.last_commit_at ? `Epoch ${count(it.epochs?.last ?? it.epoch)} is committed in every sink, ${seconds(since(it.last_commit_at))} ago. ` : "";
  return `${it.in_doubt_epochs?.length ? "" : last}${it.state === "running" || it.state === "waiting" ? `It waits for ${printable(it.waits_for, 160) || "new events"}.` : "No epoch is under way."}`;
}

function sinkRow(sink) {
  return h("tr", { key: sink.name, class: `sink-${printable(sink.state, 20)}` },
    h("th", { scope: "row" }, name(sink.name, 40), h("span", { class: "about" }, printable(sink.kind, 30), sink.decides ? [" ", icon("decides"), "decides"] : null)),
    STEPS.map(([key, label]) => step(sink, key, label)));
}

function step(sink, key, label) {
  const it = sink.steps?.[key];
  const word = !it ? "not yet" : it.ended_at ? "done" : "now";
  const took = !it ? "" : it.ended_at ? ms(Date.parse(it.ended_at) - Date.parse(it.began_at)) : seconds(since(it.began_at));
  return h("td", { class: `step ${key} ${word.replace(" ", "-")}`, "data-label": label },
    h("span", { class: "dot" }, word === "done" ? icon("yes") : null),
    h("span", { class: "hidden" }, word), h("span", { class: "took" }, took));
}

export function inDoubt(it) {
  const found = it.in_doubt_epochs ?? [];
  if (!found.length) return null;
  return section(found.length === 1 ? "An epoch is in doubt" : "Epochs in doubt",
    "Every sink has voted, and it is not known here whether all have committed. Nothing is lost: whoever starts the pipeline next finds out, and finishes or takes back what is needed.",
    found.map((doubt) => h("div", { key: doubt.epoch, class: "doubt tone-open" },
      h("h3", null, icon("in doubt"), `Epoch ${count(doubt.epoch)}`, h("span", { class: "about" }, printable(doubt.phase, 40))),
      h("ul", { class: "votes" }, Object.entries(doubt.votes ?? {}).map(([sink, yes]) => h("li", { key: sink, class: yes ? "yes" : "no" }, icon(yes ? "yes" : "no"), name(sink, 40), yes ? " has voted yes" : " has not voted"))),
      h("p", null, h("b", null, "The next start: "), printable(doubt.next_start, 400)))));
}

