// The timeline of a pipeline's epochs: pan, zoom, point, choose; older epochs are asked for when they come into sight.
import { get, pipelinePath } from "./api.js";
import { Epochs } from "./epochs.js";
import { colours, tones } from "./palette.js";
import { EDGE, indexOf, paint, xOf } from "./timeline_paint.js";
import { h, render } from "./view.js";
import { clock, count, counted, known, ms, printable } from "./words.js";

const FIRST = 300; // epochs at first
const MORE = 1000; // and each time that older ones come into sight
const BARS = [0.6, 1, 2, 4, 7, 12, 20]; // px for each epoch
const TALL = 310;

export class Timeline {
  constructor(id, { select, open, changed }) {
    this.id = id;
    this.epochs = new Epochs();
    this.bar = 4;
    this.zoomed = false; // by the reader: until then bars are as wide as there is room
    this.right = 0;
    this.follow = true;
    this.whole = false;
    this.lit = null;
    this.selected = null; // an epoch's number
    this.hovered = null; // an index
    this.marks = [];
    this.range = null;
    this.error = "";
    this.select = select;
    this.open = open;
    this.changed = changed;
    this.painted = 0;
    this.#build();
  }

  #build() {
    this.element = document.createElement("div");
    this.element.className = "timeline";
    this.canvas = document.createElement("canvas");
    this.element.tabIndex = 0;
    const fixed = { role: "slider", "aria-label": "Epochs. Arrow keys choose one, Enter shows it", "aria-orientation": "horizontal" };
    for (const [name, value] of Object.entries(fixed)) this.element.setAttribute(name, value);
    this.tip = document.createElement("div");
    this.tip.className = "tip";
    this.tip.hidden = true;
    this.element.append(this.canvas, this.tip);
    const on = (type, act, options) => this.element.addEventListener(type, act.bind(this), options);
    on("pointerdown", this.#down);
    on("pointermove", this.#move);
    on("pointerup", this.#up);
    on("pointercancel", () => { this.drag = null; });
    on("pointerleave", () => this.#hover(null));
    on("wheel", this.#wheel, { passive: false });
    on("keydown", this.#key);
    this.resized = new ResizeObserver(() => this.draw());
    this.resized.observe(this.element);
    this.dark = matchMedia("(prefers-color-scheme: dark)");
    this.recolour = () => { this.tones = null; this.draw(); };
    this.dark.addEventListener("change", this.recolour);
    document.addEventListener("onceward-theme", this.recolour);
  }

  end() {
    this.resized.disconnect();
    this.dark.removeEventListener("change", this.recolour);
    document.removeEventListener("onceward-theme", this.recolour);
  }

  /** As the server says: which epochs there are, and what happened. */
  async update(detail) {
    this.range = detail.epochs;
    this.given = detail.marks ?? [];
    const last = detail.epochs?.last;
    if (known(last) && last < this.epochs.last) this.epochs = new Epochs(); // the home began anew
    if (!this.epochs.length) await this.#load(`limit=${FIRST}`);
    else if (this.epochs.to_end && known(last) && last > this.epochs.last) await this.#load(`from=${this.epochs.last + 1}&limit=2000`);
    this.#place();
    this.draw();
  }

  /** Again from the newest: after a jump, or when the home began anew. */
  async newest() {
    if (!this.epochs.to_end) { this.epochs = new Epochs(); await this.#load(`limit=${FIRST}`); this.#place(); }
    this.follow = true;
    this.draw();
  }

  async jump(epoch) {
    if (!(epoch >= this.epochs.first && epoch <= this.epochs.last)) {
      this.epochs = new Epochs();
      await this.#load(`to=${epoch + MORE / 2}&limit=${MORE}`);
      this.epochs.to_end = !known(this.range?.last) || this.epochs.last >= this.range.last;
      this.follow = this.epochs.to_end;
      this.#place();
    }
    if (this.epochs.length) this.choose(this.epochs.epoch[this.epochs.indexOf(epoch)]);
  }

  /** Choose an epoch, and bring it into sight. */
  choose(epoch) {
    this.selected = epoch;
    const at = epoch === null ? -1 : this.epochs.indexOf(epoch);
    if (at >= 0) {
      const room = this.#room();
      if (at + 1 > this.right) this.#pan(at + 1 + room * 0.2);
      else if (at < this.right - room) this.#pan(at - room * 0.2 + room);
    }
    this.select(epoch);
    this.draw();
  }

  zoom(by) {
    const at = BARS.indexOf(this.bar);
    const next = BARS[Math.min(BARS.length - 1, Math.max(0, at + by))];
    const middle = this.selected !== null ? this.epochs.indexOf(this.selected) : this.right - this.#room() / 2;
    this.bar = next;
    this.zoomed = true;
    if (!this.follow) this.#pan(middle + this.#room() / 2);
    this.#older();
    this.draw();
    this.changed();
  }

  page(by) { this.#pan(this.right + by * this.#room() * 0.8); this.draw(); }

  draw() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => { this.frame = 0; this.#paint(); });
  }

  /** One after the other: each wants to know what the one before has brought. */
  #load(query) {
    this.loading = (this.loading ?? 0) + 1;
    this.queue = (this.queue ?? Promise.resolve()).then(() => this.#ask(query)).finally(() => { this.loading -= 1; });
    return this.queue;
  }

  async #ask(query) {
    try {
      const asked = Number(/limit=(\d+)/.exec(query)[1]);
      const columns = await get(`${pipelinePath(this.id)}/epochs?${query}`);
      const before = this.epochs.length;
      const older = this.epochs.add(columns);
      this.right += older;
      if (this.drag) this.drag.right += older;
      if (!query.startsWith("from=") && columns.epoch.length < asked) this.epochs.from_start = true;
      if (known(this.range?.first) && this.epochs.first <= this.range.first) this.epochs.from_start = true;
      if (before === 0) { this.follow = true; this.right = this.epochs.length; }
      this.error = "";
    } catch (error) {
      this.error = error.message;
    }
  }

  #place() {
    const placed = (this.given ?? []).map((mark) => ({ ...mark, index: this.#indexOf(mark), between: mark.kind === "takeover" || !known(mark.epoch) }));
    this.marks = placed.filter((it) => it.index >= -1);
  }

  #indexOf(mark) {
    const nowhere = -2;
    if (!this.epochs.length) return nowhere;
    const before = this.epochs.from_start ? -1 : nowhere; // before the first epoch that there is
    if (!known(mark.epoch)) { const at = this.epochs.indexAt(mark.at); return at < 0 ? before : at; }
    if (mark.epoch < this.epochs.first) return mark.epoch < (this.range?.first ?? 0) && mark.epoch >= -1 && this.epochs.first === 0 ? before : nowhere;
    return mark.epoch > this.epochs.last && !this.epochs.to_end ? nowhere : this.epochs.indexOf(mark.epoch);
  }

  #room() { return (this.element.clientWidth - EDGE - this.#left()) / this.bar; }

  /** Few epochs get wide bars. */
  #fit() {
    if (this.zoomed || !this.epochs.length) return;
    const widest = (this.element.clientWidth - EDGE - this.#left()) / this.epochs.length;
    this.bar = BARS.findLast((it) => it <= widest && it >= 4) ?? 4;
  }
  #left() { return this.element.clientWidth < 560 ? 46 : 58; }

  #pan(right) {
    const room = this.#room();
    this.right = Math.max(room, Math.min(Math.max(room, this.epochs.length), right));
    this.follow = this.epochs.to_end && this.right >= this.epochs.length - 0.5;
    this.#older();
  }

  async #older() {
    if (this.loading || this.epochs.from_start || !this.epochs.length) return;
    if (this.right - this.#room() > (this.follow ? 0 : 60)) return;
    await this.#load(`to=${this.epochs.first - 1}&limit=${MORE}`);
    this.#place();
    this.draw();
    this.changed();
  }

  #scene() {
    this.#fit();
    if (this.follow) this.right = Math.max(this.epochs.length, this.#room());
    this.tones ??= tones();
    return {
      epochs: this.epochs, marks: this.marks, right: this.right, bar: this.bar, width: this.element.clientWidth - EDGE, height: TALL,
      left: this.#left(), selected: this.selected === null ? null : this.epochs.indexOf(this.selected), hovered: this.hovered,
      colours: colours(this.epochs.series), tones: this.tones, whole: this.whole, lit: this.lit,
    };
  }

  #paint() {
    const { canvas, element } = this;
    if (!element.isConnected || !element.clientWidth) return;
    const dense = window.devicePixelRatio || 1;
    const wide = Math.round(element.clientWidth * dense);
    const tall = Math.round(TALL * dense);
    if (canvas.width !== wide || canvas.height !== tall) { canvas.width = wide; canvas.height = tall; }
    const began = performance.now();
    const ctx = canvas.getContext("2d");
    ctx.setTransform(dense, 0, 0, dense, 0, 0);
    this.scene = this.#scene();
    this.drawn = paint(ctx, this.scene);
    this.painted = performance.now() - began;
    element.dataset.painted = this.painted.toFixed(1);
    element.dataset.bars = String(this.drawn.to - this.drawn.from);
    element.dataset.marks = [...new Set(this.drawn.marks.flatMap((it) => it.found.map((mark) => mark.kind)))].sort().join(" ");
    this.#describe();
    this.#older();
  }

  #describe() {
    const at = this.scene.selected ?? this.epochs.length - 1;
    const has = at >= 0;
    const values = { "aria-valuemin": this.range?.first ?? 0, "aria-valuemax": this.range?.last ?? 0, "aria-valuenow": has ? this.epochs.epoch[at] : 0,
      "aria-valuetext": has ? this.#said(at) : "no epoch yet" };
    for (const [name, value] of Object.entries(values)) {
      if (this.element.getAttribute(name) !== String(value)) this.element.setAttribute(name, value);
    }
  }

  #said(at) {
    const { epochs } = this;
    const tries = epochs.attempts[at] > 1 ? `, ${epochs.attempts[at]} tries` : "";
    const happened = this.marks.filter((it) => it.index === at).map((it) => `, ${printable(it.kind, 20)}`).join("");
    return `epoch ${epochs.epoch[at]}, ${clock(epochs.at[at])}, ${ms(epochs.total[at])}, ${counted(epochs.rows_in[at], "row")} in${tries}${happened}`;
  }

  #down(event) {
    if (event.button !== 0) return;
    this.drag = { x: event.clientX, right: this.right, moved: false };
    this.element.setPointerCapture(event.pointerId);
  }

  #move(event) {
    if (this.drag && Math.abs(event.clientX - this.drag.x) > 4) this.drag.moved = true;
    if (this.drag?.moved) {
      this.#hover(null);
      this.#pan(this.drag.right - (event.clientX - this.drag.x) / this.bar);
      this.draw();
    } else if (event.pointerType !== "touch") this.#hover(event);
  }

  #up(event) {
    const moved = this.drag?.moved;
    this.drag = null;
    const at = this.#at(event);
    if (!moved && at !== null) { this.choose(this.epochs.epoch[at]); this.open(this.epochs.epoch[at]); }
    if (moved) this.changed();
  }

  #wheel(event) {
    const by = Math.abs(event.deltaX) > Math.abs(event.deltaY) ? event.deltaX : event.shiftKey ? event.deltaY : 0;
    if (!by) return; // the page scrolls
    event.preventDefault();
    this.#pan(this.right + by / this.bar);
    this.draw();
  }

  #key(event) {
    const act = {
      ArrowLeft: () => this.step(-1), ArrowRight: () => this.step(1), PageUp: () => this.page(-1), PageDown: () => this.page(1),
      Home: () => this.choose(this.epochs.first), End: () => this.newest().then(() => this.choose(this.epochs.last)),
      Enter: () => { if (this.selected === null) this.step(0); this.open(this.selected); }, "+": () => this.zoom(1), "-": () => this.zoom(-1),
    }[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey || !this.epochs.length) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  }

  /** One epoch on, or back. */
  step(by) {
    const at = this.selected === null ? this.epochs.length - 1 : this.epochs.indexOf(this.selected) + by;
    if (at >= 0 && at < this.epochs.length) this.choose(this.epochs.epoch[at]);
  }

  #at(event) {
    const box = this.element.getBoundingClientRect();
    const x = event.clientX - box.left;
    if (!this.scene || x < this.scene.left) return null;
    const near = this.bar < 4 && event.clientY - box.top < 24 ? this.#markAt(x)?.found[0].index : undefined;
    const at = near ?? indexOf(this.scene, x);
    return at >= 0 && at < this.epochs.length ? at : null;
  }

  #markAt(x) { return this.drawn?.marks.find((it) => Math.abs(it.x - x) < 9); }

  #hover(event) {
    const at = event ? this.#at(event) : null;
    if (at === null && this.hovered === null) return;
    this.hovered = at;
    this.tip.hidden = at === null;
    if (at !== null) this.#tell(at);
    this.draw();
  }

  #tell(at) {
    const { epochs, scene } = this;
    const parts = epochs.series.map((it, number) => ({ ...it, number, took: it.ms[at] })).filter((it) => it.took > 0);
    const marks = this.marks.filter((it) => it.index === at || Math.abs(xOf(scene, it.index) - xOf(scene, at)) < 7).slice(0, 4);
    render(this.tip,
      h("p", { class: "tip-title" }, h("b", null, `Epoch ${count(epochs.epoch[at])}`), ` ${clock(epochs.at[at])}`),
      h("p", null, `${ms(epochs.total[at])}, ${counted(epochs.rows_in[at], "row")} in`, epochs.attempts[at] > 1 ? `, ${epochs.attempts[at]} tries` : ""),
      h("ul", null, parts.map((it) => h("li", null, h("i", { class: "swatch", style: { background: scene.colours[it.number] } }),
        `${printable(it.name, 20)}${it.sink ? ` · ${printable(it.sink, 24)}` : ""}`, h("span", null, ms(it.took))))),
      marks.map((it) => h("p", { class: "tip-mark" }, h("b", null, printable(it.kind, 20)), ` ${printable(it.text, 140)}`)));
    const x = xOf(scene, at);
    const right = x > scene.width - 270;
    this.tip.style.setProperty("transform", `translateX(${Math.max(0, right ? x - 256 : x + this.bar + 10)}px)`);
  }
}
