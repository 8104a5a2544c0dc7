// A list of which only what is seen exists: a hundred thousand rows cost what fifty do.

class VirtualList {
  /// `make(index)` gives a row's element. Rows are `height` pixels high.
  constructor(parent, height, make) {
    this.height = height;
    this.make = make;
    this.count = 0;
    this.rows = new Map();
    this.inner = h("div.rows");
    this.outer = h("div.list", {scroll: () => this.draw(), tabindex: 0}, this.inner);
    parent.append(this.outer);
    new ResizeObserver(() => this.draw()).observe(this.outer);
  }
  /// Shows `count` rows anew; `width` in characters makes long ones scroll.
  reset(count, width = 0) {
    this.count = count;
    for (const row of this.rows.values()) row.remove();
    this.rows.clear();
    this.inner.style.height = count * this.height + "px";
    this.inner.style.minWidth = width ? width + "ch" : "";
    this.draw();
  }
  draw() {
    const top = this.outer.scrollTop, seen = this.outer.clientHeight;
    const first = Math.max(0, Math.floor(top / this.height) - 10);
    const last = Math.min(this.count, Math.ceil((top + seen) / this.height) + 10);
    for (const [index, row] of this.rows)
      if (index < first || index >= last) { row.remove(); this.rows.delete(index); }
    for (let index = first; index < last; ++index) {
      if (this.rows.has(index)) continue;
      const row = this.make(index);
      row.style.top = index * this.height + "px";
      row.style.height = this.height + "px";
      this.rows.set(index, row);
      this.inner.append(row);
    }
  }
  /// Makes rows again where something about them changed.
  refresh() {
    for (const row of this.rows.values()) row.remove();
    this.rows.clear();
    this.draw();
  }
  show(index, centre = true) {
    const top = index * this.height, seen = this.outer.clientHeight;
    if (centre || top < this.outer.scrollTop || top > this.outer.scrollTop + seen - this.height)
      this.outer.scrollTop = Math.max(0, top - seen / 2.5);
    this.draw();
  }
}
