// One stream of the service's events, shared by all its subscribers.
//
// Over HTTP/1.1 a browser opens at most six connections to a service. A stream for each tab would take them all, and the
// seventh tab would never load. So the tabs of a browser subscribe to one hub, and only while they are visible. The hub opens
// the stream for its first subscriber and closes it after the last one has left.

/** @typedef {{ names: string[], searches: number[] | null }} Filter names of events, and the searches they concern; null: all */
/** @typedef {{ name: string, search: number | null }} ServiceEvent what happened, and to which search; null: to none */
/** @typedef {{ open: boolean } | { event: ServiceEvent }} Message from a hub: whether the stream is open, or an event */
/** @typedef {{ filters: Filter[] }} Subscription to a hub; without filters the subscriber leaves */

const NAMES = ["trial", "search", "worker", "deleted", "reset"];
const REOPEN_MS = 4000; // after the service refused the stream; a stream that breaks off is reopened by the browser
const SILENT_MS = 90000; // a tab that crashed never leaves: subscribers that do not repeat their subscription are dropped

/** Opens the service's stream of events. Its address is relative to this script, so it holds under any path prefix. */
export const openStream = () => new EventSource(new URL("../../api/v1/events", import.meta.url));

/** Returns whether an event is of interest. `reset` always is: events were lost.
 * @param {Filter} filter
 * @param {ServiceEvent} event */
export function matches({ names, searches }, { name, search }) {
  if (name === "reset") return true;
  return names.includes(name) && (searches === null || search === null || searches.includes(search));
}

/** Reads what a tab needs of a server-sent event. Tabs fetch what they show; they need no figures.
 * @param {string} name
 * @param {string} data
 * @returns {ServiceEvent} */
export function readEvent(name, data) {
  const { id, search_id } = JSON.parse(data);
  return { name, search: search_id ?? (name === "search" || name === "deleted" ? id : null) };
}

export class EventHub {
  /** @type {Map<MessagePort, { filters: Filter[], heard: number }>} */
  #subscribers = new Map();
  /** @type {EventSource | null} */
  #stream = null;
  #open = false;
  #closing = 0;
  #reopening = 0;
  #openStream;
  #lingerMs;
  #reopenMs;
  #silentMs;

  /** @param {{ openStream: () => EventSource, lingerMs: number, reopenMs?: number, silentMs?: number }} given `lingerMs`: how
   * long the stream outlives its last subscriber, so that a change from one tab to another keeps it */
  constructor({ openStream, lingerMs, reopenMs = REOPEN_MS, silentMs = SILENT_MS }) {
    this.#openStream = openStream;
    this.#lingerMs = lingerMs;
    this.#reopenMs = reopenMs;
    this.#silentMs = silentMs;
    setInterval(() => this.#dropSilent(), silentMs / 3);
  }

  /** Serves subscriptions that arrive at a port. A repeated subscription replaces the one before. Each is answered with
   * whether the stream is open, and so is every change of that.
   * @param {MessagePort} port */
  accept(port) {
    port.onmessage = ({ data }) => this.#subscribe(port, data);
  }

  /** @param {MessagePort} port
   * @param {Subscription} subscription */
  #subscribe(port, { filters }) {
    if (!filters.length) {
      this.#leave(port);
      return;
    }
    this.#subscribers.set(port, { filters, heard: performance.now() });
    clearTimeout(this.#closing);
    if (!this.#stream) this.#connect();
    port.postMessage({ open: this.#open });
  }

  /** @param {MessagePort} port */
  #leave(port) {
    if (!this.#subscribers.delete(port) || this.#subscribers.size) return;
    this.#closing = setTimeout(() => this.#close(), this.#lingerMs);
  }

  #dropSilent() {
    const since = performance.now() - this.#silentMs;
    for (const [port, { heard }] of this.#subscribers) if (heard < since) this.#leave(port);
  }

  #connect() {
    clearTimeout(this.#reopening);
    const stream = this.#openStream();
    this.#stream = stream;
    stream.onopen = () => this.#changed(true);
    stream.onerror = () => {
      this.#changed(false);
      if (stream.readyState === EventSource.CLOSED) this.#reopening = setTimeout(() => this.#connect(), this.#reopenMs);
    };
    for (const name of NAMES) stream.addEventListener(name, ({ data }) => this.#pass(readEvent(name, data)));
  }

  #close() {
    clearTimeout(this.#reopening);
    this.#stream?.close();
    this.#stream = null;
    this.#open = false;
  }

  /** @param {boolean} open */
  #changed(open) {
    this.#open = open;
    for (const port of this.#subscribers.keys()) port.postMessage({ open });
  }

  /** @param {ServiceEvent} event */
  #pass(event) {
    for (const [port, { filters }] of this.#subscribers) {
      if (filters.some((filter) => matches(filter, event))) port.postMessage({ event });
    }
  }
}
