// Sends requests to the service. If a request fails, the status line at the bottom of the page shows why the page is out of date.

import { find, root } from "../page.js";

const SLOW_MS = 5000;
const TIMEOUT_MS = 30000;
const SILENT = "The service does not answer.";
/** @type {Record<number, [message: string, link: string | null]>} */
const MESSAGES = { // by status
  401: ["You are signed out: your token or your session is no longer valid.", "Sign in"],
  403: ["You no longer have access to this page.", "Sign in with another token"],
  404: ["This item no longer exists.", "All searches"],
  429: ["The service limits the rate of requests.", null],
  503: ["The service is not ready.", null],
};

/** The service answered with an error. */
export class Refused extends Error {
  /** @param {Response} answer */
  constructor(answer) {
    const [message, link] = MESSAGES[answer.status] ?? [`The service answered with an error (${answer.status}).`, null];
    super(message);
    this.status = answer.status;
    /** Text of a link to another page. null if a later request may succeed. */
    this.link = link;
    /** Minimum number of seconds until the next request. */
    this.wait_s = Number(answer.headers.get("Retry-After")) || 0;
  }

  /** True if a repeated request would not succeed. */
  get final() {
    return this.link !== null;
  }

  /** URL of the link. */
  get address() {
    return this.status === 404 ? `${root}/` : `${root}/sign-in?next=${encodeURIComponent(location.pathname.slice(root.length) + location.search)}`;
  }
}

/** Returns the text of an answer. Throws an error that `showStatus` can show.
 * @param {object} source the part of the page that needs the answer. The status line shows if the answer takes long.
 * @param {string} address
 * @param {string} accept media type */
export async function ask(source, address, accept) {
  const slow = setTimeout(() => showStatus(source, new Error(SILENT)), SLOW_MS);
  try {
    const answer = await fetch(address, { headers: { Accept: accept }, signal: AbortSignal.timeout(TIMEOUT_MS) });
    if (!answer.ok) throw new Refused(answer);
    return await answer.text();
  } catch (error) {
    if (error instanceof Refused) throw error;
    const late = error instanceof DOMException && error.name === "TimeoutError";
    throw new Error(late ? SILENT : "The service cannot be reached.");
  } finally {
    clearTimeout(slow);
  }
}

/** Errors of the parts of the page that are out of date. The latest error is last.
 * @type {Map<object, Error>} */
const problems = new Map();
let updated = new Date(); // when the page was last known to be up to date

/** Records the error that makes a part of the page out of date, or null if the part is up to date. The status line shows the
 * latest error.
 * @param {object} source the part
 * @param {Error | null} error */
export function showStatus(source, error) {
  problems.delete(source);
  if (error) problems.set(source, error);
  else if (!problems.size) updated = new Date();
  show([...problems.values()].at(-1));
}

/** @param {Error | undefined} error */
function show(error) {
  const line = find("#connection-status");
  const message = error?.message ?? "";
  if (line.dataset.error === message) return;
  line.dataset.error = message;
  const age = `The page shows the state as of ${updated.toLocaleTimeString()}`;
  if (!error) line.replaceChildren();
  else if (error instanceof Refused && error.link !== null) {
    const link = Object.assign(document.createElement("a"), { href: error.address, textContent: error.link });
    line.replaceChildren(`${message} ${age}. `, link);
  } else line.replaceChildren(`${message} ${age} and updates again when the service answers.`);
}
