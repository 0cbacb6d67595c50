// Asking the service, and saying in words why what is shown is old, where asking fails.

const SLOW_MS = 5000;
const GIVEN_UP_MS = 30000;
const SILENT = "The service does not answer.";
const WORDS = {
  401: ["You are signed out: your token or your session is not valid any more.", "Sign in"],
  403: ["You may not see this any more.", "Sign in with another token"],
  404: ["This is not there any more.", "All searches"],
  429: ["The service wants to be asked less often.", null],
  503: ["The service is not ready.", null],
};

// The service answered, but not with what was asked for. `final`: to ask again would not help.
export class Refused extends Error {
  constructor(answer) {
    const [words, way] = WORDS[answer.status] ?? [`The service answered with an error (${answer.status}).`, null];
    super(words);
    this.status = answer.status;
    this.final = way !== null;
    this.way = way;
    this.wait_s = Number(answer.headers.get("Retry-After")) || 0;
  }

  get address() {
    return this.status === 404 ? "/" : `/sign-in?next=${encodeURIComponent(location.pathname + location.search)}`;
  }
}

// An answer's text. Raises what `tell` can say.
export async function ask(address, accept) {
  const slow = setTimeout(() => tell(new Error(SILENT)), SLOW_MS);
  try {
    const answer = await fetch(address, { headers: { Accept: accept }, signal: AbortSignal.timeout(GIVEN_UP_MS) });
    if (!answer.ok) throw new Refused(answer);
    return await answer.text();
  } catch (error) {
    if (error instanceof Refused) throw error;
    throw new Error(error.name === "TimeoutError" ? SILENT : "The service cannot be reached.");
  } finally {
    clearTimeout(slow);
  }
}

let since = new Date(); // what is shown is from then

// Says what is wrong, once; `tell(null)`: nothing is, any more.
export function tell(error) {
  const plight = document.getElementById("plight");
  if (!error) since = new Date();
  const old = `What is shown is from ${since.toLocaleTimeString()}`;
  const said = !error ? "" : error.final ? `${error.message} ${old}. ` : `${error.message} ${old}; it is asked for again by itself.`;
  if (plight.dataset.error === (error?.message ?? "")) return;
  plight.dataset.error = error?.message ?? "";
  plight.replaceChildren(said);
  if (error?.final) plight.append(Object.assign(document.createElement("a"), { href: error.address, textContent: error.way }));
}
