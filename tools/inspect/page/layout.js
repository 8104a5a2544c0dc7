// Where the operations of one block stand: rows by data flow (Sugiyama), values flowing down.
//
// Rows: the longest way from the inputs, parameters pulled down to their users. Order in a row: barycentres of the
// neighbours, a few sweeps. Positions: each node wants to stand below the mean of its neighbours; the nearest positions
// that keep order and gaps come from isotonic regression (pool adjacent violators), which is exact and linear.

const gapX = 18, gapY = 34;

/// nodes: [{id, w, h, preds: [ids], late}]; sets x, y (top left) and gives {w, h, edges: [{from, to, points}]}.
function layoutNodes(nodes) {
  const byId = new Map(nodes.map(node => [node.id, node]));
  for (const node of nodes) node.out = [];
  const links = [];
  for (const node of nodes)
    for (const id of new Set(node.preds)) {
      const from = byId.get(id);
      if (!from || from === node) continue;
      links.push({from, to: node});
      from.out.push(node);
    }
  // Nodes stand in the order of the text, so one pass is enough but for groups, which stand where their first member does.
  for (const node of nodes) node.rank = 0;
  for (let pass = 0, moved = true; moved && pass < 4; ++pass) {
    moved = false;
    for (const link of links)
      if (link.to.rank <= link.from.rank) { link.to.rank = link.from.rank + 1; moved = true; }
  }
  for (let i = nodes.length - 1; i >= 0; --i) {
    const node = nodes[i];
    if (node.late && node.out.length) node.rank = Math.max(node.rank, Math.min(...node.out.map(user => user.rank)) - 1);
  }
  const rows = [];
  const place = item => (rows[item.rank] ||= []).push(item);
  nodes.forEach(place);
  for (let i = 0; i < rows.length; ++i) rows[i] ||= [];

  // What is used all over (the angles of rotary positions, in every layer) would draw a curtain: such edges are shown only when
  // one of their ends is chosen.
  // Long edges pass through a bend in every row between, which keeps room for them.
  const bends = nodes.length < 1500;
  const near = item => item.near ||= {up: [], down: []};
  const join = (a, b) => { near(a).down.push(b); near(b).up.push(a); };
  nodes.forEach(near);
  for (const link of links) {
    link.way = [];
    link.bus = link.from.out.length > 8 && link.to.rank - link.from.rank > 1;
    if (link.bus) continue;
    let last = link.from;
    if (bends && link.to.rank - link.from.rank < 80)
      for (let rank = link.from.rank + 1; rank < link.to.rank; ++rank) {
        const bend = {bend: true, rank, w: 6, h: 0};
        place(bend);
        join(last, bend);
        link.way.push(bend);
        last = bend;
      }
    join(last, link.to);
  }
  rows.forEach(row => row.forEach((item, i) => { near(item); item.at = i; }));

  const sweeps = nodes.length < 1500 ? 10 : 2;
  for (let sweep = 0; sweep < sweeps; ++sweep) {
    const down = sweep % 2 === 0;
    for (let i = 0; i < rows.length; ++i) {
      const row = rows[down ? i : rows.length - 1 - i];
      for (const item of row) {
        const others = down ? item.near.up : item.near.down;
        item.key = others.length ? others.reduce((sum, other) => sum + other.at / rows[other.rank].length, 0) / others.length
          : item.at / row.length;
      }
      row.sort((a, b) => a.key - b.key || a.at - b.at);
      row.forEach((item, at) => { item.at = at; });
    }
  }

  for (const row of rows) {
    let x = 0;
    for (const item of row) { item.x = x; x += item.w + gapX; }
  }
  const centre = item => item.x + item.w / 2;
  for (let pass = 0; pass < (nodes.length < 1500 ? 16 : 4); ++pass) {
    const down = pass % 2 === 0;
    for (let i = 0; i < rows.length; ++i) {
      const row = rows[down ? i : rows.length - 1 - i];
      const wish = row.map(item => {
        const others = pass < 4 ? (down ? item.near.up : item.near.down) : [...item.near.up, ...item.near.down];
        if (!others.length) return {at: item.x, weight: 0.1};
        let sum = 0, weight = 0;
        for (const other of others) {
          const pull = (item.bend && other.bend ? 8 : item.bend || other.bend ? 2 : 1) * (other.small || item.small ? 0.3 : 1);
          sum += pull * centre(other);
          weight += pull;
        }
        return {at: sum / weight - item.w / 2, weight};
      });
      settle(row, wish);
    }
  }
  let left = Infinity;
  for (const row of rows) for (const item of row) left = Math.min(left, item.x);
  let y = 0, width = 0;
  for (const row of rows) {
    const height = Math.max(0, ...row.map(item => item.h));
    for (const item of row) {
      item.x -= left;
      item.y = y + (item.late ? height - item.h : (height - item.h) / 2);
      width = Math.max(width, item.x + item.w);
    }
    y += height + gapY;
  }
  const edges = links.map(link => ({
    from: link.from.id, to: link.to.id, bus: link.bus,
    points: [[centre(link.from), link.from.y + link.from.h], ...link.way.map(bend => [centre(bend), bend.y]),
      [centre(link.to), link.to.y]],
  }));
  return {w: width || 1, h: Math.max(1, y - gapY), edges};
}

/// The positions nearest to what each item of a row wishes, in order and with gaps.
function settle(row, wish) {
  const groups = [];
  let offset = 0;
  row.forEach((item, i) => {
    groups.push({at: wish[i].at - offset, weight: wish[i].weight, from: i, offset});
    while (groups.length > 1 && groups[groups.length - 2].at > groups[groups.length - 1].at) {
      const last = groups.pop(), first = groups[groups.length - 1];
      first.at = (first.at * first.weight + last.at * last.weight) / (first.weight + last.weight);
      first.weight += last.weight;
    }
    offset += item.w + gapX;
  });
  offset = 0;
  let group = 0;
  row.forEach((item, i) => {
    while (group + 1 < groups.length && groups[group + 1].from <= i) ++group;
    item.x = groups[group].at + offset;
    offset += item.w + gapX;
  });
}
