// Makes the content of an element like new markup by changing what differs, and nothing else: what stays the same stays the
// very same node, with its focus, its marked text, its ticks and whatever the reader has opened.

// What a node is, wherever it stands among its siblings; others are told apart by their place.
function name(node) {
  if (node.nodeType !== Node.ELEMENT_NODE) return "";
  return node.id || node.getAttribute("aria-labelledby") || (node.localName === "a" ? node.getAttribute("href") : "") || "";
}

let marked = null; // the reader's selection, asked for once: while nodes change, each question would lay the page out anew

// The reader is at it: marked text stays as long as it is marked, and an item that has the focus until that moves on.
function used(node) {
  if (marked?.containsNode(node, true)) return true;
  return node.localName === "li" && node.contains(document.activeElement);
}

// Returns whether all of it is as wanted; what the reader is at is left until the next time.
export function morph(element, html) {
  const template = document.createElement("template");
  template.innerHTML = html; // our own page's part: the service escapes what others wrote
  const selection = document.getSelection();
  marked = selection?.isCollapsed ? null : selection;
  const focused = element.contains(document.activeElement) ? document.activeElement : null;
  const whole = children(element, template.content);
  if (focused?.isConnected && focused !== document.activeElement) focused.focus({ preventScroll: true }); // it was moved
  return whole;
}

function children(element, wanted) {
  const names = new Set([...wanted.childNodes].map(name));
  let whole = true;
  for (const old of [...element.childNodes]) if (name(old) && !names.has(name(old))) whole = removed(old) && whole;
  const named = new Map([...element.childNodes].filter(name).map((old) => [name(old), old]));
  let place = element.firstChild;
  for (const fresh of [...wanted.childNodes]) {
    const old = counterpart(fresh, place, named);
    if (!old) {
      element.insertBefore(fresh, place);
      continue;
    }
    while (place && place !== old && !name(place)) {
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

// The node that stands for this one already: of the same name, or among those without a name that come next.
function counterpart(fresh, place, named) {
  const own = name(fresh);
  if (own) {
    const old = named.get(own);
    named.delete(own); // a name that is there twice names the first
    return old?.nodeName === fresh.nodeName ? old : null;
  }
  for (let old = place; old && !name(old); old = old.nextSibling) if (old.nodeName === fresh.nodeName) return old;
  return null;
}

function removed(node) {
  if (used(node)) return false;
  node.remove();
  return true;
}

function alike(old, fresh) {
  if (old.isEqualNode(fresh)) return true;
  if (old.nodeType === Node.ELEMENT_NODE) {
    attributes(old, fresh);
    return children(old, fresh);
  }
  if (used(old)) return false;
  old.nodeValue = fresh.nodeValue;
  return true;
}

function attributes(old, fresh) {
  for (const { name: each, value } of fresh.attributes) if (old.getAttribute(each) !== value) old.setAttribute(each, value);
  for (const { name: each } of [...old.attributes]) {
    if (!fresh.hasAttribute(each) && !(each === "open" && old.localName === "details")) old.removeAttribute(each);
  }
}
