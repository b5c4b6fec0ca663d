// Asks the server, and hears from it. A server that goes away is noticed, told, and asked again until it is back.

const TIMEOUT_MS = 10_000;
const SILENT_MS = 12_000; // no news for so long: ask whether it is still there
const FIRST_RETRY_MS = 500;
const LAST_RETRY_MS = 5_000;

/** What the server says is wrong: `status` is 404, 503, ... */
export class Refused extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

export async function get(path) {
  const answer = await fetch(path, { signal: AbortSignal.timeout(TIMEOUT_MS), cache: "no-store" });
  let body = null;
  try { body = await answer.json(); } catch { /* the status says enough */ }
  if (!answer.ok) throw new Refused(body?.error ?? `the server answered ${answer.status}`, answer.status);
  return body;
}

export const pipelinePath = (id) => `/api/pipelines/${encodeURIComponent(id)}`;

/** Follows the overview for ever. `told(overview)` for each one, `connection({up, retry_ms})` when that changes. */
export class Stream {
  #told; #connection; #source = null; #retry = FIRST_RETRY_MS; #timer = 0; #up = null; #heard = 0; #turn = 0;

  constructor(told, connection) {
    this.#told = told;
    this.#connection = connection;
  }

  async open() {
    this.#close();
    const turn = ++this.#turn;
    try {
      const overview = await get("/api/overview"); // at once, and with a clear answer if the server is away
      if (turn !== this.#turn) return;
      this.#hear(overview);
    } catch (error) {
      if (turn === this.#turn) this.#lost(error);
      return;
    }
    const source = new EventSource("/api/stream");
    this.#source = source;
    source.addEventListener("overview", (event) => { if (source === this.#source) this.#hear(JSON.parse(event.data)); });
    source.addEventListener("error", () => { if (source === this.#source) this.#lost(new Error("the stream ended")); });
    this.#watch();
  }

  /** Try now instead of when the time has come. */
  again() {
    if (this.#up === false) this.open();
  }

  #watch() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(async () => {
      if (Date.now() - this.#heard > SILENT_MS) {
        try { this.#hear(await get("/api/overview")); } catch (error) { this.#lost(error); return; }
      }
      this.#watch();
    }, SILENT_MS / 4);
  }

  #hear(overview) {
    this.#heard = Date.now();
    this.#retry = FIRST_RETRY_MS;
    if (this.#up !== true) {
      this.#connection({ up: true, again: this.#up === false });
      this.#up = true;
    }
    this.#told(overview);
  }

  #lost(error) {
    this.#close();
    this.#up = false;
    this.#connection({ up: false, retry_ms: this.#retry, error: error instanceof Refused ? error.message : "" });
    this.#timer = setTimeout(() => this.open(), this.#retry);
    this.#retry = Math.min(LAST_RETRY_MS, this.#retry * 2);
  }

  #close() {
    clearTimeout(this.#timer);
    this.#source?.close();
    this.#source = null;
  }
}

/** Calls `ask` again and again while the page is looked at; never twice at the same time. */
export class Poll {
  #ask; #every; #timer = 0; #over = false; #busy = false;

  constructor(ask, every_ms) {
    this.#ask = ask;
    this.#every = every_ms;
    this.#next(0);
  }

  async now() {
    if (this.#busy || this.#over) return;
    clearTimeout(this.#timer);
    this.#busy = true;
    try { if (!document.hidden) await this.#ask(); } finally { this.#busy = false; }
    this.#next(this.#every);
  }

  end() {
    this.#over = true;
    clearTimeout(this.#timer);
  }

  #next(delay) {
    if (!this.#over) this.#timer = setTimeout(() => this.now(), delay);
  }
}
