// Elements that a page is known to have.

/** Returns the first element inside another that a selector matches. Throws if there is none.
 * @param {ParentNode} within
 * @param {string} selector
 * @returns {HTMLElement} */
export function find(within, selector) {
  const found = within.querySelector(selector);
  if (!found) throw new Error(`this page has no ${selector}`);
  return /** @type {HTMLElement} */ (found);
}
