// Updates the content of an element to new HTML by changing only the nodes that differ. Unchanged nodes are kept, with their focus,
// selected text, ticks and opened details.

/** Returns the text that identifies a node among its siblings, or an empty string if only its position identifies it.
 * @param {Node} node */
function name(node) {
  if (!(node instanceof Element)) return "";
  return node.id || node.getAttribute("aria-labelledby") || (node.localName === "a" ? node.getAttribute("href") : "") || "";
}

/** The reader's selection. It is read once per update, because reading it after a change makes the browser compute the layout.
 * @type {Selection | null} */
let selection = null;

/** Returns true if the reader uses a node: it contains selected text, or is a list item with the focus. Such a node is not changed.
 * @param {Node} node */
function used(node) {
  if (selection?.containsNode(node, true)) return true;
  return node instanceof HTMLLIElement && node.contains(document.activeElement);
}

/** Updates an element. Returns true if all differences were applied. Nodes that the reader uses are changed by a later update.
 * @param {Element} element
 * @param {string} html HTML from the service, which escapes the text of users */
export function morph(element, html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  const present = document.getSelection();
  selection = present?.isCollapsed ? null : present;
  const focused = document.activeElement instanceof HTMLElement && element.contains(document.activeElement) ? document.activeElement : null;
  const whole = children(element, template.content);
  if (focused?.isConnected && focused !== document.activeElement) focused.focus({ preventScroll: true }); // the focused node was moved
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

/** Returns the existing node to change into a new node: the node with the same name, or the next node without a name.
 * @param {Node} fresh
 * @param {ChildNode | null} place
 * @param {Map<string, ChildNode>} named
 * @returns {ChildNode | null} */
function counterpart(fresh, place, named) {
  const own = name(fresh);
  if (own) {
    const old = named.get(own);
    named.delete(own); // if two new nodes have the same name, only the first replaces the existing node
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
