// A form that changes something is sent once, however often its button is pressed: two clicks start one search.

const PAUSE_MS = 3000; // then it may be sent again: the first one may have failed on its way

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.method !== "post") return;
  const now = performance.now();
  if (now - Number(form.dataset.sent ?? -PAUSE_MS) < PAUSE_MS) event.preventDefault();
  else form.dataset.sent = now;
});

window.addEventListener("pageshow", () => { // a page that the browser kept, and shows again
  for (const form of document.forms) delete form.dataset.sent;
});
