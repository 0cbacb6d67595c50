// Sorting, filtering and turning pages of a leaderboard without loading the page again; the address always says what is
// shown. Without this script the same links and the same form load the page.

import { parts } from "./live.js";
import { Refused } from "./connection-status.js";

const rows = parts.find((part) => part.element.id === "rows");
const form = document.getElementById("filters");
const USUAL = "rank"; // the order that an address leaves out

let latest = 0;

async function go(address, { remember = true, back = false, top = false } = {}) {
  const turn = ++latest;
  const url = new URL(address, location.href);
  const source = new URL(rows.element.dataset.liveFrom, location.href);
  source.search = url.search;
  const from = source.pathname + source.search;
  try {
    const html = await rows.fetch(from);
    if (turn !== latest) return; // something else was asked for meanwhile
    rows.element.dataset.liveFrom = from;
    rows.show(html);
  } catch (error) {
    if (error instanceof Refused && error.status < 500 && !error.wait_s) location.assign(address); // a page that says what is wrong
    else rows.failed(error);
    return;
  }
  if (remember) history.pushState(null, "", url.pathname + url.search);
  if (top) document.getElementById("leaderboard").scrollIntoView();
  describe(url.searchParams, back);
}

// The form and the export links speak of the same trials as the rows; what was typed and not sent yet is left alone, unless
// the reader went back or forth.
const described = { where: form.elements.where.defaultValue, q: form.elements.q.defaultValue };

function describe(given, back) {
  form.querySelectorAll("[data-view]").forEach((field) => field.remove());
  for (const value of given.getAll("outcome")) {
    const field = Object.assign(document.createElement("input"), { type: "hidden", name: "outcome", value });
    field.dataset.view = "";
    form.append(field);
  }
  form.elements.sort.value = given.get("sort") ?? USUAL;
  for (const name of ["where", "q"]) {
    const field = form.elements[name], wanted = given.get(name) ?? "";
    if (back || field.value === described[name]) field.value = wanted;
    described[name] = wanted;
  }
  exported(given);
}

function exported(given) {
  const wanted = new URLSearchParams(given);
  wanted.delete("page");
  wanted.set("sort", given.get("sort") ?? USUAL);
  if (!given.has("outcome")) for (const kind of ["estimated", "measured"]) wanted.append("outcome", kind);
  for (const link of document.querySelectorAll(".exports a")) {
    if (given.get("outcome") === "all" && link.pathname.startsWith("/api/")) wanted.delete("outcome"); // what REST takes for all
    link.search = wanted.toString();
  }
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-rows]");
  if (!link || event.metaKey || event.ctrlKey || event.shiftKey || event.button !== 0) return;
  event.preventDefault();
  go(link.getAttribute("href"), { top: link.rel !== "" });
});

form.addEventListener("submit", (event) => {
  event.preventDefault();
  const typed = [...new FormData(form)].filter(([name, value]) => value !== "" && !(name === "sort" && value === USUAL));
  const given = new URLSearchParams(typed);
  go(`${form.getAttribute("action")}${given.size ? `?${given}` : ""}`);
});

form.elements.sort.addEventListener("change", () => form.requestSubmit());

// Two trials to compare: ticks outlast new rows and other pages; a third one takes the place of the first.
let ticked = [...rows.element.querySelectorAll(".tick :checked")].map((box) => box.value).slice(-2);

function showTicks() {
  for (const box of rows.element.querySelectorAll(".tick input")) box.checked = ticked.includes(box.value);
  const button = document.getElementById("compare");
  if (!button) return;
  const missing = 2 - ticked.length;
  button.disabled = missing > 0; // without scripts it never is: the service says what is missing
  button.textContent = missing ? "Compare" : `Compare ${ticked.join(" and ")}`;
  document.getElementById("to-tick").textContent = ["", "Tick one more trial to", "Tick two trials to"][missing];
}

rows.element.addEventListener("change", ({ target }) => {
  if (target.name !== "trial") return;
  const others = ticked.filter((place) => place !== target.value);
  ticked = target.checked ? [...others.slice(-1), target.value] : others;
  showTicks();
});

document.addEventListener("submit", (event) => {
  if (event.target.id !== "pick" || ticked.length !== 2) return;
  event.preventDefault();
  location.assign(`/compare?${new URLSearchParams({ left: ticked[0], right: ticked[1] })}`);
});

rows.element.addEventListener("shown", showTicks);
showTicks();
window.addEventListener("pageshow", () => { // by now the browser has ticked again what was ticked when the page was left
  const boxes = [...rows.element.querySelectorAll(".tick :checked")].map((box) => box.value);
  ticked = [...new Set([...ticked, ...boxes])].slice(-2);
  showTicks();
});

window.addEventListener("popstate", () => go(location.href, { remember: false, back: true }));

document.getElementById("news").addEventListener("click", () => go(location.href, { remember: false }));

function step(by) {
  const links = [...rows.element.querySelectorAll("a.trial")];
  const place = links.indexOf(document.activeElement);
  links[place < 0 ? 0 : Math.min(links.length - 1, Math.max(0, place + by))]?.focus();
}

function compare() {
  const button = document.getElementById("compare");
  if (button?.disabled) document.getElementById("spoken").textContent = `${document.getElementById("to-tick").textContent} compare`;
  button?.click();
}

const KEYS = {
  "/": () => form.elements.q.focus(),
  j: () => step(1),
  k: () => step(-1),
  n: () => document.getElementById("next")?.click(),
  p: () => document.getElementById("previous")?.click(),
  r: () => document.getElementById("news").click(),
  x: () => document.activeElement?.closest("#rows tr")?.querySelector(".tick input")?.click(),
  c: compare,
};

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && event.target.form === form) {
    event.preventDefault(); // a browser would wipe what was typed
    event.target.blur();
  }
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input:not([type=checkbox]), select, textarea")) return;
  const act = KEYS[event.key];
  if (!act) return;
  event.preventDefault();
  act();
});

exported(new URLSearchParams(location.search));
