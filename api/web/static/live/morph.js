// Makes the content of an element equal to new markup by changing only what differs. A node that stays the same stays the very
// same node, with its focus, selected text and ticks, and with what the reader has opened.

/** Returns what identifies a node among its siblings; an empty string: only its position does.
 * @param {Node} node */
function name(node) {
  if (!(node instanceof Element)) return "";
  return node.id || node.getAttribute("aria-labelledby") || (node.localName === "a" ? node.getAttribute("href") : "") || "";
}

/** The reader's selection. It is read once: after each change of a node, reading it would lay the page out again.
 * @type {Selection | null} */
let selection = null;

/** Returns whether the reader uses a node: it has selected text, or is a list item with the focus. It then stays as it is.
 * @param {Node} node */
function used(node) {
  if (selection?.containsNode(node, true)) return true;
  return node instanceof HTMLLIElement && node.contains(document.activeElement);
}

/** Returns whether everything was changed. What the reader uses is left until the next time.
 * @param {Element} element
 * @param {string} html rendered by the service, which escapes what others wrote */
export function morph(element, html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  const present = document.getSelection();
  selection = present?.isCollapsed ? null : present;
  const focused = document.activeElement instanceof HTMLElement && element.contains(document.activeElement) ? document.activeElement : null;
  const whole = children(element, template.content);
  if (focused?.isConnected && focused !== document.activeElement) focused.focus({ preventScroll: true }); // it was moved
  return whole;
}

/** @param {Node} element
 * @param {Node} wanted */
function children(element, wanted) {
  const names = new Set([...wanted.childNodes].map(name));
  let whole = true;
  for (const old of [...element.childNodes]) if (name(old) && !names.has(name(old))) whole = removed(old) && whole;
  const named = new Map([...element.childNodes].filter(name).map((old) => [name(old), old]));
  /** @type {ChildNode | null} */
  let place = element.firstChild;
  for (const fresh of [...wanted.childNodes]) {
    const old = counterpart(fresh, place, named);
    if (!old) {
      element.insertBefore(fresh, place);
      continue;
    }
    while (place && place !== old && !name(place)) {
      /** @type {ChildNode | null} */
      const next = place.nextSibling;
      whole = removed(place) && whole;
      place = next;
    }
    if (place === old) place = old.nextSibling;
    else element.insertBefore(old, place);
    whole = alike(old, fresh) && whole;
  }
  while (place) {
    const next = place.nextSibling;
    whole = removed(place) && whole;
    place = next;
  }
  return whole;
}

/** Returns the node to change into a new one: the one of its name, or the next one without a name.
 * @param {Node} fresh
 * @param {ChildNode | null} place
 * @param {Map<string, ChildNode>} named
 * @returns {ChildNode | null} */
function counterpart(fresh, place, named) {
  const own = name(fresh);
  if (own) {
    const old = named.get(own);
    named.delete(own); // the first of two nodes with one name
    return old?.nodeName === fresh.nodeName ? old : null;
  }
  for (let old = place; old && !name(old); old = old.nextSibling) if (old.nodeName === fresh.nodeName) return old;
  return null;
}

/** @param {ChildNode} node */
function removed(node) {
  if (used(node)) return false;
  node.remove();
  return true;
}

/** @param {ChildNode} old
 * @param {ChildNode} fresh */
function alike(old, fresh) {
  if (old.isEqualNode(fresh)) return true;
  if (old instanceof Element && fresh instanceof Element) {
    attributes(old, fresh);
    return children(old, fresh);
  }
  if (used(old)) return false;
  old.nodeValue = fresh.nodeValue;
  return true;
}

/** @param {Element} old
 * @param {Element} fresh */
function attributes(old, fresh) {
  for (const { name: each, value } of fresh.attributes) if (old.getAttribute(each) !== value) old.setAttribute(each, value);
  for (const { name: each } of [...old.attributes]) {
    if (!fresh.hasAttribute(each) && !(each === "open" && old.localName === "details")) old.removeAttribute(each);
  }
}
