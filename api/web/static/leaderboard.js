// Sorts, filters and pages a leaderboard without reloading the page. The page's URL always describes the shown trials.
// Without this script, the same links and the same form load a new page.

import { Refused } from "./live/connection-status.js";
import { parts } from "./live/live.js";
import { find, root } from "./page.js";

/** @typedef {import("./live/part.js").Part} Part */

const rows = /** @type {Part} */ (parts.find((part) => part.element.id === "rows"));
const form = /** @type {HTMLFormElement} */ (find("#filters"));
const sort = /** @type {HTMLSelectElement} */ (find("#sort"));
/** The text fields of the filters. @type {HTMLInputElement[]} */
const fields = ["where", "q"].map((name) => /** @type {HTMLInputElement} */ (form.elements.namedItem(name)));
const USUAL = "rank"; // the default order, which URLs omit

let latest = 0;

/** Shows the rows for a URL of this page.
 * @param {string} address
 * @param {{ remember?: boolean, back?: boolean, top?: boolean }} [how] `remember`: add the URL to the browser's history; `back`:
 * the reader moved within the history; `top`: scroll to the leaderboard */
async function go(address, { remember = true, back = false, top = false } = {}) {
  const turn = ++latest;
  const url = new URL(address, location.href);
  const source = new URL(rows.element.dataset.liveFrom ?? "", location.href);
  source.search = url.search;
  const from = source.pathname + source.search;
  try {
    const html = await rows.fetch(from);
    if (turn !== latest) return; // a newer request was sent in the meantime
    rows.element.dataset.liveFrom = from;
    rows.show(html);
  } catch (error) {
    if (error instanceof Refused && error.status < 500 && !error.wait_s) location.assign(address); // the page at this URL shows the error
    else rows.failed(/** @type {Error} */ (error));
    return;
  }
  if (remember) history.pushState(null, "", url.pathname + url.search);
  if (top) find("#leaderboard").scrollIntoView();
  describe(url.searchParams, back);
}

/** The values that the form showed last, by field name. @type {Map<string, string>} */
const described = new Map(fields.map((field) => [field.name, field.defaultValue]));

/** Sets the form and the export links to the filters of the shown trials. Text that was typed but not submitted is kept, unless the
 * reader moved within the history.
 * @param {URLSearchParams} given
 * @param {boolean} back */
function describe(given, back) {
  form.querySelectorAll("[data-view]").forEach((field) => field.remove());
  for (const value of given.getAll("outcome")) {
    const field = Object.assign(document.createElement("input"), { type: "hidden", name: "outcome", value });
    field.dataset.view = "";
    form.append(field);
  }
  sort.value = given.get("sort") ?? USUAL;
  for (const field of fields) {
    const wanted = given.get(field.name) ?? "";
    if (back || field.value === described.get(field.name)) field.value = wanted;
    described.set(field.name, wanted);
  }
  exported(given);
}

/** @param {URLSearchParams} given */
function exported(given) {
  const wanted = new URLSearchParams(given);
  wanted.delete("page");
  wanted.set("sort", given.get("sort") ?? USUAL);
  if (!given.has("outcome")) for (const kind of ["estimated", "measured"]) wanted.append("outcome", kind);
  for (const each of document.querySelectorAll(".exports a")) {
    const link = /** @type {HTMLAnchorElement} */ (each);
    if (given.get("outcome") === "all" && link.pathname.startsWith(`${root}/api/`)) wanted.delete("outcome"); // without this parameter, the REST API returns all trials
    link.search = wanted.toString();
  }
}

/** @param {Event} event */
const element = (event) => /** @type {HTMLElement} */ (event.target);

document.addEventListener("click", (event) => {
  const link = /** @type {HTMLAnchorElement | null} */ (element(event).closest("a[data-rows]"));
  if (!link || event.metaKey || event.ctrlKey || event.shiftKey || event.button !== 0) return;
  event.preventDefault();
  go(link.href, { top: link.rel !== "" });
});

form.addEventListener("submit", (event) => {
  event.preventDefault();
  const typed = [...new FormData(form)].map(([name, value]) => [name, String(value)]);
  const given = new URLSearchParams(typed.filter(([name, value]) => value !== "" && !(name === "sort" && value === USUAL)));
  go(`${form.getAttribute("action")}${given.size ? `?${given}` : ""}`);
});

sort.addEventListener("change", () => form.requestSubmit());

/** Returns the check boxes that select trials for a comparison.
 * @returns {HTMLInputElement[]} */
const boxes = () => [...rows.element.querySelectorAll(".tick input")].map((box) => /** @type {HTMLInputElement} */ (box));
const checked = () => boxes().filter((box) => box.checked).map((box) => box.value);

// The ticked trials, at most two. Ticks are kept when the rows or the page of the table change. A third tick replaces the first.
let ticked = checked().slice(-2);

/** Returns the button Compare, or null if the table has no rows.
 * @returns {HTMLButtonElement | null} */
const compareButton = () => document.querySelector("button#compare");

function showTicks() {
  for (const box of boxes()) box.checked = ticked.includes(box.value);
  const button = compareButton();
  if (!button) return;
  const missing = 2 - ticked.length;
  button.disabled = missing > 0; // without this script, the button is never disabled, and the service reports what is missing
  button.textContent = missing ? "Compare" : `Compare ${ticked.join(" and ")}`;
  find("#to-tick").textContent = ["", "Tick one more trial to", "Tick two trials to"][missing];
}

rows.element.addEventListener("change", (event) => {
  const box = /** @type {HTMLInputElement} */ (event.target);
  if (box.name !== "trial") return;
  const others = ticked.filter((trial) => trial !== box.value);
  ticked = box.checked ? [...others.slice(-1), box.value] : others;
  showTicks();
});

document.addEventListener("submit", (event) => {
  if (element(event).id !== "pick" || ticked.length !== 2) return;
  event.preventDefault();
  location.assign(`${root}/compare?${new URLSearchParams({ left: ticked[0], right: ticked[1] })}`);
});

rows.element.addEventListener("shown", showTicks);
showTicks();
window.addEventListener("pageshow", () => { // the browser has restored the ticks from before the reader left the page
  ticked = [...new Set([...ticked, ...checked()])].slice(-2);
  showTicks();
});

window.addEventListener("popstate", () => go(location.href, { remember: false, back: true }));

find("#news").addEventListener("click", () => go(location.href, { remember: false }));

/** Moves the focus by a number of trials.
 * @param {number} by */
function step(by) {
  /** @type {HTMLElement[]} */
  const links = [...rows.element.querySelectorAll("a.trial")].map((link) => /** @type {HTMLElement} */ (link));
  const present = links.findIndex((link) => link === document.activeElement);
  links[present < 0 ? 0 : Math.min(links.length - 1, Math.max(0, present + by))]?.focus();
}

function compare() {
  const button = compareButton();
  if (button?.disabled) find("#spoken").textContent = `${find("#to-tick").textContent} compare`;
  button?.click();
}

/** @param {string} id */
const press = (id) => document.getElementById(id)?.click();

/** @type {Record<string, () => void>} */
const KEYS = {
  "/": () => fields[1].focus(),
  j: () => step(1),
  k: () => step(-1),
  n: () => press("next"),
  p: () => press("previous"),
  r: () => press("news"),
  x: () => /** @type {HTMLElement | null} */ (document.activeElement?.closest("#rows tr")?.querySelector(".tick input"))?.click(),
  c: compare,
};

document.addEventListener("keydown", (event) => {
  const target = element(event);
  if (event.key === "Escape" && form.contains(target)) {
    event.preventDefault(); // browsers would clear the field
    target.blur();
  }
  if (event.ctrlKey || event.metaKey || event.altKey || target.closest("input:not([type=checkbox]), select, textarea")) return;
  const act = KEYS[event.key];
  if (!act) return;
  event.preventDefault();
  act();
});

exported(new URLSearchParams(location.search));
