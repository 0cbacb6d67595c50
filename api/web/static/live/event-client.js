// Subscribes a page to the service's events through a worker that all tabs share. If the browser has no shared workers, or the
// worker does not answer, the page uses its own hub.

import { EventHub, openStream } from "./event-hub.js";

/** @typedef {import("./event-hub.js").Filter} Filter */
/** @typedef {import("./event-hub.js").Message} Message */
/** @typedef {import("./event-hub.js").ServiceEvent} ServiceEvent */

const REPEAT_MS = 20000; // the hub drops subscribers that are silent for longer
const WORKER = "kernel-evo events 1"; // increment this number if the messages change, because pages of two releases may be open

export class EventClient {
  /** True while events arrive. Otherwise, the page may be out of date. */
  open = false;
  /** @type {Filter[]} */
  #filters = [];
  #sent = "[]";
  #answered = true;
  #sentAt = 0; // ms on the clock of `performance`
  /** @type {MessagePort} */
  #port;
  #on;

  /** @param {{ opened: () => void, event: (event: ServiceEvent) => void }} on `opened` is called when events begin to arrive.
   * Earlier events may have been missed. */
  constructor(on) {
    this.#on = on;
    this.#port = this.#listen(connect(() => this.#useOwnHub()));
    setInterval(() => this.#repeat(), REPEAT_MS);
  }

  /** Replaces the subscription of this page. The page then gets the events that match any of the filters.
   * @param {Filter[]} filters */
  subscribe(filters) {
    const wanted = JSON.stringify(filters);
    if (wanted === this.#sent) return;
    this.#filters = filters;
    this.#sent = wanted;
    this.open = false; // events that match the new filters may have been missed
    this.#send();
  }

  #send() {
    this.#answered = !this.#filters.length;
    this.#sentAt = performance.now();
    this.#port.postMessage({ filters: this.#filters });
  }

  #repeat() {
    if (!this.#filters.length) return;
    if (this.#answered) this.#send();
    else if (performance.now() - this.#sentAt > REPEAT_MS / 2) this.#useOwnHub(); // a recent subscription may still be answered
  }

  #useOwnHub() {
    this.open = false;
    this.#port.postMessage({ filters: [] });
    this.#port = this.#listen(ownHub());
    this.#send();
  }

  /** @param {MessagePort} port */
  #listen(port) {
    port.onmessage = ({ data }) => {
      if (port === this.#port) this.#receive(data);
    };
    return port;
  }

  /** @param {Message} message */
  #receive(message) {
    this.#answered = true;
    if ("event" in message) {
      this.#on.event(message.event);
      return;
    }
    const opened = message.open && !this.open;
    this.open = message.open;
    if (opened) this.#on.opened();
  }
}

/** @param {() => void} failed called if the worker cannot be started */
function connect(failed) {
  if (!("SharedWorker" in globalThis)) return ownHub();
  try {
    const worker = new SharedWorker(new URL("./event-worker.js", import.meta.url), { type: "module", name: WORKER });
    worker.addEventListener("error", failed, { once: true });
    return worker.port;
  } catch { // the browser refuses shared workers, for example because it blocks cookies
    return ownHub();
  }
}

function ownHub() {
  const { port1, port2 } = new MessageChannel();
  new EventHub({ openStream, lingerMs: 0 }).accept(port2);
  return port1;
}
