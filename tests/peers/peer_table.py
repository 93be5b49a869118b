# SPDX-License-Identifier: Apache-2.0
"""What compare.py found: rows with their bars, as Markdown and as JSON."""
import dataclasses
import statistics

SUFFIXES = (("g", 30), ("m", 20), ("k", 10))


@dataclasses.dataclass
class Check:
    """A figure beside the bar it has to reach; None where there is nothing to compare with."""
    bar: str
    value: float | None
    bound: float
    at_most: bool = False

    @property
    def reach(self):
        """1 and above: met."""
        if self.value is None:
            return None
        return self.bound / self.value if self.at_most else self.value / self.bound

    @property
    def met(self):
        return None if self.value is None else self.reach >= 1

    def show(self):
        if self.value is None:
            return "nothing to compare with"
        sign = ("≤" if self.at_most else "≥") if self.met else (">" if self.at_most else "<")
        verdict = "met" if self.met else "**missed**"
        return f"{digits(self.value)} {sign} {digits(self.bound)} {verdict}"


@dataclasses.dataclass
class Row:
    what: str
    bytes: int
    unit: str
    figures: dict  # side: list of the rounds' medians
    checks: list
    limit: str = ""  # what physics allows, by name
    share: float | None = None  # of it, that wring reaches

    def as_json(self):
        return {"what": self.what, "bytes": self.bytes, "unit": self.unit,
                "figures": {side: statistics.median(values)
                            for side, values in self.figures.items() if values},
                "rounds": {side: values for side, values in self.figures.items()
                           if values is not None}, "limit": self.limit, "of_limit": self.share,
                "checks": [{**dataclasses.asdict(check), "met": check.met}
                           for check in self.checks]}


def digits(value):
    if value is None:
        return ""
    return f"{value:.0f}" if value >= 1000 else f"{value:.3g}"


def show_bytes(size):
    for suffix, shift in SUFFIXES:
        if size >= 1 << shift and size % (1 << shift) == 0:
            return f"{size >> shift}{suffix}"
    return str(size)


def show_section(title, note, rows):
    """A Markdown table with a column for each side that any of its rows has."""
    sides = list(dict.fromkeys(side for row in rows for side in row.figures))
    print(f"\n### {title}\n\n{note}\n")
    print("| what | bytes | " + " | ".join(sides) + " | × and bar | of what is possible |")
    print("|---|---|" + "---|" * (len(sides) + 2))
    for row in rows:
        cells = [row.what, show_bytes(row.bytes)]
        cells += [show_figure(row.figures.get(side)) for side in sides]
        cells.append("; ".join(check.show() for check in row.checks))
        cells.append("" if row.share is None else f"{100 * row.share:.0f} % of {row.limit}")
        print("| " + " | ".join(cells) + " |", flush=True)


def show_figure(values):
    if values is None:
        return ""
    return digits(statistics.median(values)) if values else "failed"


def summarise(sections):
    """Each bar once: its worst figure and where that is."""
    bars = {}
    for title, rows in sections:
        for row in rows:
            for check in row.checks:
                bars.setdefault((title, check.bar), []).append((check, row))
    for (title, bar), found in bars.items():
        judged = [(check, row) for check, row in found if check.value is not None]
        check, row = min(judged, key=lambda pair: pair[0].reach) if judged else found[0]
        yield {"section": title, "bar": bar, "bound": check.bound, "at_most": check.at_most,
               "worst": check.value, "at": f"{row.what} {show_bytes(row.bytes)}".strip(),
               "met": check.met, "rows": len(found),
               "rows_met": sum(check.met is True for check, _ in found)}


def show_summary(bars):
    print("\n### All bars\n\n| what | bar | worst figure | at | rows that meet it | |")
    print("|---|---|---|---|---|---|")
    for bar in bars:
        sign = "≤" if bar["at_most"] else "≥"
        verdict = {True: "met", False: "**missed**", None: "not judged"}[bar["met"]]
        print(f"| {bar['section']}: {bar['bar']} | {sign} {digits(bar['bound'])} "
              f"| {digits(bar['worst'])} | {bar['at']} | {bar['rows_met']} of {bar['rows']} "
              f"| {verdict} |")
