// One part of a page that is kept up to date, without moving what the reader looks at.

import { morph } from "./morph.js";
import { ask, showStatus } from "./connection-status.js";
import { pointerUp } from "./pointer-guard.js";

const LEAST_MS = 700;
const PATIENCE = 4; // a part that takes long is asked for less often: at most a fifth of the time is spent on it

export class Part {
  constructor(element) {
    this.element = element;
    this.names = (element.dataset.liveOn ?? "").split(" ");
    this.wanted = this.busy = false;
    this.last = 0;
    this.pause = LEAST_MS;
    this.shown = null;
    this.over = false; // asking again would not help
  }

  get live() {
    return !this.over && this.element.firstElementChild?.dataset.live === "yes";
  }

  // A list whose order changes waits until the reader has left it.
  get held() {
    if (this.element.dataset.liveHold === undefined) return false;
    const selected = document.getSelection();
    const marked = selected && !selected.isCollapsed && this.element.contains(selected.anchorNode);
    return marked || this.element.contains(document.activeElement) || this.element.firstElementChild?.dataset.page > 1;
  }

  // Something this part shows has changed: show it soon.
  async changed() {
    this.wanted = true;
    if (this.busy) return;
    this.busy = true;
    while (this.wanted) {
      await new Promise((done) => setTimeout(done, this.last + this.pause - performance.now()));
      this.wanted = false;
      if (!document.hidden) await this.refresh();
    }
    this.busy = false;
  }

  async refresh() {
    try {
      await this.renew();
    } catch (error) { // what is shown is old
      this.element.classList.add("stale");
      this.over = error.final ?? false;
      this.pause = Math.max(this.pause, 1000 * (error.wait_s ?? 0));
      showStatus(error);
    }
  }

  async renew() {
    this.last = performance.now();
    const address = this.element.dataset.liveFrom;
    const html = await this.fetch(address);
    this.pause = Math.max(LEAST_MS, PATIENCE * (performance.now() - this.last));
    await pointerUp();
    if (address !== this.element.dataset.liveFrom) return; // the reader has asked for something else meanwhile
    if (this.held) this.announce(ended(html) - Number(this.element.firstElementChild.dataset.ended));
    else this.show(html);
  }

  async fetch(address) {
    const html = await ask(address, "text/html");
    this.over = false;
    this.element.classList.remove("stale");
    showStatus(null);
    return html;
  }

  show(html) {
    this.announce(0);
    if (html === this.shown) return;
    keepingPlace(() => { this.shown = morph(this.element, html) ? html : null; });
    this.element.dispatchEvent(new Event("shown"));
    const said = this.element.firstElementChild?.dataset.said;
    const spoken = document.getElementById("spoken");
    if (said && spoken.textContent !== said) spoken.textContent = said;
  }

  // The reader is in the middle of this part: say what there is, and leave it to them.
  announce(count) {
    const news = document.getElementById("news");
    if (!news || this.element.dataset.liveHold === undefined) return;
    news.hidden = count <= 0;
    news.textContent = `${count} new trial${count === 1 ? "" : "s"}: show`;
  }
}

function ended(html) {
  return Number(/data-ended="(\d+)"/.exec(html)?.[1] ?? 0);
}

// Whatever the reader sees at the top of the window stays there, however much appears above it.
function keepingPlace(change) {
  const anchor = window.scrollY > 0 ? topmost() : null;
  const before = anchor?.getBoundingClientRect().top;
  change();
  const now = anchor && document.getElementById(anchor.id);
  if (now) window.scrollBy(0, now.getBoundingClientRect().top - before);
}

function topmost() {
  for (const each of document.querySelectorAll("main [id]")) {
    const { top, height } = each.getBoundingClientRect();
    if (height > 0 && top >= 0 && top < window.innerHeight) return each;
  }
  return null;
}
