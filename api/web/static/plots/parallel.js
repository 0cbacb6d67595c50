// Parallel coordinates, drawn as SVG. The reader chooses values by dragging along an axis or with the arrow keys. Only trials with
// these values are kept. The page's URL contains the choice as a filter in the form that the leaderboard uses.

import { ask, showStatus } from "../live/connection-status.js";
import { morph } from "../live/morph.js";
import { find, root } from "../page.js";
import { Brushes, runs } from "./brush.js";

/** @typedef {import("./brush.js").Axis} Axis */
/** @typedef {{ number: number, places: number[], rank: number, time: string }} Line one trial; `rank` 1 is the fastest, 0 the slowest */
/** @typedef {{ summary: string, axes: Axis[], lines: Line[], fastest: string, slowest: string }} Parallel */
/** A drawn plot: its section, its lines, and the positions of axes and values.
 * @typedef {{ section: HTMLElement, plot: Parallel, svg: SVGElement, paths: SVGElement[], x: (axis: number) => number,
 *   y: (axis: Axis, place: number) => number }} Drawing */

const NS = "http://www.w3.org/2000/svg";
const HEIGHT = 360, TOP = 44, BOTTOM = 330, SIDE = 64, LEAST = 92;
const HELP = "Drag along an axis to keep only trials with these values, or focus an axis and use the arrow keys (Shift extends the range, Escape clears it). Strong lines are fast trials. The table below shows the trials that are kept.";

/** @param {string} name
 * @param {Record<string, string | number>} attributes
 * @param {string} [text]
 * @returns {SVGElement} */
function make(name, attributes, text) {
  const made = /** @type {SVGElement} */ (document.createElementNS(NS, name));
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  if (text !== undefined) made.textContent = text;
  return made;
}

const brushes = new Brushes(new URLSearchParams(location.search).get("where") ?? "");
/** The filter of the latest request for the table.
 * @type {string | null} */
let latest = null;

/** @param {HTMLElement} section
 * @param {Parallel} plot */
export function drawParallel(section, plot) {
  const figures = find(".figures", section);
  if (!plot.axes.length) {
    figures.replaceChildren();
    return;
  }
  const width = Math.max(figures.clientWidth, SIDE * 2 + LEAST * (plot.axes.length - 1));
  const svg = make("svg", { class: "parallel", viewBox: `0 0 ${width} ${HEIGHT}`, role: "group", "aria-label": plot.summary });
  svg.style.minWidth = `${width}px`;
  const focused = focusedAxis(figures);
  /** @type {Drawing} */
  const drawing = {
    section,
    plot,
    svg,
    paths: [],
    x: (axis) => SIDE + (plot.axes.length > 1 ? (axis * (width - 2 * SIDE)) / (plot.axes.length - 1) : 0),
    y: ({ values }, place) => values.length > 1 ? BOTTOM - (place * (BOTTOM - TOP)) / (values.length - 1) : (TOP + BOTTOM) / 2,
  };
  drawing.paths = plot.lines.map((line) => path(drawing, line));
  svg.append(...drawing.paths, ...plot.axes.map((axis, at) => column(drawing, axis, at)));
  const scroll = document.createElement("div");
  scroll.className = "scroll";
  scroll.append(svg);
  figures.replaceChildren(scroll);
  focusAxis(svg, focused);
  controls(drawing);
  find(".note", section).textContent = HELP;
  apply(drawing, true);
}

/** Returns the name of the axis with the focus, so that a redrawn plot can restore the focus.
 * @param {HTMLElement} figures */
function focusedAxis(figures) {
  return figures.contains(document.activeElement) ? document.activeElement?.getAttribute("aria-label") : null;
}

/** @param {SVGElement} svg
 * @param {string | null | undefined} name */
function focusAxis(svg, name) {
  const grips = [...svg.querySelectorAll(".grip")].map((grip) => /** @type {SVGElement} */ (grip));
  if (name) grips.find((grip) => grip.getAttribute("aria-label") === name)?.focus({ preventScroll: true });
}

/** @param {Drawing} drawing
 * @param {Line} line */
function path({ plot, x, y }, line) {
  const points = plot.axes.map((axis, at) => `${x(at).toFixed(1)},${(y(axis, line.places[at]) + spread(line, at)).toFixed(1)}`);
  const made = make("path", { d: `M${points.join("L")}`, "data-trial": line.number });
  made.style.setProperty("stroke-width", line.rank > 0.97 ? "2.4" : "1.1");
  return made;
}

/** Returns a small offset that is constant for each line and axis, so that lines through the same value do not hide each other.
 * @param {Line} line
 * @param {number} at */
const spread = (line, at) => (((line.number * 7919 + at * 104729) % 17) - 8) * 0.7;

/** @param {number} rank */
function shade(rank) {
  const strength = Math.round(100 * Math.pow(rank, 1.5));
  return `color-mix(in srgb, var(--good) ${strength}%, color-mix(in srgb, var(--accent) 55%, var(--line)))`;
}

/** Draws an axis with its values, its brush, and a grip, which receives the pointer and the focus.
 * @param {Drawing} drawing
 * @param {Axis} axis
 * @param {number} at index of the axis */
function column(drawing, axis, at) {
  const { x, y } = drawing;
  const group = make("g", {});
  group.append(make("line", { class: "axis-line", x1: x(at), x2: x(at), y1: TOP - 6, y2: BOTTOM + 6 }));
  group.append(make("text", { class: "name", x: x(at), y: 20, "text-anchor": "middle" }, axis.name));
  const every = Math.ceil(axis.values.length / 12);
  axis.values.forEach((value, place) => {
    if (place % every === 0) group.append(make("text", { x: x(at) + 7, y: y(axis, place) + 4 }, value.length > 12 ? `${value.slice(0, 11)}…` : value));
  });
  const brush = make("g", {});
  const grip = make("rect", { class: "grip", x: x(at) - 22, width: 44, y: TOP - 14, height: BOTTOM - TOP + 28, tabindex: 0, role: "slider", "aria-label": axis.name, "aria-orientation": "vertical", "aria-valuemin": 0, "aria-valuemax": axis.values.length - 1 });
  const show = () => {
    const places = brushes.places(axis);
    const marked = brushes.touches(axis.name) ? runs(places) : [];
    brush.replaceChildren(...marked.map(([first, last]) => {
      const [top, bottom] = [y(axis, last) - 9, y(axis, first) + 9];
      return make("rect", { class: "brush", width: 16, x: x(at) - 8, rx: 4, y: top, height: bottom - top });
    }));
    grip.setAttribute("aria-valuenow", String(marked.at(-1)?.[1] ?? 0));
    const kept = places.map((place) => axis.values[place]).join(", ");
    grip.setAttribute("aria-valuetext", brushes.touches(axis.name) ? kept || "no value" : "all values");
  };
  listen(drawing, axis, grip, (range, done) => {
    if (range) brushes.drag(axis, range);
    else brushes.clear(axis.name);
    show();
    apply(drawing, done);
  });
  group.append(brush, grip);
  show();
  return group;
}

/** Calls `set` with the range of positions that the reader chooses on an axis with the pointer or the keys.
 * @param {Drawing} drawing
 * @param {Axis} axis
 * @param {SVGElement} grip
 * @param {(range: number[] | null, done: boolean) => void} set `range` is null to keep all values; `done` is true if the change is complete */
function listen({ svg }, axis, grip, set) {
  const last = axis.values.length - 1;
  /** @param {MouseEvent} event */
  const placeAt = (event) => {
    const box = svg.getBoundingClientRect();
    const height = ((event.clientY - box.top) / box.height) * HEIGHT;
    return Math.min(last, Math.max(0, Math.round(((BOTTOM - height) / (BOTTOM - TOP)) * last)));
  };
  /** @type {number | null} */
  let begun = null;
  /** @param {number} from
   * @param {MouseEvent} event */
  const dragged = (from, event) => [from, placeAt(event)].sort((one, other) => one - other);
  grip.addEventListener("pointerdown", (event) => {
    begun = placeAt(event);
    grip.setPointerCapture(event.pointerId);
    set([begun, begun], false);
  });
  grip.addEventListener("pointermove", (event) => {
    if (begun !== null) set(dragged(begun, event), false);
  });
  grip.addEventListener("pointerup", (event) => {
    if (begun !== null) set(dragged(begun, event), true);
    begun = null;
  });
  grip.addEventListener("pointercancel", () => {
    begun = null;
    set(null, true);
  });
  grip.addEventListener("dblclick", () => set(null, true));
  grip.addEventListener("keydown", (event) => {
    if (event.key === "Escape") set(null, true);
    const step = event.key === "ArrowUp" ? 1 : event.key === "ArrowDown" ? -1 : 0;
    if (!step) return;
    event.preventDefault();
    const [low, high] = range(axis) ?? (step > 0 ? [-1, -1] : [last + 1, last + 1]);
    const next = Math.min(last, Math.max(0, (step > 0 ? high : low) + step));
    set(event.shiftKey ? [Math.max(0, Math.min(low, next)), Math.min(last, Math.max(high, next))] : [next, next], true);
  });
}

/** Returns the first and the last position that a brush keeps on an axis, or null if no brush keeps a value.
 * @param {Axis} axis */
function range(axis) {
  const places = brushes.touches(axis.name) ? brushes.places(axis) : [];
  return places.length ? [places[0], places[places.length - 1]] : null;
}

/** @param {Drawing} drawing */
function controls({ section, plot }) {
  const clear = document.createElement("button");
  clear.type = "button";
  clear.textContent = "Keep all";
  clear.addEventListener("click", () => {
    brushes.clearAll();
    drawParallel(section, plot);
  });
  const link = Object.assign(document.createElement("a"), { className: "to-leaderboard", textContent: "Open this filter in the leaderboard" });
  const ramp = Object.assign(document.createElement("span"), { className: "ramp", textContent: `strong: ${plot.fastest}, faint: ${plot.slowest}` });
  find(".controls", section).replaceChildren(clear, link, ramp);
}

/** Shows which lines the brushes keep.
 * @param {Drawing} drawing
 * @param {boolean} done true if the reader has completed the change */
function apply({ section, plot, paths }, done) {
  let count = 0;
  plot.lines.forEach((line, at) => {
    const stays = plot.axes.every((axis, place) => brushes.keeps(axis.name, axis.values[line.places[place]]));
    paths[at].classList.toggle("out", !stays);
    paths[at].style.setProperty("stroke", stays ? shade(line.rank) : "var(--line)");
    count += Number(stays);
  });
  const filter = brushes.filter;
  const search = find("#plots").dataset.search ?? "";
  const link = /** @type {HTMLAnchorElement} */ (find(".to-leaderboard", section));
  link.href = `${root}/searches/${search}${filter ? `?where=${encodeURIComponent(filter)}` : ""}`;
  const others = brushes.withoutAxis(plot.axes);
  const alone = others.length ? ` (${others.join(", ")} has no axis and filters only the table)` : "";
  find("#chosen-said").textContent = `${count} of the ${plot.lines.length} trials drawn${filter ? ` with ${filter}${alone}` : ""}. The table shows the fastest of all matching trials.`;
  if (done || filter !== latest) showTable(search, filter, done);
}

let waiting = 0;

/** Shows the trials of a filter below the plot, and the filter in the page's address.
 * @param {string} search
 * @param {string} filter
 * @param {boolean} done */
function showTable(search, filter, done) {
  latest = filter;
  const address = new URL(location.href);
  if (filter) address.searchParams.set("where", filter);
  else address.searchParams.delete("where");
  history.replaceState(null, "", address);
  clearTimeout(waiting);
  waiting = setTimeout(() => fetchTable(search, filter), done ? 0 : 250);
}

/** @param {string} search
 * @param {string} filter */
async function fetchTable(search, filter) {
  const part = find("#chosen");
  const where = filter ? `?where=${encodeURIComponent(filter)}` : "";
  try {
    const html = await ask(part, `${root}/searches/${search}/leaderboard${where}`, "text/html");
    showStatus(part, null);
    if (filter !== latest) return;
    morph(find("#chosen-rows"), html);
  } catch (error) {
    showStatus(part, /** @type {Error} */ (error));
    return;
  }
  part.hidden = false;
}
