// Keeps what is marked `data-live-from` up to date. The service says what happened over server-sent events; while it cannot
// be heard, the parts are asked for again and again.

import { Part } from "./part.js";

const POLL_MS = 1500;
const QUIET_MS = 10000; // nothing was heard for so long: is the service still there, and how long does the search run?
const RECONNECT_MS = 4000;

class Feed {
  constructor(parts) {
    this.parts = parts;
    this.url = document.querySelector("[data-events]")?.dataset.events;
    this.connected = false;
    this.connect();
    setInterval(() => this.poll(), POLL_MS);
    document.addEventListener("visibilitychange", () => this.again());
  }

  connect() {
    if (!this.url) return;
    this.source = new EventSource(this.url);
    this.source.onopen = () => {
      this.all(); // what was missed since the page was made, or meanwhile
      this.connected = true;
    };
    this.source.onerror = () => {
      this.connected = false;
      if (this.source.readyState === EventSource.CLOSED) setTimeout(() => this.reconnect(), RECONNECT_MS);
    };
    for (const name of ["trial", "search", "worker", "reset", "deleted"]) {
      this.source.addEventListener(name, () => this.heard(name));
    }
  }

  reconnect() {
    if (this.parts.some((part) => part.live)) this.connect();
  }

  heard(name) {
    for (const part of this.parts) {
      if (name === "reset" || part.names.includes(name)) part.changed();
    }
    if (!this.parts.some((part) => part.live)) this.source.close();
  }

  poll() {
    const since = performance.now() - (this.connected ? QUIET_MS : 0);
    for (const part of this.parts) if (part.live && part.last <= since && !document.hidden) part.changed();
  }

  all() {
    for (const part of this.parts) if (part.live && !document.hidden) part.changed();
  }

  // The page is looked at again: whoever was signed out may have signed in elsewhere.
  again() {
    if (document.hidden) return;
    for (const part of this.parts) part.over = false;
    if (this.source?.readyState === EventSource.CLOSED) this.reconnect();
    this.all();
  }
}

export const parts = [...document.querySelectorAll("[data-live-from]")].map((element) => new Part(element));
if (parts.some((part) => part.live)) new Feed(parts);
