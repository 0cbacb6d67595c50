// A section of the page that is fetched again when an event says that it has changed.

import { Refused, showStatus } from "./connection-status.js";

/** @typedef {import("./event-hub.js").Filter} Filter */

const PATIENCE = 4; // a section that takes long is fetched less often: at most a fifth of the time is spent on it
const LONGEST_MS = 10000; // but a reader does not wait longer than this, however slow the service is

/** Its element says which events concern it: their names in `data-live-on`, ids of searches in `data-live-searches`. */
export class Follower {
  /** Whether the service has said that another request would not help. */
  over = false;
  /** When it was last fetched, by the clock of `performance`; 0: with the page. */
  last = 0;
  #wanted = false;
  #busy = false;
  #leastMs;
  #pauseMs;

  /** @param {HTMLElement} element
   * @param {{ leastMs: number, quietMs: number }} pace at least `leastMs` pass between two requests; after `quietMs` without
   * one the section is fetched even if no event has come */
  constructor(element, { leastMs, quietMs }) {
    this.element = element;
    this.quietMs = quietMs;
    this.#leastMs = this.#pauseMs = leastMs;
    const { liveOn = "", liveSearches } = element.dataset;
    /** @type {Filter} */
    this.filter = { names: liveOn.split(" "), searches: liveSearches?.split(" ").map(Number) ?? null };
  }

  /** Whether it can still change. */
  get live() {
    return !this.over;
  }

  /** Fetches what is shown and shows it; calls `pace` and `succeeded`. Subclasses define it. */
  async renew() {}

  /** Notes that the section has changed: it is fetched soon, once for any number of changes. */
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

  /** Fetches it at once. */
  async refresh() {
    this.last = performance.now();
    try {
      await this.renew();
    } catch (error) {
      this.failed(/** @type {Error} */ (error));
    }
  }

  /** Sets the pause until the next request by how long this one has taken so far. */
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
