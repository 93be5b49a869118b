# SPDX-License-Identifier: Apache-2.0
"""Plots of the tables in published-figures.md, as SVG, drawn from what stands in the tables."""
import html
import re

COLORS = ["#8c959f", "#bf8700", "#8250df", "#1f6feb", "#0a7d6c", "#cf222e", "#6639ba"]
DARK = ["#6e7681", "#d29922", "#bc8cff", "#58a6ff", "#3fcfb4", "#ff7b72", "#d2a8ff"]
STYLE = ("<style>:root{--fg:#1c2733;--dim:#5b6b7b;--line:#dde3ea;--bg:#fff;%s}"
         "@media(prefers-color-scheme:dark){:root{--fg:#e2e8ef;--dim:#93a1b0;--line:#2a3542;"
         "--bg:#0f151c;%s}}text{fill:var(--fg)}.dim{fill:var(--dim)}.grid{stroke:var(--line)}</style>"
         % tuple("".join(f"--c{i}:{color};" for i, color in enumerate(colors))
                 for colors in (COLORS, DARK)))
NAMED = {name: i for i, name in enumerate(["fp32", "fp16", "codec, CPUs", "codec, GPUs",
                                           "Espresso's greedy", "plan"])}
WIDTH, LEFT = 1000, 52


def rows_of(table):
    """The cells of a table in Markdown, its head first."""
    lines = [line for line in table.splitlines() if line.startswith("|")]
    cells = [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines]
    return cells[0], cells[2:]


def number(cell):
    return float(re.match(r"-?[\d.]+", cell).group())


def text(x, y, words, size=12, anchor="start", kind="", weight=""):
    more = (f' class="{kind}"' if kind else "") + (f' font-weight="{weight}"' if weight else "")
    return (f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}"{more}>'
            f"{html.escape(words)}</text>")


def picture(title, height, parts):
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" '
        'font-family="system-ui,sans-serif">', STYLE,
        '<rect width="100%" height="100%" fill="var(--bg)"/>',
        text(16, 26, title, 16, weight="600"), *parts, "</svg>", ""])


def colors_of(names):
    """The same name has the same color in all plots."""
    spare = iter(i for i in range(len(COLORS)) if i not in [NAMED.get(name) for name in names])
    return [NAMED[name] if name in NAMED else next(spare) for name in names]


def legend(names, y):
    parts, x = [], 16
    for i, name in zip(colors_of(names), names):
        parts.append(f'<rect x="{x:.1f}" y="{y - 9}" width="10" height="10" fill="var(--c{i})"/>')
        parts.append(text(x + 14, y, name))
        x += 30 + 6.3 * len(name)
    return parts


def step_of(top):
    return next(step for step in (0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 25, 50) if top / step <= 6)


def axis(left, right, top, bottom, most, unit=""):
    """Lines across, from 0 to `most`. @return what puts a value on it"""
    step, parts, at = step_of(most), [], 0
    position = lambda value: bottom - (bottom - top) * value / most
    while at <= most * 1.001:
        y = position(at)
        parts.append(f'<line class="grid" x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(text(left - 6, y + 4, f"{at:g}{unit}", 11, "end", "dim"))
        at += step
    return position, parts


def bars(title, rows, names, unit=""):
    """Rows side by side, a bar for each name. @param rows [(label, [values])]"""
    top, bottom = 70, 260
    most = max(value for _, values in rows for value in values) * 1.02 or 1
    position, parts = axis(LEFT, WIDTH - 16, top, bottom, most, unit)
    each = (WIDTH - 16 - LEFT) / len(rows)
    width = each * 0.8 / len(names)
    colors = colors_of(names)
    for i, (label, values) in enumerate(rows):
        x = LEFT + i * each + each * 0.1
        for j, value in enumerate(values):
            y = position(value)
            parts.append(f'<rect x="{x + j * width:.1f}" y="{y:.1f}" width="{width - 1:.1f}" '
                         f'height="{bottom - y:.1f}" fill="var(--c{colors[j]})"><title>'
                         f"{html.escape(f'{label}, {names[j]}: {value:g}{unit}')}</title></rect>")
        for j, word in enumerate(label.split(" ")):
            parts.append(text(x + each * 0.4, bottom + 17 + 14 * j, word, 11, "middle"))
    lines = max(label.count(" ") for label, _ in rows)
    return picture(title, bottom + 32 + 14 * lines, legend(names, 50) + parts)


def panels(title, charts, marks, names, below):
    """Small charts of lines. @param charts [(label, [values of each name])] @param marks below it"""
    columns, high = 5 if len(charts) > 6 else 3, 120
    wide = (WIDTH - 16) / columns
    most = max(value for _, lines in charts for line in lines for value in line) * 1.02
    parts, colors = [], colors_of(names)
    for i, (label, lines) in enumerate(charts):
        left, top = 16 + i % columns * wide + 34, 84 + i // columns * (high + 58)
        right, bottom = left + wide - 58, top + high
        position, grid = axis(left, right, top, bottom, most)
        parts += grid + [text(left, top - 8, label, 12, weight="600")]
        at = [left + 12 + (right - left - 24) * j / (len(marks) - 1) for j in range(len(marks))]
        parts += [text(x, bottom + 15, mark, 11, "middle", "dim") for x, mark in zip(at, marks)]
        for j, line in enumerate(lines):
            points = " ".join(f"{x:.1f},{position(value):.1f}" for x, value in zip(at, line))
            parts.append(f'<polyline points="{points}" fill="none" stroke="var(--c{colors[j]})" '
                         'stroke-width="2"/>')
            parts += [f'<circle cx="{x:.1f}" cy="{position(value):.1f}" r="2.6" fill="var(--c{colors[j]})">'
                      f"<title>{html.escape(f'{label}, {mark} {below}, {names[j]}: {value:g}')}"
                      "</title></circle>" for x, mark, value in zip(at, marks, line)]
    bottom = 84 + -(-len(charts) // columns) * (high + 58) - 30
    return picture(title, bottom + 14,
                   legend(names, 50) + parts + [text(WIDTH / 2, bottom + 4, below, 11, "middle", "dim")])


# What is drawn of which table


def bars_of(title, table, first, last, unit="", label=1):
    """Bars of the columns from `first` to before `last`; rows are named by the first `label`."""
    head, rows = rows_of(table)
    return bars(title, [(" ".join(row[:label]), [number(cell) for cell in row[first:last]])
                        for row in rows], head[first:last], unit)


def lines_of(title, table, marks, below):
    """A chart of each first cell, a line of each second one."""
    _, rows = rows_of(table)
    charts, names = {}, []
    for label, name, *values in rows:
        charts.setdefault(label, []).append([number(value) for value in values])
        names += [name] if name not in names else []
    return panels(title, list(charts.items()), marks, names, below)


def gpus_of(title, table):
    """A chart of each fabric and codec over the number of GPUs."""
    head, rows = rows_of(table)
    charts, marks = {}, []
    for fabric, gpus, codec, *values in rows:
        lines = charts.setdefault(f"{fabric}, {codec.replace(':ratio=0.01', ' 1 %')}", [[], [], []])
        for line, value in zip(lines, values):
            line.append(number(value))
        marks += [gpus] if gpus not in marks else []
    return panels(title, list(charts.items()), marks, head[3:6], "GPUs")


FACTOR = "scaling factor"
PLOTS = {
    "speeds-25": lambda t: bars_of(f"64 GPUs, PCIe and 25 Gbit/s: {FACTOR}", t, 1, 7),
    "speeds-100": lambda t: bars_of(f"64 GPUs, NVLink and 100 Gbit/s: {FACTOR}", t, 1, 7),
    "nodes-25": lambda t: lines_of(f"8 to 64 GPUs, PCIe and 25 Gbit/s: {FACTOR}", t,
                                   ["8", "16", "32", "64"], "GPUs"),
    "nodes-100": lambda t: lines_of(f"8 to 64 GPUs, NVLink and 100 Gbit/s: {FACTOR}", t,
                                    ["8", "16", "32", "64"], "GPUs"),
    "without-25": lambda t: bars_of(f"Without a dimension, PCIe and 25 Gbit/s: {FACTOR}", t, 1, 7),
    "without-100": lambda t: bars_of(f"Without a dimension, NVLink and 100 Gbit/s: {FACTOR}", t, 1,
                                     7),
    "free": lambda t: bars_of("Slower than with free compression", t, 1, 3, " %"),
    "secopa": lambda t: bars_of(f"HiPress by its formula, and the plan: {FACTOR}", t, 1, 7),
    "grouping-8": lambda t: bars_of(f"One node of 8 GPUs, PCIe: {FACTOR}", t, 2, 5, label=2),
    "grouping-64": lambda t: bars_of(f"64 GPUs, PCIe and 25 Gbit/s: {FACTOR}", t, 2, 5, label=2),
    "grouping-gpus": lambda t: gpus_of(f"ResNet101 on 2, 4 and 8 GPUs of a node: {FACTOR}", t),
}
