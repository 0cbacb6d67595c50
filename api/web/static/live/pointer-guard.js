// Delays changes of the page while a pointer is down. A click counts only if it ends on the node where it began, so a node
// that is replaced under a pressed pointer would lose the click.

const SETTLE_MS = 100; // the click event follows pointerup

let up = Promise.resolve();
let release = () => {};

window.addEventListener("pointerdown", () => {
  release();
  up = new Promise((done) => { release = () => setTimeout(done, SETTLE_MS); });
}, true);
for (const name of ["pointerup", "pointercancel"]) window.addEventListener(name, () => release(), true);
window.addEventListener("blur", () => release());

// Waits until no pointer is down.
export async function pointerUp() {
  for (let seen = null; seen !== up;) {
    seen = up;
    await seen;
  }
}
