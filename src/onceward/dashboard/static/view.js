// Trees of plain objects, and the smallest change that makes the page like them.
// Text is always text: nothing here hands a string to the HTML parser, whatever it holds.

const SVG = "http://www.w3.org/2000/svg";
const shown = new WeakMap(); // node -> the properties it was given last
const drawn = new WeakMap(); // node -> what it was drawn from: the very same need not be compared again
const listening = new WeakMap(); // node -> its listeners by event

/** An element. `key` keeps it the same element when its neighbours change; `on` has listeners, `style` CSS properties. */
export function h(tag, props, ...children) {
  return { tag, props: props ?? {}, key: props?.key, children: flat(children) };
}

/** An element that somebody else draws: it is put in place and left alone. */
export function held(element) {
  return { element, key: element };
}

/** Make `parent` hold exactly these children. What has the focus keeps it. */
export function render(parent, ...children) {
  const focused = document.activeElement;
  fill(parent, flat(children));
  if (focused && focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true });
}

function flat(children) {
  return children.flat(Infinity).filter((it) => it !== null && it !== undefined && it !== false);
}

function fill(parent, wanted) {
  const keyed = new Map();
  for (const node of parent.childNodes) {
    const key = keyOf(node);
    if (key !== undefined) keyed.set(key, node);
  }
  let at = parent.firstChild;
  for (const it of wanted) {
    const node = reusable(it, at, keyed) ?? made(it, parent);
    if (node === at) at = at.nextSibling;
    else parent.insertBefore(node, at);
    update(node, it);
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

function keyOf(node) {
  const props = shown.get(node);
  return props === undefined ? undefined : props.key;
}

function reusable(it, at, keyed) {
  if (it.element) return it.element;
  if (it.key !== undefined) {
    const node = keyed.get(it.key);
    return node && node.localName === it.tag ? node : null;
  }
  if (!at || keyOf(at) !== undefined) return null;
  if (it.tag === undefined) return at.nodeType === Node.TEXT_NODE ? at : null;
  return at.localName === it.tag ? at : null;
}

function made(it, parent) {
  if (it.tag === undefined) return document.createTextNode(String(it));
  const drawn = it.tag === "svg" || parent.namespaceURI === SVG;
  return drawn ? document.createElementNS(SVG, it.tag) : document.createElement(it.tag);
}

function update(node, it) {
  if (it.element) {
    if (!shown.has(node)) shown.set(node, { key: it.key });
  } else if (it.tag === undefined) {
    const text = String(it);
    if (node.nodeValue !== text) node.nodeValue = text;
  } else if (drawn.get(node) !== it) {
    dress(node, it.props);
    fill(node, it.children);
    drawn.set(node, it);
  }
}

function dress(node, props) {
  const before = shown.get(node) ?? {};
  for (const name of Object.keys(before)) {
    if (!(name in props) && name !== "key" && name !== "on" && name !== "style") node.removeAttribute(name);
  }
  for (const [name, value] of Object.entries(props)) {
    if (name === "key") continue;
    if (name === "on") listen(node, value);
    else if (name === "style") place(node, before.style, value);
    else if (name === "value") { if (node.value !== value) node.value = value; }
    else if (value !== before[name]) attribute(node, name, value);
  }
  shown.set(node, props);
}

function attribute(node, name, value) {
  if (value === null || value === undefined || value === false) node.removeAttribute(name);
  else node.setAttribute(name, value === true ? "" : value);
}

function place(node, before, style) {
  for (const [name, value] of Object.entries(style ?? {})) {
    if (before?.[name] !== value) node.style.setProperty(name, value);
  }
}

function listen(node, listeners) {
  const known = listening.get(node) ?? {};
  for (const type of Object.keys(listeners)) {
    if (!(type in known)) node.addEventListener(type, dispatch);
  }
  listening.set(node, { ...known, ...listeners });
}

function dispatch(event) {
  listening.get(event.currentTarget)?.[event.type]?.(event);
}
