"""Checks for dashboards that need no data: Grafana's own schemas, and what
people need to read it. Each function gives a list of faults, each with the panel's title."""
import functools
import json
import pathlib
import re

import jsonschema

SCHEMAS = pathlib.Path(__file__).resolve().parent / "data"
METRIC = re.compile(r"\b((?:parplan|process)_[a-z_0-9]+)\b")
GLOBALS = {"__rate_interval", "__range"}
GRID_COLUMNS = 24


@functools.lru_cache(maxsize=None)
def schema(name):
    return json.loads((SCHEMAS / f"{name}.jsonschema.json").read_text())


def schema_faults(document, rules, where):
    faults = []
    for error in jsonschema.Draft7Validator(rules).iter_errors(document):
        path = "/".join(map(str, error.absolute_path))
        faults.append(f"{where}: {path}: {error.message[:200]}")
    return faults


def panels(dashboard):
    """All panels but rows, those of folded rows included."""
    for panel in dashboard["panels"]:
        if panel["type"] == "row":
            yield from panel["panels"]
        else:
            yield panel


def queries(dashboard):
    """Each panel with each of its queries."""
    for panel in panels(dashboard):
        for target in panel["targets"]:
            yield panel, target


def metrics_in(expression):
    """Names of metrics as docs/metrics.md lists them."""
    # A label's value may look like a name.
    bare = re.sub(r'"[^"]*"', '""', expression)
    return {re.sub(r"_(bucket|sum|count)$", "", name) for name in METRIC.findall(bare)}


def variables_in(text):
    return set(re.findall(r"\$\{?(\w+)\}?", text))


def panel_faults(panel):
    where = f"panel `{panel.get('title')}`"
    path = SCHEMAS / f"{panel['type']}.jsonschema.json"
    if panel["type"] in ("dashboard", "prometheus") or not path.exists():
        return [f"{where}: unknown type `{panel['type']}`"]
    definitions = schema(panel["type"])["definitions"]
    faults = schema_faults(panel.get("options", {}),
                           {"$ref": "#/definitions/Options", "definitions": definitions},
                           f"{where}, options")
    defaults = panel["fieldConfig"]["defaults"]
    if "FieldConfig" in definitions:
        faults += schema_faults(defaults.get("custom", {}),
                                {"$ref": "#/definitions/FieldConfig", "definitions": definitions},
                                f"{where}, custom")
    for key in ("title", "description"):
        if not panel.get(key):
            faults.append(f"{where}: no {key}")
    if not panel.get("description", ".").endswith("."):
        faults.append(f"{where}: the description is no sentence")
    if not (defaults.get("unit") or panel["options"].get("yAxis", {}).get("unit")):
        faults.append(f"{where}: no unit")
    if not panel.get("targets"):
        faults.append(f"{where}: no queries")
    names = [target["refId"] for target in panel.get("targets", [])]
    if len(set(names)) != len(names):
        faults.append(f"{where}: two queries have one refId")
    for target in panel.get("targets", []):
        faults += schema_faults(target, schema("prometheus"), f"{where}, query")
        if re.search(r"\[\d+[smhdwy]", target["expr"]):
            faults.append(f"{where}: a fixed range; use $__rate_interval or $__range")
        if not metrics_in(target["expr"]):
            faults.append(f"{where}: a query without a metric")
    return faults


def layout_faults(dashboard):
    faults, taken = [], {}
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        if place["x"] + place["w"] > GRID_COLUMNS:
            faults.append(f"panel `{panel['title']}`: too wide")
        for column in range(place["x"], place["x"] + place["w"]):
            for line in range(place["y"], place["y"] + place["h"]):
                if (column, line) in taken:
                    faults.append(f"panel `{panel['title']}` covers `{taken[column, line]}`")
                    return faults
                taken[column, line] = panel["title"]
    ids = [panel["id"] for panel in dashboard["panels"]]
    if len(set(ids)) != len(ids):
        faults.append("two panels have one id")
    return faults


def variable_faults(dashboard):
    declared = {variable["name"] for variable in dashboard["templating"]["list"]}
    used = set()
    for panel in panels(dashboard):
        used |= variables_in(json.dumps(panel))
    used -= GLOBALS
    faults = [f"variable `{name}` is used and not declared" for name in sorted(used - declared)]
    faults += [f"variable `{name}` is declared and not used" for name in sorted(declared - used)]
    return faults


def metric_faults(dashboard, known):
    """Names that no program tells; `known` as docs/metrics.md lists them."""
    faults = []
    for panel, target in queries(dashboard):
        for name in sorted(metrics_in(target["expr"]) - known):
            faults.append(f"panel `{panel['title']}`: there is no metric `{name}`")
    return faults


def static_faults(dashboard, known_metrics):
    faults = schema_faults(dashboard, schema("dashboard"), "dashboard")
    for panel in panels(dashboard):
        faults += panel_faults(panel)
    return (faults + layout_faults(dashboard) + variable_faults(dashboard) +
            metric_faults(dashboard, known_metrics))


def documented_metrics(source):
    """Names and label names of docs/metrics.md, by name."""
    text = (source / "docs" / "metrics.md").read_text(encoding="utf-8")
    return {name: set(re.findall(r"`(\w+)`", labels)) for name, labels in re.findall(
        r"^\| `((?:parplan|process)_\w+)` \| \w+ \|([^|]*)\|", text, re.MULTILINE)}
