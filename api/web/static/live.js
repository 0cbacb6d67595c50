// Keeps what is marked `data-live-from` up to date, without moving what the reader looks at.

const EVERY_MS = 1500;

function openDetails(part) {
  return [...part.querySelectorAll("details[open]")].map((details) => details.id);
}

function show(part, html) {
  const open = openDetails(part);
  const focused = document.activeElement && part.contains(document.activeElement) ? document.activeElement.id : "";
  const scrolled = [...part.querySelectorAll(".scroll")].map((region) => region.scrollLeft);
  part.innerHTML = html;
  for (const id of open) document.getElementById(id)?.setAttribute("open", "");
  part.querySelectorAll(".scroll").forEach((region, place) => { region.scrollLeft = scrolled[place] ?? 0; });
  if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
}

function say(part) {
  const said = part.firstElementChild?.dataset.said;
  const spoken = document.getElementById("spoken");
  if (said && spoken.textContent !== said) spoken.textContent = said;
}

async function refresh(part) {
  const answer = await fetch(part.dataset.liveFrom, { headers: { Accept: "text/html" } });
  if (!answer.ok) return true;
  const html = await answer.text();
  if (html !== part.shown) {
    show(part, html);
    part.shown = html;
    say(part);
  }
  return part.firstElementChild?.dataset.live === "yes";
}

async function follow(part) {
  let goesOn = part.firstElementChild?.dataset.live === "yes";
  while (goesOn) {
    await new Promise((done) => setTimeout(done, EVERY_MS));
    if (document.hidden) continue;
    try {
      goesOn = await refresh(part);
      part.classList.remove("stale");
    } catch {
      part.classList.add("stale"); // the service is away: what is shown is old, and is tried again
    }
  }
}

document.querySelectorAll("[data-live-from]").forEach(follow);
