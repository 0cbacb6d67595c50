// Draws the plots of a search. Each is fetched when it comes into view, and again when trials have ended.
import { ask } from "./connection-status.js";
import { find } from "./elements.js";
import { Follower } from "./follower.js";
import { follow, parts } from "./live.js";
import { drawParallel } from "./parallel.js";
import { pointerUp } from "./pointer-guard.js";

const PACE = { leastMs: 3000, quietMs: 60000 };
const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';
const CONFIG = { displaylogo: false, responsive: true, displayModeBar: "hover", modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"] };
const plots = document.getElementById("plots");
const library = new Promise((done, fail) => { // large: what needs it waits, what does not is there before
  const script = document.getElementById("plotly");
  if (window.Plotly) done();
  script.addEventListener("load", done);
  script.addEventListener("error", () => fail(new Error("the plotting library did not arrive")));
});

// `light-dark(…)` is not a colour to Plotly: let the browser work it out.
function resolved(name) {
  const probe = document.createElement("span");
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

function palette() {
  const names = ["accent", "good", "warn", "bad", "quiet", "text", "line", "card", "raised"];
  return Object.fromEntries(names.map((name) => [name, resolved(name)]));
}

// Fast is strong, slow fades into the card; no hue alone carries the meaning.
function inColours(value, colours) {
  if (typeof value === "string" && value.startsWith("@")) {
    if (value === "@scale") return [[0, colours.good], [0.35, colours.accent], [1, colours.raised]];
    if (value === "@scale-up") return [[0, colours.warn], [0.5, colours.accent], [1, colours.good]];
    return colours[value.slice(1)] ?? value;
  }
  if (Array.isArray(value)) return value.length > 200 ? value : value.map((each) => inColours(each, colours));
  if (value && typeof value === "object") return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, inColours(each, colours)]));
  return value;
}

function axis(given, colours) {
  const title = { text: given.title ?? "", font: { size: 12, color: colours.quiet } };
  const lines = { gridcolor: colours.line, linecolor: colours.line, zerolinecolor: colours.line, automargin: true };
  return { ...lines, tickfont: { size: 11, color: colours.quiet }, ...given, title };
}

function layout(figure, colours) {
  const given = figure.layout;
  return {
    ...given,
    height: figure.height,
    margin: { l: 12, r: 16, t: 10, b: 36 },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: FONT, size: 12, color: colours.text },
    hoverlabel: { bgcolor: colours.card, bordercolor: colours.quiet, font: { color: colours.text, family: FONT, size: 12 } },
    legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, font: { size: 12 } },
    modebar: { bgcolor: "rgba(0,0,0,0)", color: colours.quiet, activecolor: colours.accent },
    uirevision: "kept",
    xaxis: axis(given.xaxis ?? {}, colours),
    yaxis: axis(given.yaxis ?? {}, colours),
  };
}

function place(figures, count, titles) {
  figures.classList.toggle("many", count > 1);
  while (figures.children.length > count) figures.lastElementChild.remove();
  while (figures.children.length < count) {
    const one = document.createElement("div");
    one.append(document.createElement("h3"), document.createElement("div"));
    one.lastElementChild.className = "plotted";
    figures.append(one);
  }
  [...figures.children].forEach((one, at) => {
    one.firstElementChild.textContent = titles[at];
    one.firstElementChild.hidden = !titles[at];
  });
  return [...figures.querySelectorAll(".plotted")];
}

async function drawFigures(section, plot) {
  await library;
  const colours = palette();
  const places = place(section.querySelector(".figures"), plot.figures.length, plot.figures.map((figure) => figure.title));
  for (const [at, figure] of plot.figures.entries()) {
    const where = places[at];
    await window.Plotly.react(where, inColours(figure.data, colours), layout(figure, colours), CONFIG);
    where.querySelectorAll("svg").forEach((svg) => svg.setAttribute("aria-hidden", "true"));
    where.querySelectorAll(".modebar a, .modebar button").forEach((button) => button.setAttribute("tabindex", "-1"));
    if (!where.dataset.listening) {
      where.dataset.listening = "yes";
      where.setAttribute("role", "group");
      where.on("plotly_click", ({ points }) => {
        const number = points[0]?.customdata;
        if (number !== undefined) location.href = `/searches/${plots.dataset.search}/trials/${number}`;
      });
    }
    where.setAttribute("aria-label", `${section.querySelector("h2").textContent} ${figure.title}. ${plot.summary}`);
  }
}

function cell(tag, value, scope) {
  const made = document.createElement(tag);
  made.textContent = value ?? "–";
  if (scope) made.scope = scope;
  return made;
}

function drawTable(section, table) {
  const details = section.querySelector(".as-table");
  details.hidden = !table;
  if (!table) return;
  const made = document.createElement("table");
  made.className = "cards";
  const head = made.createTHead().insertRow();
  table.head.forEach((name) => head.append(cell("th", name, "col")));
  const body = made.createTBody();
  for (const [first, ...rest] of table.rows) {
    const row = body.insertRow();
    row.append(cell("th", first, "row"), ...rest.map((value) => cell("td", value)));
    [...row.cells].forEach((each, at) => { each.dataset.label = table.head[at]; });
  }
  details.querySelector("div").replaceChildren(made);
}

function chooser(exhibit, plot) {
  const controls = exhibit.element.querySelector(".controls");
  if (!plot.choices?.length || controls.children.length) return;
  for (const [at, name] of ["x", "y"].entries()) {
    const label = document.createElement("label");
    const select = document.createElement("select");
    plot.choices.forEach((choice) => select.append(new Option(choice, choice, false, choice === plot.chosen[at])));
    label.append(`${name === "x" ? "Across" : "Up"} `, select);
    select.addEventListener("change", () => {
      const [x, y] = [...controls.querySelectorAll("select")].map((each) => each.value);
      exhibit.query = `?${new URLSearchParams({ x, y })}`;
      exhibit.refresh();
    });
    controls.append(label);
  }
}

async function draw(exhibit, plot) {
  const section = exhibit.element;
  section.querySelector(".said").textContent = plot.summary;
  if (section.dataset.exhibit === "parallel") drawParallel(section, plot);
  else {
    chooser(exhibit, plot);
    section.querySelector(".note").textContent = plot.note;
    drawTable(section, plot.table);
    await drawFigures(section, plot);
  }
  section.setAttribute("aria-busy", "false");
}

const lead = parts.find((part) => part.element.id === "lead"); // says whether the search goes on

class Exhibit extends Follower {
  /** @type {any} */
  #plot = null; // drawn last
  #text = ""; // which came as this
  #seen = false;
  #outdated = true;
  query = "";

  /** @param {HTMLElement} section */
  constructor(section) {
    super(section, PACE);
    this.last = -Infinity;
  }

  get live() {
    return super.live && Boolean(lead?.live);
  }

  /** @param {boolean} seen whether it is in view */
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
    if (query !== this.query) return; // the reader has chosen something else meanwhile
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
    else this.#say(`It could not be drawn (${error.message}); reload the page to try again.`, false);
  }

  async draw() {
    if (this.#plot) await draw(this, this.#plot);
  }

  /** @param {string} words
   * @param {boolean} busy */
  #say(words, busy) {
    find(this.element, ".said").textContent = words;
    this.element.setAttribute("aria-busy", String(busy));
  }
}

/** @type {HTMLElement[]} */
const sections = [...document.querySelectorAll(".exhibit")];
const exhibits = new Map(sections.map((section) => [section, new Exhibit(section)]));
const watcher = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) exhibits.get(target)?.see(isIntersecting);
}, { rootMargin: "300px" });
for (const [section, exhibit] of exhibits) {
  watcher.observe(section);
  if (exhibit.live) follow(exhibit);
}
lead?.element.addEventListener("shown", () => { // the last trials of a search that has just ended
  if (!lead.live) exhibits.forEach((exhibit) => exhibit.changed());
});

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => exhibits.forEach((exhibit) => exhibit.draw()));
