// The keys, and the dialog that tells them.
import { button } from "./parts.js";
import { h } from "./view.js";

const KEYS = [
  ["?", "these keys"], ["o", "overview"], ["t", "transactions"], ["/", "filter pipelines"], ["↑ ↓", "through the list of pipelines"],
  ["← →", "through the epochs of a pipeline"], ["Enter", "show the chosen epoch"], ["Page ↑ ↓", "a screen of epochs, on the timeline"], ["Home End", "the oldest loaded, the newest"],
  ["+ −", "wider or narrower bars"], ["d", "light, dark, or as the system says"], ["Esc", "close"],
];

export function help(close) {
  return h("dialog", { key: "help", class: "help", "aria-label": "Keys", on: { close, click: (event) => { if (event.target === event.currentTarget) event.currentTarget.close(); } } },
    h("div", { class: "panel-head" }, h("h2", null, "Keys"), button("Close (Esc)", "close", (event) => event.currentTarget.closest("dialog").close())),
    h("dl", { class: "keys" }, KEYS.map(([key, does]) => h("div", { key }, h("dt", null, key.split(" ").map((one) => h("kbd", null, one))), h("dd", null, does)))));
}
