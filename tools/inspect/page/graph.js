// The graph of a function or kernel: loops folded until they are opened, views and numbers left out of the way; pan with the
// mouse, zoom with the wheel, open a loop with a double click. Only what is seen is drawn.

const opened = new Set(); // loops and groups that are unfolded: "stage data:op"
const key = id => meta.stages[state.stage].data + ":" + id;
const textWidth = (text, size = 7.1) => Math.min(230, text.length * size);

class Graph {
  constructor(parent) {
    this.svg = svg("svg", {class: "graph", tabindex: 0, role: "img", "aria-label": "Graph of operations"});
    this.world = svg("g");
    this.svg.append(this.world);
    this.tools = h("div.graphtools", {},
      h("button", {title: "Fit (0)", id: "fit", click: () => this.fit()}, "fit"),
      h("button", {title: "Nearer (+)", click: () => this.zoom(1.3)}, "+"), h("button", {title: "Farther (−)", click: () => this.zoom(1 / 1.3)}, "−"),
      h("button", {id: "unfold", title: "Open or close all loops (l)", click: () => this.toggleAll()}, "layers"),
      h("label", {title: "Operations that move nothing: new names, splits, merges"},
        h("input", {type: "checkbox", id: "views", checked: state.views, change: event => update({views: event.target.checked})}), "views"),
      currentRun() && loadStage(state.stage) === lastStage() ? h("label", {title: "What each launch took in the measured run"},
        h("input", {type: "checkbox", id: "heat", checked: state.heat, change: event => update({heat: event.target.checked})}), "time") : null);
    parent.append(this.svg, this.tools);
    this.view = {x: 0, y: 0, scale: 1};
    this.drawn = new Map();
    this.listen();
    this.build();
    new ResizeObserver(() => { if (!this.placed) this.home(); this.draw(); }).observe(this.svg);
  }

  // ---- what there is

  build() {
    this.stage = loadStage(state.stage);
    this.root = this.stage.symbols.find(op => op.s === state.symbol) || this.stage.symbols[0];
    this.boxes = [];
    this.edges = [];
    this.boxOf = new Map();
    const block = this.block(this.root);
    this.size = block;
    this.flatten(block, 0, 0, 0);
  }

  /// The block of a function, kernel or loop, laid out: {w, h, nodes, edges}.
  block(owner) {
    const stage = this.stage, nodes = [], stands = new Map();
    const hidden = op => op.n === "const" || op.n === "size" || (views.has(op.n) && !state.views);
    // What an operand leads to: through what is hidden, to nodes of this block or arguments.
    const sources = operand => {
      if (typeof operand === "string") {
        const [of, number] = operand.split(".");
        return Number(of) === owner.id ? ["a" + operand] : [];
      }
      if (stands.has(operand)) return [stands.get(operand)];
      const op = stage.ops[operand];
      return op.p === owner.id && hidden(op) ? op.a.flatMap(sources) : [];
    };
    const everything = op => [...op.a, ...op.children.flatMap(everything)];
    const used = new Set(owner.children.flatMap(op => op.a.flatMap(sources).filter(id => typeof id === "string")));
    (owner.b || []).forEach((type, i) => {
      const id = `a${owner.id}.${i}`;
      if (!used.has(id) && owner.n !== "repeat" && !owner.children.some(op => op.children.length)) return;
      const title = owner.names && owner.names[i] ? owner.names[i] : owner.n === "repeat" ? "carried" : "argument " + i;
      nodes.push(this.node({id, title, sub: shapeOf(type), kind: "frame", preds: [], argument: true, type}));
    });
    for (const group of groupIterations(owner.children, stage)) {
      const op = group[0], id = group.length > 1 ? "g" + op.id : op.id;
      const folded = group.length > 1 && !opened.has(key(id));
      const members = folded ? [group] : group.map(one => [one]);
      for (const member of members) {
        const first = member[0];
        if (hidden(first)) continue;
        const nodeId = folded ? id : first.id;
        for (const one of member) stands.set(one.id, nodeId);
        const preds = member.flatMap(one => everything(one).flatMap(sources)).filter(pred => pred !== nodeId);
        nodes.push(this.opNode(first, nodeId, preds, folded ? member.length : 1, group.length > 1));
      }
    }
    const laid = layoutNodes(nodes);
    return {...laid, nodes};
  }

  node(node) {
    const took = state.heat && node.op ? tookOf(node.op, this.stage) : null;
    if (took) {
      node.heat = warmth(took.seconds / callSeconds(currentRun()));
      node.sub = `${seconds(took.seconds)} · ${percent(took.seconds / callSeconds(currentRun()))}`;
    }
    node.w = Math.max(54, 26 + Math.max(textWidth(node.title), textWidth(node.sub || "", 5.9)));
    node.h = node.sub ? 40 : 26;
    return node;
  }

  opNode(op, id, preds, times, grouped) {
    const kind = kindOf(op, this.stage);
    if (op.n === "repeat") {
      const iterations = times > 1 ? times : op.t;
      const open = times === 1 && opened.has(key(op.id));
      const title = times > 1 ? `${times} layers` : op.t > 1 ? `${op.t} layers` : "layer";
      const node = this.node({id, op, preds, kind, title, sub: `${op.children.length - 1} operations each`, iterations, folds: true, grouped});
      if (times === 1 && node.heat === undefined) node.sub = `${op.children.length - 1} operations`;
      node.foldKey = key(id);
      node.w += 22;
      if (open) {
        node.inner = this.block(op);
        node.w = Math.max(node.inner.w + 28, node.w);
        node.h = node.inner.h + 50;
      }
      return node;
    }
    const numbers = op.a.filter(a => typeof a === "number").map(a => this.stage.ops[a]).filter(a => a.n === "const").map(a => a.v);
    let title = titleOf(op);
    if (numbers.length && kindOfName[op.n] === undefined) title += " " + numbers.join(" ");
    if (op.n === "reduce" || op.n === "compare") title = op.n + " " + op.v;
    const small = op.n === "param" || op.n === "index";
    return this.node({id, op, preds, kind, title, sub: shapeOf(op.r[0]), small, late: small || op.n === "recall", pill: op.n === "param"});
  }

  flatten(block, dx, dy, depth) {
    for (const edge of block.edges) {
      const points = edge.points.map(([x, y]) => [x + dx, y + dy]), xs = points.map(point => point[0]);
      this.edges.push({...edge, points, left: Math.min(...xs), right: Math.max(...xs)});
    }
    for (const node of block.nodes) {
      node.x += dx, node.y += dy, node.depth = depth;
      this.boxes.push(node);
      this.boxOf.set(node.id, node);
      if (node.inner) this.flatten(node.inner, node.x + (node.w - node.inner.w) / 2, node.y + 38, depth + 1);
    }
  }

  /// Opens what hides an operation, so that it can be shown.
  reveal(id) {
    const chain = [];
    for (let op = this.stage.ops[id]; op && op.p >= 0; op = this.stage.ops[op.p]) chain.push(op);
    let changed = false;
    for (const op of chain.slice(1)) {
      if (op.n !== "repeat") continue;
      if (!opened.has(key(op.id))) { opened.add(key(op.id)); changed = true; }
      const group = groupIterations(this.stage.ops[op.p].children, this.stage).find(one => one.includes(op));
      if (group.length > 1 && !opened.has(key("g" + group[0].id))) { opened.add(key("g" + group[0].id)); changed = true; }
    }
    if (changed) this.rebuild();
    const box = this.boxOf.get(id);
    if (box) this.centre(box);
  }

  rebuild() {
    this.build();
    this.world.replaceChildren();
    this.drawn.clear();
    this.draw();
  }

  toggle(box) {
    const before = {x: box.x * this.view.scale + this.view.x, y: box.y * this.view.scale + this.view.y};
    opened.has(box.foldKey) ? opened.delete(box.foldKey) : opened.add(box.foldKey);
    this.build();
    const after = this.boxOf.get(box.id) || this.boxOf.get(box.op.id);
    if (after) {
      this.view.x = before.x - after.x * this.view.scale;
      this.view.y = before.y - after.y * this.view.scale;
      // What was opened is wider than it was: it goes to the middle, and as high as there is room above it.
      const room = this.svg.clientWidth - after.w * this.view.scale;
      if (after.inner) this.view.x = room / 2 - after.x * this.view.scale;
      if (after.inner && after.h * this.view.scale + before.y > this.svg.clientHeight) this.view.y += Math.min(0, 90 - before.y);
    }
    this.world.replaceChildren();
    this.drawn.clear();
    this.draw();
  }

  toggleAll() {
    const loops = this.boxes.filter(box => box.folds);
    const anyFolded = loops.some(box => !opened.has(box.foldKey));
    for (const box of loops) anyFolded ? opened.add(box.foldKey) : opened.delete(box.foldKey);
    this.rebuild();
    this.home();
    this.draw();
  }

  // ---- where one looks

  home() {
    const {clientWidth: w, clientHeight: hgt} = this.svg;
    if (!w || !hgt) return;
    this.placed = true;
    const scale = Math.min(1, Math.max(0.45, Math.min((w - 60) / this.size.w, (hgt - 70) / this.size.h)));
    this.view = {scale, x: (w - this.size.w * scale) / 2, y: Math.max(24, (hgt - this.size.h * scale) / 2)};
    if (this.size.h * scale > hgt - 48) this.view.y = 24;
  }
  fit() {
    const {clientWidth: w, clientHeight: hgt} = this.svg;
    const scale = Math.min(1.4, (w - 40) / this.size.w, (hgt - 60) / this.size.h);
    this.view = {scale, x: (w - this.size.w * scale) / 2, y: (hgt - this.size.h * scale) / 2};
    this.draw();
  }
  centre(box) {
    const {clientWidth: w, clientHeight: hgt} = this.svg;
    if (this.view.scale < 0.5) this.view.scale = 0.8;
    this.view.x = w / 2 - (box.x + box.w / 2) * this.view.scale;
    this.view.y = hgt / 2 - (box.y + Math.min(box.h, 80) / 2) * this.view.scale;
    this.placed = true;
    this.draw();
  }
  zoom(factor, x = this.svg.clientWidth / 2, y = this.svg.clientHeight / 2) {
    const scale = Math.min(3, Math.max(0.03, this.view.scale * factor));
    this.view.x = x - (x - this.view.x) * scale / this.view.scale;
    this.view.y = y - (y - this.view.y) * scale / this.view.scale;
    this.view.scale = scale;
    this.draw();
  }
  listen() {
    let from = null;
    this.svg.addEventListener("wheel", event => {
      event.preventDefault();
      const box = this.svg.getBoundingClientRect();
      if (event.ctrlKey || !event.shiftKey && Math.abs(event.deltaY) >= Math.abs(event.deltaX))
        this.zoom(Math.exp(-event.deltaY * 0.0016), event.clientX - box.left, event.clientY - box.top);
      else this.pan(-event.deltaX, -event.deltaY);
    }, {passive: false});
    this.svg.addEventListener("pointerdown", event => { from = {x: event.clientX, y: event.clientY, moved: false}; });
    this.svg.addEventListener("pointermove", event => {
      if (!from || !event.buttons) return;
      const dx = event.clientX - from.x, dy = event.clientY - from.y;
      if (!from.moved && Math.hypot(dx, dy) < 4) return;
      from.moved = true;
      from.x = event.clientX, from.y = event.clientY;
      this.pan(dx, dy);
    });
    this.svg.addEventListener("click", event => {
      if (from && from.moved) return;
      const box = this.hit(event.target);
      if (event.target.closest && event.target.closest(".unfold")) return this.toggle(box);
      if (box && box.op) update({op: box.op.id, keepView: true});
    });
    this.svg.addEventListener("dblclick", event => {
      const box = this.hit(event.target);
      if (box && box.folds) this.toggle(box);
    });
  }
  hit(target) {
    const element = target.closest && target.closest("[data-box]");
    return element ? this.boxOf.get(isNaN(element.dataset.box) ? element.dataset.box : Number(element.dataset.box)) : null;
  }
  pan(dx, dy) {
    this.view.x += dx, this.view.y += dy;
    this.draw();
  }

  // ---- drawing

  draw() {
    const {x, y, scale} = this.view, w = this.svg.clientWidth, hgt = this.svg.clientHeight;
    this.world.setAttribute("transform", `translate(${x} ${y}) scale(${scale})`);
    this.svg.classList.toggle("far", scale < 0.4);
    const left = -x / scale - 80, top = -y / scale - 80, right = (w - x) / scale + 80, bottom = (hgt - y) / scale + 80;
    const want = new Set();
    const layer = (name, item, seen, make) => {
      if (!seen) return;
      want.add(name);
      if (!this.drawn.has(name)) {
        const element = make(item);
        this.drawn.set(name, element);
        this.world.append(element);
      }
    };
    const few = this.edges.length < 3000; // from far away thousands of edges are grey mist, and slow
    const inView = box => box.x < right && box.x + box.w > left && box.y < bottom && box.y + box.h > top;
    for (const box of this.boxes) if (box.inner) layer("b" + box.id, box, inView(box), item => this.drawBox(item));
    this.edges.forEach((edge, i) => {
      const first = edge.points[0], last = edge.points[edge.points.length - 1];
      const inside = first[1] < bottom && last[1] > top && edge.left < right && edge.right > left;
      layer("e" + i, edge, inside && (scale > 0.12 || few), item => this.drawEdge(item));
    });
    for (const box of this.boxes) if (!box.inner) layer("b" + box.id, box, inView(box), item => this.drawBox(item));
    for (const [name, element] of this.drawn) if (!want.has(name)) { element.remove(); this.drawn.delete(name); }
    this.mark();
  }

  /// Shows which operation is chosen and what flows in and out of it.
  mark() {
    const chosen = this.boxes.find(box => box.op && box.op.id === state.op);
    for (const [name, element] of this.drawn) {
      const edge = name[0] === "e" ? this.edges[Number(name.slice(1))] : null;
      if (edge) {
        element.classList.toggle("in", !!chosen && edge.to === chosen.id);
        element.classList.toggle("out", !!chosen && edge.from === chosen.id);
      } else element.classList.toggle("chosen", !!chosen && name === "b" + chosen.id);
    }
  }

  drawEdge(edge) {
    // Hermite through the bends; it leaves and arrives straight down.
    const points = edge.points, last = points.length - 1;
    const lean = i => i === 0 || i === last ? 0 : (points[i + 1][0] - points[i - 1][0]) / (points[i + 1][1] - points[i - 1][1]);
    let path = `M${points[0][0]} ${points[0][1]}`;
    for (let i = 0; i < last; ++i) {
      const [x, y] = points[i], [nx, ny] = points[i + 1], reach = (ny - y) / (last === 1 ? 2 : 2.6);
      path += `C${x + lean(i) * reach} ${y + reach} ${nx - lean(i + 1) * reach} ${ny - reach} ${nx} ${ny}`;
    }
    return svg("path", {d: path, class: edge.bus ? "edge bus" : "edge"});
  }

  drawBox(box) {
    const group = svg("g", {class: `box k-${box.kind}${box.argument ? " argument" : ""}${box.pill ? " pill" : ""}${box.folds ? " loop" : ""}${box.heat > 0.6 && !box.inner ? " over" : ""}`,
      transform: `translate(${box.x} ${box.y})`, "data-box": box.id, "data-title": box.title});
    const hint = svg("title");
    hint.textContent = box.op ? `${box.op.n === "param" ? box.op.v : box.title}\n${box.op.r[0] || ""}\n${lineOf(box.op.o)}` : box.type;
    const radius = box.pill || box.argument ? 13 : 7;
    if (box.folds && !box.inner)
      for (const shift of box.iterations > 1 ? [8, 4] : [])
        group.append(svg("rect", {class: "body", x: shift, y: shift, width: box.w, height: box.h, rx: radius}));
    const hot = box.heat !== undefined && !box.inner;
    group.append(hint, svg("rect", {class: box.inner ? "container" : hot ? "body hot" : "body", width: box.w, height: box.h, rx: radius,
      ...(hot ? {style: `--heat:${(100 * box.heat).toFixed(1)}%`} : {})}));
    if (!box.inner && !box.pill && !box.argument) group.append(svg("rect", {class: "bar", width: 5, height: box.h, rx: 2.5}));
    const middle = box.inner ? 17 : box.sub ? 17 : box.h / 2 + 4;
    const at = box.folds ? 32 : 14;
    group.append(label(box.title, at, middle, "name", box.w - at - 8));
    if (box.sub && !box.inner) group.append(label(box.sub, at, 32, "sub", box.w - at - 8));
    if (box.folds) {
      const button = svg("g", {class: "unfold", transform: `translate(18 ${box.inner ? 13 : box.h / 2})`});
      button.append(svg("circle", {r: 8}), svg("path", {d: box.inner ? "M-3 -1.5L0 2L3 -1.5" : "M-1.5 -3L2 0L-1.5 3"}));
      group.append(button);
    }
    return group;
  }
}

function svg(name, attributes = {}) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [attribute, value] of Object.entries(attributes)) element.setAttribute(attribute, value);
  return element;
}
function label(text, x, y, kind, room) {
  const element = svg("text", {x, y, class: kind});
  const most = Math.max(4, Math.floor(room / (kind === "name" ? 6.9 : 5.7)));
  element.textContent = text.length > most ? text.slice(0, most - 1) + "…" : text;
  return element;
}

/// Neighbouring loops with equal bodies together: before they are rolled, each layer is a loop of one iteration.
function groupIterations(children, stage) {
  const groups = [];
  let last = "";
  for (const op of children) {
    if (op.n === "param" || op.n === "const") { groups.push([op]); continue; }
    const shape = op.n === "repeat" ? op.t + ":" + op.children.map(child => child.n).join(" ") : "";
    const before = groups.findLast(group => !["param", "const"].includes(group[0].n));
    if (shape && shape === last && before) before.push(op);
    else groups.push([op]);
    last = shape;
  }
  return groups;
}
