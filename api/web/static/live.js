// Keeps what is marked `data-live-from` up to date, without moving what the reader looks at. The service says what
// happened over server-sent events; while it cannot be heard, the parts are asked for again and again.

const LEAST_MS = 700;
const POLL_MS = 1500;
const RECONNECT_MS = 4000;
const PATIENCE = 4; // a part that takes long is asked for less often: at most a fifth of the time is spent on it

export class Part {
  constructor(element) {
    this.element = element;
    this.names = (element.dataset.liveOn ?? "").split(" ");
    this.waiting = false;
    this.last = 0;
    this.took = 0;
    this.shown = element.innerHTML;
  }

  get live() {
    return this.element.firstElementChild?.dataset.live === "yes";
  }

  get held() {
    const focused = this.element.contains(document.activeElement);
    if (this.element.dataset.liveHold === undefined) return focused && document.activeElement.matches("input, select");
    const selected = document.getSelection();
    const marked = selected && !selected.isCollapsed && this.element.contains(selected.anchorNode);
    return marked || focused || this.element.firstElementChild?.dataset.page > 1;
  }

  // Something this part shows has changed: show it soon.
  changed() {
    if (this.waiting) return;
    this.waiting = true;
    const pause = Math.max(LEAST_MS, PATIENCE * this.took);
    setTimeout(() => this.refresh(), Math.max(0, this.last + pause - performance.now()));
  }

  async refresh() {
    this.waiting = false;
    if (document.hidden) return;
    this.last = performance.now();
    try {
      const html = await this.fetch(this.element.dataset.liveFrom);
      this.took = performance.now() - this.last;
      if (html === null) return;
      if (this.held) {
        this.announce(ended(html) - Number(this.element.firstElementChild.dataset.ended));
      } else {
        this.show(html);
      }
      this.element.classList.remove("stale");
    } catch {
      this.element.classList.add("stale"); // the service is away: what is shown is old, and is asked for again
    }
  }

  async fetch(url) {
    const answer = await fetch(url, { headers: { Accept: "text/html" } });
    return answer.ok ? answer.text() : null;
  }

  show(html) {
    this.announce(0);
    if (html === this.shown) return;
    this.shown = html;
    keepingPlace(() => this.replace(html));
    const said = this.element.firstElementChild?.dataset.said;
    const spoken = document.getElementById("spoken");
    if (said && spoken.textContent !== said) spoken.textContent = said;
  }

  replace(html) {
    const part = this.element;
    const open = [...part.querySelectorAll("details[open]")].map((details) => details.id);
    const focused = part.contains(document.activeElement) ? document.activeElement.id : "";
    const scrolled = [...part.querySelectorAll(".scroll")].map((region) => region.scrollLeft);
    part.innerHTML = html;
    for (const id of open) document.getElementById(id)?.setAttribute("open", "");
    part.querySelectorAll(".scroll").forEach((region, place) => { region.scrollLeft = scrolled[place] ?? 0; });
    if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
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

class Feed {
  constructor(parts) {
    this.parts = parts;
    this.url = document.querySelector("[data-events]")?.dataset.events;
    this.connected = false;
    this.connect();
    setInterval(() => this.poll(), POLL_MS);
    document.addEventListener("visibilitychange", () => this.all());
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
      if (this.source.readyState === EventSource.CLOSED) setTimeout(() => this.connect(), RECONNECT_MS);
    };
    for (const name of ["trial", "search", "worker", "reset", "deleted"]) {
      this.source.addEventListener(name, () => this.heard(name));
    }
  }

  heard(name) {
    for (const part of this.parts) {
      if (name === "reset" || part.names.includes(name)) part.changed();
    }
    if (!this.parts.some((part) => part.live)) this.close();
  }

  poll() {
    if (!this.connected) this.all();
  }

  all() {
    for (const part of this.parts) {
      if (part.live && !document.hidden) part.changed();
    }
  }

  close() {
    this.source?.close();
    this.url = undefined;
  }
}

export const parts = [...document.querySelectorAll("[data-live-from]")].map((element) => new Part(element));
if (parts.some((part) => part.live)) new Feed(parts);
