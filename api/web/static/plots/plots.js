// The plots of a search. Each plot is fetched when it comes into view, and again when trials have ended.

import { ask } from "../live/connection-status.js";
import { Follower } from "../live/follower.js";
import { follow, parts } from "../live/live.js";
import { pointerUp } from "../live/pointer-guard.js";
import { find } from "../page.js";
import { drawFigures } from "./figures.js";
import { drawParallel } from "./parallel.js";

/** @typedef {{ head: string[], rows: (string | number | null)[][] }} Table */
/** @typedef {{ summary: string, figures: import("./figures.js").Figure[], table: Table | null, note: string, choices: string[],
 *   chosen: string[] }} Plot */
/** @typedef {import("./parallel.js").Parallel} Parallel */

const PACE = { leastMs: 3000, quietMs: 60000 };

const lead = parts.find((part) => part.element.id === "lead"); // shows whether the search still runs

class Exhibit extends Follower {
  /** The data of the last drawing.
   * @type {Plot | Parallel | null} */
  #plot = null;
  #text = ""; // the same data as text
  #seen = false;
  #outdated = true;
  /** The reader's choices as the query of the plot's URL. */
  query = "";

  /** @param {HTMLElement} section */
  constructor(section) {
    super(section, PACE);
    this.last = -Infinity;
  }

  get live() {
    return super.live && Boolean(lead?.live);
  }

  /** @param {boolean} seen true if the plot is in view */
  see(seen) {
    this.#seen = seen;
    if (seen && this.#outdated) this.changed();
  }

  async changed() {
    this.#outdated = true;
    if (this.#seen) await super.changed();
  }

  async renew() {
    this.#outdated = false;
    if (!this.#plot) this.#say("Drawing…", true);
    const { query } = this;
    const text = await ask(this, `${this.element.dataset.from}${query}`, "application/json");
    this.succeeded();
    await pointerUp();
    if (query !== this.query) return; // the reader has changed the choice in the meantime
    if (text !== this.#text) {
      this.#plot = JSON.parse(text);
      this.#text = text;
      await this.draw();
    }
    this.pace();
  }

  /** @param {Error} error */
  failed(error) {
    super.failed(error);
    this.#outdated = true;
    this.#text = "";
    if (this.#plot) this.element.setAttribute("aria-busy", "false");
    else this.#say(`The plot could not be drawn. ${error.message} Reload the page to try again.`, false);
  }

  /** Draws the data that was fetched last. */
  async draw() {
    if (!this.#plot) return;
    if ("axes" in this.#plot) drawParallel(this.element, this.#plot);
    else await drawPlot(this, this.#plot);
    this.#say(this.#plot.summary, false);
  }

  /** @param {string} words
   * @param {boolean} busy */
  #say(words, busy) {
    find(".said", this.element).textContent = words;
    this.element.setAttribute("aria-busy", String(busy));
  }
}

/** @param {Exhibit} exhibit
 * @param {Plot} plot */
async function drawPlot(exhibit, plot) {
  addChooser(exhibit, plot);
  find(".note", exhibit.element).textContent = plot.note;
  drawTable(exhibit.element, plot.table);
  await drawFigures(exhibit.element, plot.figures, plot.summary);
}

/** Adds lists for choosing the tunables of a plot, unless the plot already has them.
 * @param {Exhibit} exhibit
 * @param {Plot} plot */
function addChooser(exhibit, plot) {
  const controls = find(".controls", exhibit.element);
  if (!plot.choices.length || controls.children.length) return;
  const selects = plot.chosen.map((chosen) => {
    const select = document.createElement("select");
    select.append(...plot.choices.map((choice) => new Option(choice, choice, false, choice === chosen)));
    return select;
  });
  for (const [at, select] of selects.entries()) {
    const label = document.createElement("label");
    label.append(["Horizontal ", "Vertical "][at], select);
    controls.append(label);
    select.addEventListener("change", () => {
      exhibit.query = `?${new URLSearchParams({ x: selects[0].value, y: selects[1].value })}`;
      exhibit.refresh();
    });
  }
}

/** @param {HTMLElement} section
 * @param {Table | null} table */
function drawTable(section, table) {
  const details = find(".as-table", section);
  details.hidden = !table;
  if (!table) return;
  const made = document.createElement("table");
  made.className = "cards";
  made.createTHead().insertRow().append(...table.head.map((name) => cell("th", name, { scope: "col" })));
  const body = made.createTBody();
  for (const [first, ...rest] of table.rows) {
    const row = body.insertRow();
    row.append(cell("th", first, { scope: "row" }), ...rest.map((value) => cell("td", value)));
    [...row.cells].forEach((each, at) => { each.dataset.label = table.head[at]; });
  }
  find("div", details).replaceChildren(made);
}

/** @param {"th" | "td"} tag
 * @param {string | number | null} value
 * @param {{ scope?: string }} [properties] */
function cell(tag, value, properties = {}) {
  return Object.assign(document.createElement(tag), { textContent: value === null ? "–" : String(value) }, properties);
}

const sections = [...document.querySelectorAll(".exhibit")].map((section) => /** @type {HTMLElement} */ (section));
const exhibits = new Map(sections.map((section) => [/** @type {Element} */ (section), new Exhibit(section)]));
const watcher = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) exhibits.get(target)?.see(isIntersecting);
}, { rootMargin: "300px" });
for (const [section, exhibit] of exhibits) {
  watcher.observe(section);
  if (exhibit.live) follow(exhibit);
}
lead?.element.addEventListener("shown", () => { // draws the last trials after the search has ended
  if (!lead.live) exhibits.forEach((exhibit) => exhibit.changed());
});

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => exhibits.forEach((exhibit) => exhibit.draw()));
