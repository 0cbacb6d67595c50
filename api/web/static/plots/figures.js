// Draws figures with Plotly in the page's colours.

import { find, root } from "../page.js";

/** @typedef {{ data: object[], layout: Record<string, any>, title: string, height: number }} Figure in Plotly's format. A colour such as
 * `@accent` is the name of a colour of the page */
/** @typedef {{ react: (element: HTMLElement, data: unknown, layout: object, config: object) => Promise<void> }} Plotly */
/** @typedef {HTMLElement & { on: (event: string, act: (event: { points: { customdata?: number }[] }) => void) => void }} Plotted */
/** @typedef {Record<string, string>} Palette */

const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';
const CONFIG = { displaylogo: false, responsive: true, displayModeBar: "hover", modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"] };
const COLOURS = ["accent", "good", "warn", "bad", "quiet", "text", "line", "card", "raised"];

/** Plotly, once its script has loaded. @type {Promise<Plotly>} */
const library = new Promise((done, fail) => {
  const script = find("#plotly");
  const loaded = () => "Plotly" in window && done(/** @type {Plotly} */ (window.Plotly));
  loaded();
  script.addEventListener("load", loaded);
  script.addEventListener("error", () => fail(new Error("The plotting library could not be loaded.")));
});

/** Returns a colour of the page in a form that Plotly accepts. Plotly cannot parse `light-dark(…)`, so the browser computes the colour.
 * @param {string} name */
function resolved(name) {
  const probe = document.createElement("span");
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

/** @returns {Palette} */
const palette = () => Object.fromEntries(COLOURS.map((name) => [name, resolved(name)]));

/** Replaces the names of colours in a trace with colours. In scales, fast values are strong and slow values are faint, so that
 * readers need not distinguish hues.
 * @param {any} value
 * @param {Palette} colours
 * @returns {any} */
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

/** @param {Record<string, any>} given
 * @param {Palette} colours */
function axis(given, colours) {
  const title = { text: given.title ?? "", font: { size: 12, color: colours.quiet } };
  const lines = { gridcolor: colours.line, linecolor: colours.line, zerolinecolor: colours.line, automargin: true };
  return { ...lines, tickfont: { size: 11, color: colours.quiet }, ...given, title };
}

/** @param {Figure} figure
 * @param {Palette} colours */
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

/** Returns an element for each figure, below its title.
 * @param {HTMLElement} figures
 * @param {string[]} titles */
function places(figures, titles) {
  figures.classList.toggle("many", titles.length > 1);
  while (figures.children.length > titles.length) figures.lastElementChild?.remove();
  while (figures.children.length < titles.length) {
    const one = document.createElement("div");
    one.append(document.createElement("h3"), Object.assign(document.createElement("div"), { className: "plotted" }));
    figures.append(one);
  }
  return [...figures.children].map((one, at) => {
    const title = find("h3", one);
    title.textContent = titles[at];
    title.hidden = !titles[at];
    return /** @type {Plotted} */ (find(".plotted", one));
  });
}

/** Draws the figures of a plot into its section.
 * @param {HTMLElement} section
 * @param {Figure[]} figures
 * @param {string} summary description of the figures for readers who cannot see them */
export async function drawFigures(section, figures, summary) {
  const plotly = await library;
  const colours = palette();
  const found = places(find(".figures", section), figures.map((figure) => figure.title));
  const heading = find("h2", section).textContent;
  for (const [at, figure] of figures.entries()) {
    const place = found[at];
    await plotly.react(place, inColours(figure.data, colours), layout(figure, colours), CONFIG);
    place.querySelectorAll("svg").forEach((svg) => svg.setAttribute("aria-hidden", "true"));
    place.querySelectorAll(".modebar a, .modebar button").forEach((button) => button.setAttribute("tabindex", "-1"));
    place.setAttribute("aria-label", `${heading} ${figure.title}. ${summary}`);
    openOnClick(place);
  }
}

/** Opens the trial of a dot that is clicked.
 * @param {Plotted} place */
function openOnClick(place) {
  if (place.dataset.listening) return;
  place.dataset.listening = "yes";
  place.setAttribute("role", "group");
  place.on("plotly_click", ({ points }) => {
    const number = points[0]?.customdata;
    if (number !== undefined) location.href = `${root}/searches/${find("#plots").dataset.search}/trials/${number}`;
  });
}
