// Parallel coordinates in SVG of our own. Dragging along an axis keeps the trials with those values; the arrow keys do
// the same. What is kept stands in the page's address as the filter that the leaderboard understands.
import { Brushes, runs } from "./brush.js";
import { ask, showStatus } from "./connection-status.js";
import { morph } from "./morph.js";

const NS = "http://www.w3.org/2000/svg";
const HEIGHT = 360, TOP = 44, BOTTOM = 330, SIDE = 64, LEAST = 92;

const make = (name, attributes, text) => {
  const made = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
};

let brushes = null;
let latest = null; // the filter that the table was asked for last

const kept = (plot, line) => plot.axes.every((axis, at) => brushes.keeps(axis.name, axis.values[line.places[at]]));

export function drawParallel(section, plot) {
  brushes ??= new Brushes(new URLSearchParams(location.search).get("where") ?? "");
  const figures = section.querySelector(".figures");
  if (!plot.axes.length) {
    figures.replaceChildren();
    return;
  }
  const width = Math.max(figures.clientWidth, SIDE * 2 + LEAST * (plot.axes.length - 1));
  const svg = make("svg", { class: "parallel", viewBox: `0 0 ${width} ${HEIGHT}`, role: "group", "aria-label": plot.summary });
  svg.style.minWidth = `${width}px`;
  const x = (at) => SIDE + (plot.axes.length > 1 ? (at * (width - 2 * SIDE)) / (plot.axes.length - 1) : 0);
  const y = (axis, place) => axis.values.length > 1 ? BOTTOM - (place * (BOTTOM - TOP)) / (axis.values.length - 1) : (TOP + BOTTOM) / 2;
  const lines = plot.lines.map((line) => {
    const points = plot.axes.map((axis, at) => `${x(at).toFixed(1)},${(y(axis, line.places[at]) + spread(line, at)).toFixed(1)}`);
    const path = make("path", { d: `M${points.join("L")}`, "data-trial": line.number });
    path.style.setProperty("stroke", shade(line.rank));
    path.style.setProperty("stroke-width", line.rank > 0.97 ? "2.4" : "1.1");
    svg.append(path);
    return path;
  });
  plot.axes.forEach((axis, at) => svg.append(column(section, plot, axis, at, { x, y, svg, lines })));
  const scroll = document.createElement("div");
  scroll.className = "scroll";
  scroll.append(svg);
  const focused = figures.contains(document.activeElement) ? document.activeElement.getAttribute("aria-label") : null;
  figures.replaceChildren(scroll);
  if (focused) [...svg.querySelectorAll(".grip")].find((grip) => grip.getAttribute("aria-label") === focused)?.focus({ preventScroll: true });
  controls(section, plot, lines);
  section.querySelector(".note").textContent = "Drag along an axis to keep those values, or focus an axis and use the arrow keys (Shift extends, Escape clears). Strong lines are fast. The table below follows.";
  apply(section, plot, lines, true);
}

// A little apart, always alike: lines through the same value do not hide each other.
const spread = (line, at) => (((line.number * 7919 + at * 104729) % 17) - 8) * 0.7;

function shade(rank) {
  const strength = Math.round(100 * Math.pow(rank, 1.5));
  return `color-mix(in srgb, var(--good) ${strength}%, color-mix(in srgb, var(--accent) 55%, var(--line)))`;
}

function column(section, plot, axis, at, { x, y, svg, lines }) {
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
    grip.setAttribute("aria-valuenow", marked.length ? marked.at(-1)[1] : 0);
    const kept = places.map((place) => axis.values[place]).join(", ");
    grip.setAttribute("aria-valuetext", brushes.touches(axis.name) ? kept || "no value" : "all values");
  };
  const set = (range, done) => {
    if (range) brushes.drag(axis, range);
    else brushes.clear(axis.name);
    show();
    apply(section, plot, lines, done);
  };
  const placeAt = (event) => {
    const box = svg.getBoundingClientRect();
    const height = ((event.clientY - box.top) / box.height) * HEIGHT;
    const place = Math.round(((BOTTOM - height) / (BOTTOM - TOP)) * (axis.values.length - 1));
    return Math.min(axis.values.length - 1, Math.max(0, place));
  };
  let begun = null;
  grip.addEventListener("pointerdown", (event) => {
    begun = placeAt(event);
    grip.setPointerCapture(event.pointerId);
    set([begun, begun], false);
  });
  grip.addEventListener("pointermove", (event) => {
    if (begun !== null) set([begun, placeAt(event)].sort((one, other) => one - other), false);
  });
  grip.addEventListener("pointerup", () => { begun = null; apply(section, plot, lines, true); });
  grip.addEventListener("pointercancel", () => { begun = null; set(null, true); });
  grip.addEventListener("dblclick", () => set(null, true));
  grip.addEventListener("keydown", (event) => {
    const step = { ArrowUp: 1, ArrowDown: -1 }[event.key];
    if (event.key === "Escape") set(null, true);
    if (!step) return;
    event.preventDefault();
    const last = axis.values.length - 1;
    const places = brushes.touches(axis.name) ? brushes.places(axis) : [];
    const [low, high] = places.length ? [places[0], places.at(-1)] : step > 0 ? [-1, -1] : [last + 1, last + 1];
    const next = Math.min(last, Math.max(0, (step > 0 ? high : low) + step));
    set(event.shiftKey ? [Math.max(0, Math.min(low, next)), Math.min(last, Math.max(high, next))] : [next, next], true);
  });
  group.append(brush, grip);
  show();
  return group;
}

function controls(section, plot, lines) {
  const bar = section.querySelector(".controls");
  const clear = document.createElement("button");
  clear.type = "button";
  clear.textContent = "Keep all";
  clear.addEventListener("click", () => { brushes.clearAll(); drawParallel(section, plot); });
  const link = document.createElement("a");
  link.className = "to-leaderboard";
  const ramp = document.createElement("span");
  ramp.className = "ramp";
  ramp.textContent = `strong: ${plot.fastest}, faint: ${plot.slowest}`;
  bar.replaceChildren(clear, link, ramp);
}

function apply(section, plot, lines, done) {
  let count = 0;
  lines.forEach((path, at) => {
    const stays = kept(plot, plot.lines[at]);
    path.classList.toggle("out", !stays);
    path.style.setProperty("stroke", stays ? shade(plot.lines[at].rank) : "var(--line)");
    count += stays;
  });
  const filter = brushes.filter;
  const search = document.getElementById("plots").dataset.search;
  const link = section.querySelector(".to-leaderboard");
  link.href = `/searches/${search}${filter ? `?where=${encodeURIComponent(filter)}` : ""}`;
  link.textContent = "Open this filter in the leaderboard";
  const said = document.getElementById("chosen-said");
  const beside = brushes.beside(plot.axes);
  const alone = beside.length ? ` (${beside.join(", ")} holds in the table alone: no axis has it)` : "";
  said.textContent = `${count} of the ${plot.lines.length} trials drawn${filter ? ` with ${filter}${alone}` : ""}. The table has the fastest of all that match.`;
  if (done || filter !== latest) showTable(search, filter, done);
}

let waiting = 0;
function showTable(search, filter, done) {
  latest = filter;
  const address = new URL(location.href);
  if (filter) address.searchParams.set("where", filter);
  else address.searchParams.delete("where");
  history.replaceState(null, "", address);
  clearTimeout(waiting);
  waiting = setTimeout(() => fetchTable(search, filter), done ? 0 : 250);
}

async function fetchTable(search, filter) {
  const part = document.getElementById("chosen");
  const where = filter ? `?where=${encodeURIComponent(filter)}` : "";
  try {
    const html = await ask(part, `/searches/${search}/leaderboard${where}`, "text/html");
    showStatus(part, null);
    if (filter !== latest) return;
    morph(document.getElementById("chosen-rows"), html);
  } catch (error) {
    showStatus(part, error);
    return;
  }
  part.hidden = false;
}
