"""Rules for what /metrics says, besides those of promtool."""
import re

LINE = re.compile(r"^([a-z_][a-z0-9_]*)(?:\{(.*)\})? (\S+)$")
# Ends of names by what they measure; a counter has `_total` behind it.
UNITS = ("_seconds", "_bytes", "_ratio", "_bytes_per_second", "_samples_per_second", "_info")
BAD_UNITS = ("_ms", "_milliseconds", "_minutes", "_hours", "_kilobytes", "_megabytes", "_mb",
             "_percent")
# Gauges and histograms that count things have a plural or say what is so now.
COUNTED = re.compile(
    r"(s|waiting|running|in_flight|limit|workers|active|connected|length|fds|threads|generation|drifting|writable)$")
# Values that come from the callers in bounded numbers; all others are of fixed lists.
FREE_LABELS = {"version"}
LABEL_VALUE = re.compile(r"^[A-Za-z0-9_.+:-]{1,63}$")


# Metrics of the library prometheus-cpp itself, under names of its own.
LIBRARY = re.compile(r"^(# (HELP|TYPE) )?exposer_")


class Page:
    """Types, helps and series of a page."""

    def __init__(self, text):
        text = "\n".join(line for line in text.splitlines() if not LIBRARY.match(line))
        self.types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
        self.helps = dict(re.findall(r"^# HELP (\S+) (.*)$", text, re.MULTILINE))
        self.labels = {}  # Label names of each metric.
        self.values = {}  # Values of each label.
        self.series_count = 0
        for line in text.splitlines():
            if not line or line.startswith("#"):
                continue
            found = LINE.match(line)
            assert found, f"not understood: {line}"
            self.series_count += 1
            name = self.family(found.group(1))
            names = self.labels.setdefault(name, set())
            for label, value in re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', found.group(2) or ""):
                if label in ("le", "quantile"):
                    continue
                names.add(label)
                self.values.setdefault(label, set()).add(value)

    def family(self, series):
        """The metric of a series; a histogram has three kinds of them."""
        stem = re.sub(r"_(bucket|sum|count)$", "", series)
        return stem if self.types.get(stem) in ("histogram", "summary") else series


def faults(page):
    """Sentences about what breaks a rule."""
    found = []
    for name, kind in page.types.items():
        if not re.match(r"^(parplan|process)_[a-z0-9_]+$", name) or "__" in name:
            found.append(f"{name}: does not begin with parplan_ or process_, in lower case")
        if not page.helps.get(name):
            found.append(f"{name}: no help")
        if kind not in ("counter", "gauge", "histogram"):
            found.append(f"{name}: is a {kind}")
        if (kind == "counter") != name.endswith("_total"):
            found.append(f"{name}: a counter ends with _total, and nothing else")
        stem = name.removesuffix("_total")
        if stem.endswith(BAD_UNITS):
            found.append(f"{name}: seconds and bytes only, and no percents")
        if "duration" in stem and not stem.endswith(("_seconds", "_ratio")):
            found.append(f"{name}: a duration without _seconds")
        if "timestamp" in stem and not stem.endswith("_timestamp_seconds"):
            found.append(f"{name}: a time without _timestamp_seconds")
        if kind == "histogram" and not stem.endswith(UNITS):
            found.append(f"{name}: a histogram without a unit")
        if kind == "gauge" and not (stem.endswith(UNITS) or COUNTED.search(stem)):
            found.append(f"{name}: neither a unit nor a count")
    for label, values in page.values.items():
        if not re.match(r"^[a-z_]+$", label):
            found.append(f"label {label}: not in lower case")
        for value in values:
            if label not in FREE_LABELS and not LABEL_VALUE.match(value):
                found.append(f"label {label}: `{value}` is no short word")
    if len(page.values.get("cluster", ())) > 33:
        found.append("more clusters than may have a label")
    return found
