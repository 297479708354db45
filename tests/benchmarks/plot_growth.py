#!/usr/bin/env python3
"""Draws docs/images/search-growth-*.svg from the lines of search_growth.

Usage: plot_growth.py growth.csv docs/images
Standard library only. One picture an axis: time against it, both logarithmic. Circles are
proved, squares have a gap (written beside where it is a percent or more), crosses were
stopped without any plan.
"""

import csv
import math
import pathlib
import sys

WIDTH, HEIGHT = 560, 340
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 40, 50
COLOURS = ("#1b6ca8", "#c8553d", "#3c8d40", "#7a4fa3")
TITLES = {
    "layers": ("Time against layers, 1,024 devices", "layers"),
    "devices": ("Time against devices, Llama-2-70B", "devices"),
    "strategies": ("Time against strategies, Llama-2-70B on 512", "strategies of a decoder on 512"),
    "memory": ("Time against memory, Llama-2-70B on 512", "usable GiB a device"),
}


def decades(low, high):
    """Powers of ten from low to high."""
    return [10.0**power for power in range(round(math.log10(low)), round(math.log10(high)) + 1)]


def seconds_text(value):
    if value >= 1:
        return f"{value:g} s"
    if value >= 1e-3:
        return f"{value * 1e3:g} ms"
    return f"{value * 1e6:g} µs"


def draw(axis, rows):
    title, label = TITLES[axis]
    xs = [float(row["at"]) for row in rows]
    ys = [float(row["seconds"]) for row in rows]
    x_low, x_high = min(xs), max(xs)
    y_low = 10 ** math.floor(math.log10(min(ys)))
    y_high = 10 ** math.ceil(math.log10(max(ys)))

    def across(value):
        share = math.log(value / x_low) / math.log(x_high / x_low)
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def up(value):
        share = math.log(value / y_low) / math.log(y_high / y_low)
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'font-family="sans-serif" font-size="11" role="img" aria-label="{title}">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        f'<text x="{LEFT}" y="20" font-size="13">{title}</text>',
    ]
    for value in decades(y_low, y_high):
        y = up(value)
        out.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        out.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{seconds_text(value)}</text>')
    for value in sorted(set(xs)):
        x = across(value)
        out.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{HEIGHT - BOTTOM}" y2="{HEIGHT - BOTTOM + 4}" stroke="#444"/>'
        )
    last = -100.0
    for value in sorted(set(xs)):
        x = across(value)
        if x - last < 34:
            continue
        last = x
        out.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 17}" text-anchor="middle">{value:g}</text>')
    out.append(
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 12}" text-anchor="middle">{label}</text>'
    )
    out.append(
        f'<path d="M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}" fill="none" stroke="#444"/>'
    )
    names = list(dict.fromkeys(row["series"] for row in rows))
    for index, name in enumerate(names):
        colour = COLOURS[index % len(COLOURS)]
        own = sorted((row for row in rows if row["series"] == name), key=lambda row: float(row["at"]))
        points = [(across(float(row["at"])), up(float(row["seconds"])), row) for row in own]
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y, _ in points)
        out.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        for x, y, row in points:
            if row["outcome"] == "feasible":
                out.append(
                    f'<rect x="{x - 3:.1f}" y="{y - 3:.1f}" width="6" height="6" fill="{colour}"/>'
                )
                gap = float(row["gap"])
                if gap >= 0.01:
                    out.append(
                        f'<text x="{x:.1f}" y="{y + (16 if index else -7):.1f}" text-anchor="middle" '
                        f'fill="{colour}">{gap * 100:.0f} %</text>'
                    )
            elif row["outcome"] == "stopped":
                out.append(
                    f'<path d="M{x - 4:.1f} {y - 4:.1f}l8 8m0 -8l-8 8" stroke="{colour}" '
                    f'stroke-width="2"/>'
                )
            else:
                fill = colour if row["outcome"] == "optimal" else "#fff"
                out.append(
                    f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{fill}" stroke="{colour}"/>'
                )
        if len(names) > 1:
            y = TOP + 6 + 15 * index
            out.append(f'<rect x="{LEFT + 10}" y="{y - 8}" width="10" height="3" fill="{colour}"/>')
            out.append(f'<text x="{LEFT + 26}" y="{y - 3}">{name}</text>')
    out.append("</svg>")
    return "\n".join(out) + "\n"


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    folder = pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    for axis in TITLES:
        own = [row for row in rows if row["axis"] == axis]
        if own:
            (folder / f"search-growth-{axis}.svg").write_text(draw(axis, own), encoding="utf-8")


if __name__ == "__main__":
    main()
