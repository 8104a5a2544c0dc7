// Two lists of lines side by side. Numbers of values do not count, so that one new operation does not change every line after it.
// As tools/inspect/TextDiff.cpp does it: lines that occur once on both sides are anchors (patience), short gaps by the longest
// common subsequence.

const maskValues = line => line.replace(/%[\w#]+/g, "%");

/// Pairs [line of a or -1, line of b or -1] in order.
function alignLines(a, b) {
  const known = new Map(), out = [];
  const keyed = lines => lines.map(line => {
    const text = maskValues(line);
    if (!known.has(text)) known.set(text, known.size);
    return known.get(text);
  });
  const left = keyed(a), right = keyed(b);

  function range(x, endX, y, endY) {
    while (x < endX && y < endY && left[x] === right[y]) out.push([x++, y++]);
    let tail = 0;
    while (x < endX - tail && y < endY - tail && left[endX - 1 - tail] === right[endY - 1 - tail]) ++tail;
    middle(x, endX - tail, y, endY - tail);
    for (; tail > 0; --tail) out.push([endX - tail, endY - tail]);
  }
  function middle(x, endX, y, endY) {
    if (x === endX || y === endY) return different(x, endX, y, endY);
    const anchors = unique(x, endX, y, endY);
    if (!anchors.length) return subsequence(x, endX, y, endY);
    for (const [atX, atY] of anchors) {
      range(x, atX, y, atY);
      out.push([atX, atY]);
      x = atX + 1, y = atY + 1;
    }
    range(x, endX, y, endY);
  }
  function unique(x, endX, y, endY) {
    const count = new Map();
    for (let i = x; i < endX; ++i) { const c = count.get(left[i]) || [0, 0, 0]; ++c[0]; count.set(left[i], c); }
    for (let i = y; i < endY; ++i) { const c = count.get(right[i]) || [0, 0, 0]; ++c[1]; c[2] = i; count.set(right[i], c); }
    const pairs = [];
    for (let i = x; i < endX; ++i) { const c = count.get(left[i]); if (c[0] === 1 && c[1] === 1) pairs.push([i, c[2]]); }
    const piles = [], before = [];
    pairs.forEach(([, place], i) => {
      let low = 0, high = piles.length;
      while (low < high) { const half = (low + high) >> 1; if (pairs[piles[half]][1] < place) low = half + 1; else high = half; }
      before[i] = low ? piles[low - 1] : -1;
      piles[low] = i;
    });
    const run = [];
    for (let i = piles.length ? piles[piles.length - 1] : -1; i >= 0; i = before[i]) run.push(pairs[i]);
    return run.reverse();
  }
  function subsequence(x, endX, y, endY) {
    const rows = endX - x, columns = endY - y;
    if (rows * columns > 4e6) return different(x, endX, y, endY);
    const width = columns + 1, length = new Uint16Array((rows + 1) * width);
    for (let i = rows - 1; i >= 0; --i)
      for (let k = columns - 1; k >= 0; --k)
        length[i * width + k] = left[x + i] === right[y + k] ? length[(i + 1) * width + k + 1] + 1
          : Math.max(length[(i + 1) * width + k], length[i * width + k + 1]);
    let i = 0, k = 0;
    while (i < rows && k < columns) {
      if (left[x + i] === right[y + k]) out.push([x + i++, y + k++]);
      else if (length[(i + 1) * width + k] >= length[i * width + k + 1]) out.push([x + i++, -1]);
      else out.push([-1, y + k++]);
    }
    different(x + i, endX, y + k, endY);
  }
  function different(x, endX, y, endY) {
    for (; x < endX; ++x) out.push([x, -1]);
    for (; y < endY; ++y) out.push([-1, y]);
  }
  range(0, left.length, 0, right.length);
  return out;
}

/// Rows for two columns: what is gone stands beside what is new; equal runs beyond `context` lines are one row {fold, pairs}.
function diffRows(a, b, context = 3) {
  const rows = [];
  let gone = [], fresh = [];
  const flush = () => {
    for (let i = 0; i < Math.max(gone.length, fresh.length); ++i) rows.push({a: gone[i] ?? -1, b: fresh[i] ?? -1, changed: true});
    gone = [], fresh = [];
  };
  for (const [x, y] of alignLines(a, b)) {
    if (x >= 0 && y >= 0) { flush(); rows.push({a: x, b: y, changed: false}); }
    else if (x >= 0) gone.push(x);
    else fresh.push(y);
  }
  flush();
  const out = [];
  for (let i = 0; i < rows.length;) {
    if (rows[i].changed) { out.push(rows[i++]); continue; }
    let end = i;
    while (end < rows.length && !rows[end].changed) ++end;
    const first = i === 0 ? 0 : context, last = end === rows.length ? 0 : context;
    if (end - i > first + last + 3) {
      out.push(...rows.slice(i, i + first), {fold: rows.slice(i + first, end - last)}, ...rows.slice(end - last, end));
    } else out.push(...rows.slice(i, end));
    i = end;
  }
  return out;
}
