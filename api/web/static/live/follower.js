// A section of the page that is fetched again when an event reports a change.

import { Refused, showStatus } from "./connection-status.js";

/** @typedef {import("./event-hub.js").Filter} Filter */

const PATIENCE = 4; // the pause between two requests is this multiple of the duration of a request, so that slow sections are fetched less often
const LONGEST_MS = 10000; // maximum pause, however slow the service is

/** The element of a section lists the events that change it: names in `data-live-on`, and search ids in `data-live-searches`. */
export class Follower {
  /** True after an error that a repeated request would not solve. */
  over = false;
  /** Time of the last request in ms, on the clock of `performance`. 0 if the content was loaded with the page. */
  last = 0;
  #wanted = false;
  #busy = false;
  #leastMs;
  #pauseMs;

  /** @param {HTMLElement} element
   * @param {{ leastMs: number, quietMs: number }} pace `leastMs`: minimum time between two requests; `quietMs`: time
   * after which the section is fetched even without an event */
  constructor(element, { leastMs, quietMs }) {
    this.element = element;
    this.quietMs = quietMs;
    this.#leastMs = this.#pauseMs = leastMs;
    const { liveOn = "", liveSearches } = element.dataset;
    /** @type {Filter} */
    this.filter = { names: liveOn.split(" "), searches: liveSearches?.split(" ").map(Number) ?? null };
  }

  /** True if the section may still change. */
  get live() {
    return !this.over;
  }

  /** Fetches the content, shows it, and calls `pace` and `succeeded`. Subclasses implement this method. */
  async renew() {}

  /** Fetches the section soon, because it has changed. Several changes cause only one request. */
  async changed() {
    this.#wanted = true;
    if (this.#busy) return;
    this.#busy = true;
    while (this.#wanted) {
      await new Promise((done) => setTimeout(done, this.last + this.#pauseMs - performance.now()));
      this.#wanted = false;
      if (!document.hidden) await this.refresh();
    }
    this.#busy = false;
  }

  /** Fetches the section immediately. */
  async refresh() {
    this.last = performance.now();
    try {
      await this.renew();
    } catch (error) {
      this.failed(/** @type {Error} */ (error));
    }
  }

  /** Sets the pause before the next request from the duration of the current request. */
  pace() {
    this.#pauseMs = Math.max(this.#leastMs, Math.min(LONGEST_MS, PATIENCE * (performance.now() - this.last)));
  }

  /** Marks the section as up to date. */
  succeeded() {
    this.over = false;
    this.element.classList.remove("stale");
    showStatus(this, null);
  }

  /** Marks the section as out of date and shows why.
   * @param {Error} error */
  failed(error) {
    this.element.classList.add("stale");
    this.over = error instanceof Refused && error.final;
    if (error instanceof Refused) this.#pauseMs = Math.max(this.#pauseMs, 1000 * error.wait_s);
    showStatus(this, error);
  }
}
