// The page: which view the address names, what the server last said, and whether it is still there.
import { get, Poll, Stream } from "./api.js";
import { help } from "./help.js";
import { icon } from "./icons.js";
import { KafkaView, stuck } from "./kafka.js";
import { Overview } from "./overview.js";
import { button } from "./parts.js";
import { PipelineView } from "./pipeline.js";
import { h, render } from "./view.js";
import { count, healthy, itIs, printable } from "./words.js";

const THEMES = ["system", "light", "dark"];
const THEME_SIGNS = { system: "system", light: "sun", dark: "moon" };
const GREETING_MS = 3000;
const KAFKA_MS = 3000;

class App {
  overview = null;
  connection = { up: null };
  view = null;
  helping = false;
  stuck = []; // partitions that are held back for longer than epochs take

  start() {
    if (location.search) history.replaceState(null, "", location.pathname + location.hash); // the token is in the cookie now
    this.stream = new Stream((overview) => this.#told(overview), (connection) => this.#connected(connection));
    window.addEventListener("hashchange", () => this.#route());
    window.addEventListener("keydown", (event) => this.#key(event));
    window.addEventListener("online", () => this.stream.again());
    document.addEventListener("visibilitychange", () => { if (!document.hidden) this.stream.again(); });
    setInterval(() => this.draw(), 1000); // ages grow also when nothing happens
    document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); document.getElementById("content").focus(); });
    this.#route();
    this.stream.open();
    new Poll(() => this.#askKafka(), KAFKA_MS);
  }

  /** Once for however many reasons there are, before the next frame. */
  draw() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => { this.frame = 0; this.#draw(); });
  }

  go(hash, instead = false) {
    if (instead) history.replaceState(null, "", hash);
    else history.pushState(null, "", hash);
    this.#route();
  }

  async #askKafka() {
    try {
      this.stuck = this.overview?.kafka && this.connection.up ? stuck(await get("/api/kafka")) : [];
    } catch { /* the view of the transactions tells why */ }
  }

  #told(overview) {
    itIs(overview.at);
    this.overview = overview;
    this.draw();
  }

  #connected(connection) {
    this.connection = connection;
    clearTimeout(this.greeting);
    if (connection.again) {
      this.view?.poll?.now();
      this.greeting = setTimeout(() => { this.connection = { up: true }; this.draw(); }, GREETING_MS);
    }
    this.draw();
  }

  #route() {
    const parts = location.hash.replace(/^#\/?/, "").split("/").map(decoded);
    const key = parts[0] === "p" && parts[1] ? `p/${parts[1]}` : parts[0] === "kafka" ? "kafka" : "";
    if (key !== this.shown) {
      this.view?.end();
      this.shown = key;
      this.view = key === "" ? new Overview(this) : key === "kafka" ? new KafkaView(this) : new PipelineView(this, parts[1]);
      window.scrollTo(0, 0);
      render(document.getElementById("content"));
    }
    if (this.view.at) this.view.at(parts[2] === "e" && /^\d+$/.test(parts[3] ?? "") ? Number(parts[3]) : null);
    this.draw();
  }

  #draw() {
    const began = performance.now();
    render(document.getElementById("top"), this.#top());
    render(document.getElementById("connection"), this.#connectionLine());
    const content = document.getElementById("content");
    content.classList.toggle("stale", this.connection.up === false);
    render(content, this.view.render());
    render(document.getElementById("layer"), this.helping ? help(() => { this.helping = false; this.draw(); }) : null);
    const dialog = document.querySelector("dialog.help");
    if (dialog && !dialog.open) dialog.showModal();
    const ill = this.overview?.pipelines.filter((it) => !healthy(it.state)).length;
    document.title = `${ill ? `(${ill}) ` : ""}${this.view.title} – Onceward`;
    document.documentElement.dataset.drawn = (performance.now() - began).toFixed(1);
  }

  #top() {
    const held = this.stuck.length;
    const link = (hash, key, label, more) => h("a", { href: hash, class: "tab-link", "aria-current": this.shown === key || (key === "" && this.shown.startsWith("p/")) ? "page" : null }, label, more);
    const theme = themeNow();
    return [
      h("a", { class: "brand", href: "#/", "aria-label": "Onceward, overview" }, h("img", { src: "/static/favicon.svg", alt: "", width: 26, height: 26 }), h("span", null, "Onceward")),
      h("nav", { "aria-label": "Views" }, link("#/", "", "Pipelines"), link("#/kafka", "kafka", "Transactions", held ? h("b", { class: "badge", title: `${held} partitions held back` }, count(held), h("span", { class: "hidden" }, " partitions held back")) : null)),
      h("div", { class: "top-tools" },
        h("span", { class: `live ${this.connection.up ? "up" : "down"}` }, h("i", null), h("span", { class: "live-word" }, this.connection.up === null ? "connecting" : this.connection.up ? "live" : "not live")),
        button(`Colours: ${theme === "system" ? "as the system says" : theme} (d)`, THEME_SIGNS[theme], () => this.#theme()),
        h("button", { type: "button", class: "plain", title: "Keys (?)", "aria-label": "Keys", on: { click: () => this.#help() } }, "?")),
    ];
  }

  #connectionLine() {
    const { up, again, error } = this.connection;
    if (up === false) return h("p", { class: "lost" }, icon("waiting"), h("span", null, h("b", null, "Connection lost, trying again. "), error ? printable(error, 200) : "What you see is what was last heard."), h("button", { type: "button", on: { click: () => this.stream.again() } }, "Try now"));
    return again ? h("p", { class: "back" }, icon("yes"), "Connected again.") : null;
  }

  #help() {
    this.helping = true;
    this.draw();
  }

  #theme() {
    const next = THEMES[(THEMES.indexOf(themeNow()) + 1) % THEMES.length];
    const { dataset } = document.documentElement;
    if (next === "system") delete dataset.theme;
    else dataset.theme = next;
    try { next === "system" ? localStorage.removeItem("onceward-theme") : localStorage.setItem("onceward-theme", next); } catch { /* for this visit then */ }
    document.dispatchEvent(new Event("onceward-theme"));
    this.draw();
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || this.helping) return;
    const typing = event.target.closest?.("input, select, textarea");
    if (typing) {
      if (event.key === "Escape") typing.blur();
      return;
    }
    const acts = { "?": () => this.#help(), o: () => this.go("#/"), t: () => this.go("#/kafka"), d: () => this.#theme() };
    if (Object.hasOwn(acts, event.key)) { acts[event.key](); event.preventDefault(); }
    else if (this.view.key(event)) event.preventDefault();
  }
}

function themeNow() {
  return document.documentElement.dataset.theme ?? "system";
}

function decoded(part) {
  try { return decodeURIComponent(part); } catch { return part; }
}

new App().start();
