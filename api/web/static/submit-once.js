// Prevents a form from being submitted twice: a double click on its button starts one search, not two.

const PAUSE_MS = 3000; // after this time, the form can be submitted again, because the first request may have failed

/** @type {WeakMap<HTMLFormElement, number>} */
let sent = new WeakMap(); // form -> time of its last submission

document.addEventListener("submit", (event) => {
  const form = /** @type {HTMLFormElement} */ (event.target);
  if (form.method !== "post") return;
  const now = performance.now();
  if (now - (sent.get(form) ?? -PAUSE_MS) < PAUSE_MS) event.preventDefault();
  else sent.set(form, now);
});

window.addEventListener("pageshow", () => { // the browser may restore a page from its cache
  sent = new WeakMap();
});
