// One stream of the service's events, shared by all its subscribers.
//
// Over HTTP/1.1, a browser opens at most six connections to a service. With one stream per tab, the seventh tab would never
// load. The tabs of a browser therefore subscribe to one hub, and only while they are visible. The hub opens the stream for its
// first subscriber, and closes the stream after the last subscriber has left.

/** @typedef {{ names: string[], searches: number[] | null }} Filter names of events, and ids of searches (null for all searches) */
/** @typedef {{ name: string, search: number | null }} ServiceEvent name of the event, and id of its search (null if it belongs to no search) */
/** @typedef {{ open: boolean } | { event: ServiceEvent }} Message from a hub: the state of the stream, or an event */
/** @typedef {{ filters: Filter[] }} Subscription message to a hub. A message without filters ends the subscription */

const NAMES = ["trial", "search", "worker", "deleted", "reset"];
const REOPEN_MS = 4000; // pause after the service refused the stream. The browser itself reopens a stream that was interrupted
const SILENT_MS = 90000; // subscribers that do not repeat their subscription within this time are dropped, because a crashed tab does not unsubscribe

/** Opens the service's stream of events. Its URL is relative to this script, so it is valid under any path prefix. */
export const openStream = () => new EventSource(new URL("../../api/v1/events", import.meta.url));

/** Returns true if an event matches a filter. `reset` always matches, because events were lost.
 * @param {Filter} filter
 * @param {ServiceEvent} event */
export function matches({ names, searches }, { name, search }) {
  if (name === "reset") return true;
  return names.includes(name) && (searches === null || search === null || searches.includes(search));
}

/** Returns the name and the search of a server-sent event. Tabs need no other data, because they fetch the HTML that they show.
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

  /** @param {{ openStream: () => EventSource, lingerMs: number, reopenMs?: number, silentMs?: number }} given `lingerMs`: time
   * for which the stream stays open without subscribers, so that the reader can change between tabs */
  constructor({ openStream, lingerMs, reopenMs = REOPEN_MS, silentMs = SILENT_MS }) {
    this.#openStream = openStream;
    this.#lingerMs = lingerMs;
    this.#reopenMs = reopenMs;
    this.#silentMs = silentMs;
    setInterval(() => this.#dropSilent(), silentMs / 3);
  }

  /** Serves the subscriptions that arrive at a port. A new subscription replaces the earlier one. The hub answers each
   * subscription with the state of the stream, and reports every change of the state.
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
