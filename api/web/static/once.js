// A form that changes something is sent once, however often its button is pressed: two clicks start one search.

const PAUSE_MS = 3000; // then it may be sent again: the first one may have failed on its way

let sent = new WeakMap(); // form -> when

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.method !== "post") return;
  const now = performance.now();
  if (now - (sent.get(form) ?? -PAUSE_MS) < PAUSE_MS) event.preventDefault();
  else sent.set(form, now);
});

window.addEventListener("pageshow", () => { // a page that the browser kept, and shows again
  sent = new WeakMap();
});
