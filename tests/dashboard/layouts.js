// Random graphs, cycles and all: what is wrong with where their boxes are put.
  async () => {
const { layout } = await import("/static/graph_layout.js");
let seed = 7;
const dice = (n) => { seed = (seed * 1103515245 + 12345) % 2147483648; return seed % n; };
const wrong = [];
for (let run = 0; run < 40; run++) {
  const count = 1 + dice(60);
  const nodes = Array.from({ length: count }, (_, id) => ({ id: `n${id}`, w: 100 + dice(90), h: 30 + dice(30) }));
  const edges = Array.from({ length: dice(90) }, () => ({ from: `n${dice(count)}`, to: `n${dice(count + 1)}` }));
  const made = layout(nodes, edges);
  const boxes = nodes.map((it) => made.nodes.get(it.id));
  if (boxes.some((it) => !it || !Number.isFinite(it.x + it.y))) { wrong.push(`run ${run}: no place`); continue; }
  boxes.forEach((a, i) => boxes.forEach((b, j) => {
    if (i < j && a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h) wrong.push(`run ${run}: ${i} on ${j}`);
  }));
  const known = edges.filter((it) => it.to !== `n${count}`).length;
  if (made.edges.length !== known) wrong.push(`run ${run}: ${made.edges.length} of ${known} edges`);
}
return wrong.slice(0, 5);
}
