// What lies under a pressed pointer is not changed before it is up again: else a press would end on another node than it
// began on, and count for nothing.

const SETTLED_MS = 100; // the click itself comes after the pointer is up

let up = Promise.resolve();
let release = () => {};

window.addEventListener("pointerdown", () => {
  release();
  up = new Promise((done) => { release = () => setTimeout(done, SETTLED_MS); });
}, true);
for (const name of ["pointerup", "pointercancel"]) window.addEventListener(name, () => release(), true);
window.addEventListener("blur", () => release());

// Waits until no pointer is down.
export async function pressOver() {
  for (let seen = null; seen !== up;) {
    seen = up;
    await seen;
  }
}
