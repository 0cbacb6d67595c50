// Keeps the page up to date. When an event reports a change, the sections that show it are fetched again. While no events arrive,
// all sections are fetched at regular intervals. A hidden page fetches nothing, and is updated when it is shown again.

import { EventClient } from "./event-client.js";
import { matches } from "./event-hub.js";
import { Part } from "./part.js";

/** @typedef {import("./follower.js").Follower} Follower */

const POLL_MS = 1500;

class Feed {
  /** @type {Follower[]} */
  #followers = [];
  #client = new EventClient({
    opened: () => this.#live.forEach((follower) => follower.changed()), // events may have been missed
    event: (event) => this.#live.filter(({ filter }) => matches(filter, event)).forEach((follower) => follower.changed()),
  });

  constructor() {
    setInterval(() => this.#poll(), POLL_MS);
    document.addEventListener("visibilitychange", () => this.#shownOrHidden());
    window.addEventListener("pagehide", () => this.#client.subscribe([]));
    window.addEventListener("pageshow", () => this.#subscribe());
  }

  /** @param {Follower} follower */
  add(follower) {
    this.#followers.push(follower);
    this.#subscribe();
  }

  get #live() {
    return this.#followers.filter((follower) => follower.live);
  }

  #subscribe() {
    this.#client.subscribe(document.hidden ? [] : this.#live.map((follower) => follower.filter));
  }

  #poll() {
    this.#subscribe(); // a search may have ended
    if (document.hidden) return;
    for (const follower of this.#live) {
      if (performance.now() - follower.last >= (this.#client.open ? follower.quietMs : 0)) follower.changed();
    }
  }

  #shownOrHidden() {
    if (!document.hidden) for (const follower of this.#followers) follower.over = false; // the reader may have signed in again
    this.#subscribe();
  }
}

/** @type {Feed | null} */
let feed = null;

/** Keeps a section of the page up to date from now on.
 * @param {Follower} follower */
export function follow(follower) {
  feed ??= new Feed();
  feed.add(follower);
}

/** The parts of this page that the service renders. */
export const parts = [...document.querySelectorAll("[data-live-from]")].map((element) => new Part(/** @type {HTMLElement} */ (element)));
parts.filter((part) => part.live).forEach(follow);
