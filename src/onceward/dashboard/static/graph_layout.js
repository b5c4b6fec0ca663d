// Where the boxes of the graph go: from left to right in layers, cycles allowed. Pure: sizes in, places out.

const ACROSS = 86; // between layers: room for what is written on an edge
const DOWN = 26; // between boxes of a layer
const BETWEEN = 40; // between parts that are not joined
const BELOW = 26; // each edge that leads back runs below its part
const ASIDE = 28; // and turns on the right of it
const SWEEPS = 6;
const WIDEST = 1180;

/** `nodes`: [{id, w, h}], `edges`: [{from, to}]. Places of nodes are their upper left corners. */
export function layout(nodes, edges) {
  const ids = new Set(nodes.map((it) => it.id));
  const used = edges.filter((it) => ids.has(it.from) && ids.has(it.to));
  const parts = components(nodes, used).map((part) => arranged(part.nodes, part.edges));
  parts.sort((one, other) => other.count - one.count || one.first - other.first);
  return packed(parts);
}

function components(nodes, edges) {
  const root = new Map(nodes.map((it) => [it.id, it.id]));
  const find = (id) => {
    while (root.get(id) !== id) { root.set(id, root.get(root.get(id))); id = root.get(id); }
    return id;
  };
  for (const { from, to } of edges) root.set(find(from), find(to));
  const parts = new Map();
  nodes.forEach((it, number) => {
    const key = find(it.id);
    if (!parts.has(key)) parts.set(key, { nodes: [], edges: [] });
    parts.get(key).nodes.push({ ...it, number });
  });
  for (const edge of edges) parts.get(find(edge.from)).edges.push(edge);
  return [...parts.values()];
}

function arranged(nodes, edges) {
  const back = backward(nodes, edges);
  const forward = edges.filter((it) => !back.has(it));
  const layers = layered(nodes, forward);
  const chains = forward.map((edge) => ({ edge, ids: [edge.from, ...stretched(edge, layers), edge.to] }));
  const links = chains.flatMap(({ ids }) => ids.slice(1).map((id, at) => [ids[at], id]));
  ordered(layers, links);
  positioned(layers, links);
  return measured(nodes, layers, chains, [...back]);
}

/** The edges that close a cycle, found by walking from the sources in the order in which nodes are given. */
function backward(nodes, edges) {
  const out = new Map(nodes.map((it) => [it.id, []]));
  const entered = new Map(nodes.map((it) => [it.id, 0]));
  for (const edge of edges) {
    out.get(edge.from).push(edge);
    entered.set(edge.to, entered.get(edge.to) + 1);
  }
  const back = new Set();
  const state = new Map();
  const roots = [...nodes].sort((one, other) => entered.get(one.id) - entered.get(other.id) || one.number - other.number);
  for (const { id } of roots) {
    if (state.has(id)) continue;
    const path = [[id, 0]];
    state.set(id, "open");
    while (path.length) {
      const top = path.at(-1);
      const edge = out.get(top[0])[top[1]++];
      if (!edge) { state.set(top[0], "over"); path.pop(); continue; }
      if (state.get(edge.to) === "open") back.add(edge);
      else if (!state.has(edge.to)) { state.set(edge.to, "open"); path.push([edge.to, 0]); }
    }
  }
  return back;
}

/** Each node one layer behind the last of those it follows; what only feeds others stands right before them. */
function layered(nodes, edges) {
  const depth = new Map(nodes.map((it) => [it.id, 0]));
  for (let changed = true, rounds = 0; changed && rounds <= nodes.length; rounds++) {
    changed = false;
    for (const { from, to } of edges) {
      if (depth.get(to) <= depth.get(from)) { depth.set(to, depth.get(from) + 1); changed = true; }
    }
  }
  const fed = new Set(edges.map((it) => it.to));
  for (const { id } of nodes) {
    const next = edges.filter((it) => it.from === id).map((it) => depth.get(it.to));
    if (!fed.has(id) && next.length) depth.set(id, Math.min(...next) - 1);
  }
  const layers = Array.from({ length: Math.max(...depth.values()) + 1 }, () => []);
  for (const it of nodes) layers[depth.get(it.id)].push({ id: it.id, w: it.w, h: it.h, y: 0 });
  return layers;
}

/** A place to pass through in each layer between the two ends. */
function stretched(edge, layers) {
  const at = (id) => layers.findIndex((layer) => layer.some((it) => it.id === id));
  const ids = [];
  for (let layer = at(edge.from) + 1; layer < at(edge.to); layer++) {
    const id = `${edge.from}\u0000${edge.to}\u0000${layer}`;
    layers[layer].push({ id, w: 0, h: 10, y: 0, passing: true });
    ids.push(id);
  }
  return ids;
}

/** Fewer crossings: each layer by the middle of what it is joined to, to and fro. */
function ordered(layers, links) {
  const { before, after } = joined(links);
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const down = sweep % 2 === 0;
    const rows = down ? layers.slice(1) : layers.slice(0, -1).reverse();
    const place = new Map(layers.flatMap((layer) => layer.map((it, at) => [it.id, at / Math.max(1, layer.length)])));
    for (const layer of rows) {
      const wanted = new Map(layer.map((it) => [it.id, mean((down ? before : after).get(it.id), place) ?? place.get(it.id)]));
      layer.sort((one, other) => wanted.get(one.id) - wanted.get(other.id));
      layer.forEach((it, at) => place.set(it.id, at / Math.max(1, layer.length)));
    }
  }
}

function joined(links) {
  const before = new Map();
  const after = new Map();
  const note = (map, key, value) => (map.has(key) ? map.get(key).push(value) : map.set(key, [value]));
  for (const [from, to] of links) { note(before, to, from); note(after, from, to); }
  return { before, after };
}

function mean(ids, places) {
  return ids?.length ? ids.reduce((all, id) => all + places.get(id), 0) / ids.length : null;
}

/** Straight where it can be: each box to the middle of its neighbours, as far as the others of its layer let it. */
function positioned(layers, links) {
  const { before, after } = joined(links);
  const middles = new Map();
  for (const layer of layers) {
    let y = 0;
    for (const it of layer) { it.y = y; middles.set(it.id, y + it.h / 2); y += it.h + DOWN; }
  }
  for (let sweep = 0; sweep < SWEEPS * 2; sweep++) {
    const down = sweep % 2 === 0;
    for (const layer of down ? layers : [...layers].reverse()) {
      const goals = layer.map((it) => mean((down ? before : after).get(it.id), middles) ?? middles.get(it.id));
      settle(layer, goals);
      for (const it of layer) middles.set(it.id, it.y + it.h / 2);
    }
  }
}

/** As near to the goals as their order and the gaps allow: pushed down from above, up from below, and the mean of both. */
function settle(layer, goals) {
  const low = [];
  const high = [];
  layer.forEach((it, at) => {
    const floor = at ? low[at - 1] + layer[at - 1].h + DOWN : -Infinity;
    low.push(Math.max(goals[at] - it.h / 2, floor));
  });
  for (let at = layer.length - 1; at >= 0; at--) {
    const roof = at < layer.length - 1 ? high[at + 1] - layer[at].h - DOWN : Infinity;
    high[at] = Math.min(goals[at] - layer[at].h / 2, roof);
  }
  layer.forEach((it, at) => { it.y = (low[at] + high[at]) / 2; });
}

function measured(nodes, layers, chains, back) {
  const all = layers.flat();
  const top = Math.min(...all.map((it) => it.y));
  const bottom = Math.max(...all.map((it) => it.y + it.h)) - top;
  const places = new Map();
  let x = 0;
  for (const layer of layers) {
    const wide = Math.max(...layer.map((it) => it.w));
    for (const it of layer) {
      places.set(it.id, { x: x + (wide - (it.passing ? wide : it.w)) / 2, y: it.y - top, w: it.passing ? wide : it.w, h: it.h });
    }
    x += wide + ACROSS;
  }
  const routes = chains.map(({ edge, ids }) => ({ edge, points: points(ids.map((id) => places.get(id))) }));
  back.forEach((edge, number) => routes.push({ edge, back: true, low: bottom + BELOW * (number + 1), points: points([places.get(edge.from), places.get(edge.to)]) }));
  return {
    nodes: new Map(nodes.map((it) => [it.id, places.get(it.id)])),
    edges: routes,
    w: x - ACROSS + (back.length ? ASIDE : 0),
    h: bottom + (back.length ? BELOW * back.length + 8 : 0),
    count: nodes.length,
    first: Math.min(...nodes.map((it) => it.number)),
  };
}

function points(boxes) {
  const found = [];
  boxes.forEach((it, at) => {
    const y = it.y + it.h / 2;
    if (at > 0) found.push([it.x, y]);
    if (at < boxes.length - 1) found.push([it.x + it.w, y]);
  });
  return found;
}

/** Parts in rows: beside each other where they fit. */
function packed(parts) {
  const limit = Math.max(WIDEST, ...parts.map((it) => it.w));
  const made = { nodes: new Map(), edges: [], width: 0, height: 0 };
  let x = 0, y = 0, tall = 0;
  for (const part of parts) {
    if (x > 0 && x + part.w > limit) { y += tall + BETWEEN; x = 0; tall = 0; }
    for (const [id, at] of part.nodes) made.nodes.set(id, { ...at, x: at.x + x, y: at.y + y });
    for (const it of part.edges) {
      made.edges.push({ ...it, low: it.back ? it.low + y : undefined, points: it.points.map(([px, py]) => [px + x, py + y]) });
    }
    made.width = Math.max(made.width, x + part.w);
    made.height = Math.max(made.height, y + part.h);
    tall = Math.max(tall, part.h);
    x += part.w + BETWEEN * 2;
  }
  return made;
}
