// Helpers for scripts: the path prefix, and the elements of the page.

/** The path prefix of the service behind a proxy; usually empty. */
export const root = document.documentElement.dataset.root || "";

/** Returns the first element that a selector matches. Throws if there is none.
 * @param {string} selector
 * @param {ParentNode} [within]
 * @returns {HTMLElement} */
export function find(selector, within = document) {
  const found = within.querySelector(selector);
  if (!found) throw new Error(`this page has no ${selector}`);
  return /** @type {HTMLElement} */ (found);
}
