// A section of the page that the service renders. An update changes only what differs, and keeps the reader's position on the page.

import { ask } from "./connection-status.js";
import { Follower } from "./follower.js";
import { morph } from "./morph.js";
import { pointerUp } from "./pointer-guard.js";

const PACE = { leastMs: 700, quietMs: 10000 }; // in ms; fetched even without events, because pages show running times

export class Part extends Follower {
  /** @type {string | null} */
  #shown = null;

  /** @param {HTMLElement} element `data-live-from` is the URL of the content; with `data-live-hold`, updates wait while the
   * reader uses the section */
  constructor(element) {
    super(element, PACE);
  }

  get #content() {
    return /** @type {HTMLElement | null} */ (this.element.firstElementChild);
  }

  get live() {
    return super.live && this.#content?.dataset.live === "yes";
  }

  // True if an update must wait, because it could change the order of a list that the reader uses.
  get #held() {
    if (this.element.dataset.liveHold === undefined) return false;
    const selected = document.getSelection();
    const marked = selected && !selected.isCollapsed && this.element.contains(selected.anchorNode);
    return marked || this.element.contains(document.activeElement) || Number(this.#content?.dataset.page) > 1;
  }

  async renew() {
    const address = this.element.dataset.liveFrom ?? "";
    const html = await this.fetch(address);
    this.pace();
    await pointerUp();
    if (address !== this.element.dataset.liveFrom) return; // the reader has requested different content in the meantime
    if (this.#held) this.#announce(ended(html) - Number(this.#content?.dataset.ended));
    else this.show(html);
  }

  /** Returns the HTML at a URL.
   * @param {string} address */
  async fetch(address) {
    const html = await ask(this, address, "text/html");
    this.succeeded();
    return html;
  }

  /** @param {string} html */
  show(html) {
    this.#announce(0);
    if (html === this.#shown) return;
    keepingPosition(() => { this.#shown = morph(this.element, html) ? html : null; });
    this.element.dispatchEvent(new Event("shown"));
    const said = this.#content?.dataset.said;
    const spoken = document.getElementById("spoken");
    if (said && spoken && spoken.textContent !== said) spoken.textContent = said;
  }

  /** Shows a button with the number of new trials while updates of this part wait.
   * @param {number} count */
  #announce(count) {
    const news = document.getElementById("news");
    if (!news || this.element.dataset.liveHold === undefined) return;
    news.hidden = count <= 0;
    news.textContent = `Show ${count} new trial${count === 1 ? "" : "s"}`;
  }
}

/** Returns how many trials had ended when a part was rendered.
 * @param {string} html */
function ended(html) {
  return Number(/data-ended="(\d+)"/.exec(html)?.[1] ?? 0);
}

/** Calls `change`, and then scrolls so that the topmost visible element stays at its position.
 * @param {() => void} change */
function keepingPosition(change) {
  const anchor = window.scrollY > 0 ? topmost() : null;
  const before = anchor?.getBoundingClientRect().top ?? 0;
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
