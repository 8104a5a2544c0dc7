"""Line charts as SVG in one HTML page without a script: light or dark as the reader's system, readable without colour (each series has
its own mark). Standard library only."""
import html
import math

STYLE = """
:root { color-scheme: light dark; --ink: #1c1e21; --paper: #fff; --soft: #d8dce1; --c0: #1f6feb; --c1: #c2410c; --c2: #15803d; --c3: #9333ea; --c4: #b45309; --c5: #0e7490; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e6e9; --paper: #15181c; --soft: #333a42; --c0: #6ea8fe; --c1: #ff9b6a; --c2: #6fd08c; --c3: #c79bff; --c4: #f2bd63; --c5: #67d3e8; } }
body { margin: 2rem auto; max-width: 960px; padding: 0 1rem; color: var(--ink); background: var(--paper); font: 15px/1.5 system-ui, "DejaVu Sans", sans-serif; }
figure { margin: 1.5rem 0; } figcaption { font-weight: 600; } svg { width: 100%; height: auto; } svg text { fill: var(--ink); font: 13px system-ui, "DejaVu Sans", sans-serif; }
.grid { stroke: var(--soft); } .axis { stroke: var(--ink); } table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
td, th { padding: .2rem .8rem; border-bottom: 1px solid var(--soft); text-align: right; } th { font-weight: 600; }
code, pre { font: 13px ui-monospace, "DejaVu Sans Mono", monospace; } pre { overflow-x: auto; }
"""
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 900, 420, 74, 24, 16, 56


def short(x):
    """12000 as 12k, 0.00012 as 1.2e-4."""
    if x == 0:
        return "0"
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(x) >= size:
            return f"{x / size:.3g}{unit}"
    return f"{x:.3g}"


class Scale:
    """Numbers to places on paper; with `log` by their logarithm."""

    def __init__(self, values, begin, end, log):
        self.log, self.begin, self.end = log, begin, end
        low, high = min(values), max(values)
        if log:
            low, high = math.log10(low), math.log10(high)
            pad = 0.04 * (high - low) or 0.5
        else:
            pad = 0.06 * (high - low) or 0.5
        self.low, self.high = low - pad, high + pad

    def __call__(self, x):
        x = math.log10(x) if self.log else x
        return self.begin + (x - self.low) / (self.high - self.low) * (self.end - self.begin)

    def ticks(self):
        if self.log:
            decades = range(math.floor(self.low), math.ceil(self.high) + 1)
            for fine in ((1, 2, 5),) if self.high - self.low < 2.5 else ((1,), (1, 2, 5)):
                found = [m * 10.0 ** d for d in decades for m in fine]
                found = [x for x in found if self.low <= math.log10(x) <= self.high]
                if len(found) > 2:
                    return found
        low, high = (10 ** self.low, 10 ** self.high) if self.log else (self.low, self.high)  # less than a decade: even steps
        raw = (high - low) / 5
        size = 10 ** math.floor(math.log10(raw))
        step = next(m * size for m in (1, 2, 5, 10) if m * size >= raw)
        return [i * step for i in range(math.ceil(low / step), math.floor(high / step) + 1)]


def mark(kind, x, y, colour):
    shapes = [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4"', f'<rect x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8"',
              f'<path d="M{x:.1f} {y - 5:.1f}l5 9h-10z"', f'<path d="M{x - 5:.1f} {y:.1f}l5 -5l5 5l-5 5z"']
    return shapes[kind % 4] + f' style="fill:var(--c{colour % 6})"/>'


def chart(title, across, up, series, log_across=False, log_up=False, dashed=()):
    """`series`: {name: [(x, y), ...]}; those in `dashed` are lines without marks (fits, limits)."""
    points = [p for line in series.values() for p in line]
    x = Scale([p[0] for p in points], LEFT, WIDTH - RIGHT, log_across)
    y = Scale([p[1] for p in points], HEIGHT - BOTTOM, TOP, log_up)
    out = [f'<figure><figcaption>{html.escape(title)}</figcaption><svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{html.escape(title)}">']
    for tick in x.ticks():
        out.append(f'<path class="grid" d="M{x(tick):.1f} {TOP}V{HEIGHT - BOTTOM}"/><text x="{x(tick):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{short(tick)}</text>')
    for tick in y.ticks():
        out.append(f'<path class="grid" d="M{LEFT} {y(tick):.1f}H{WIDTH - RIGHT}"/><text x="{LEFT - 8}" y="{y(tick) + 4:.1f}" text-anchor="end">{short(tick)}</text>')
    out.append(f'<path class="axis" fill="none" d="M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}"/>')
    out.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 10}" text-anchor="middle">{html.escape(across)}</text>')
    out.append(f'<text transform="translate(16 {(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)" text-anchor="middle">{html.escape(up)}</text>')
    for i, (name, line) in enumerate(series.items()):
        path = "L".join(f"{x(a):.1f} {y(b):.1f}" for a, b in line)
        style = f'stroke:var(--c{i % 6});stroke-width:2;fill:none' + (";stroke-dasharray:6 5" if name in dashed else "")
        out.append(f'<path d="M{path}" style="{style}"/>')
        if name not in dashed:
            step = max(1, len(line) // 12)  # curves of many points have a few marks
            out += [mark(i, x(a), y(b), i) for a, b in line[::step]]
    out.append("</svg>")
    keys = []
    for i, name in enumerate(series):
        sign = f'<path d="M2 8h26" style="stroke:var(--c{i % 6});stroke-width:2' + (';stroke-dasharray:6 5"/>' if name in dashed else '"/>' + mark(i, 15, 8, i))
        keys.append(f'<svg viewBox="0 0 30 16" style="width:30px;vertical-align:middle">{sign}</svg> {html.escape(name)}')
    out.append('<div>' + " &emsp; ".join(keys) + "</div></figure>")
    return "\n".join(out)


def table(heads, rows):
    cells = lambda row, tag: "<tr>" + "".join(f"<{tag}>{html.escape(str(c))}</{tag}>" for c in row) + "</tr>"
    return "<table>" + cells(heads, "th") + "".join(cells(row, "td") for row in rows) + "</table>"


def page(title, parts):
    return (f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<meta name="viewport" content="width=device-width">\n<title>{html.escape(title)}</title>\n'
            f"<style>{STYLE}</style>\n<h1>{html.escape(title)}</h1>\n" + "\n".join(parts) + "\n</html>\n")
