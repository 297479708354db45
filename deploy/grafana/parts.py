"""The parts that the dashboards are made of: each function gives JSON as Grafana reads it.

A dashboard is a list of rows; a row is a title and panels, which are laid out from left to
right, 24 columns wide. Units are those of Grafana: `s`, `bytes`, `reqps`, `percentunit`.
"""

DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
GREEN, YELLOW, RED, BLUE = "green", "yellow", "red", "blue"


def query(expr, legend="", heatmap=False):
    """One query; `{{label}}` in the legend stands for the label's value."""
    return {"datasource": DATASOURCE, "expr": expr, "legendFormat": legend or "__auto",
            "editorMode": "code", "format": "heatmap" if heatmap else "time_series",
            "instant": False, "range": True}


def steps(*limits):
    """Thresholds: a colour, then values with the colour that begins there."""
    first, *rest = limits
    return [{"value": None, "color": first}] + [
        {"value": value, "color": color} for value, color in rest]


def _panel(kind, title, description, unit, queries, width, height, defaults, options):
    targets = []
    for index, target in enumerate(queries):
        targets.append({**target, "refId": chr(ord("A") + index)})
    return {"type": kind, "title": title, "description": description, "datasource": DATASOURCE,
            "gridPos": {"x": 0, "y": 0, "w": width, "h": height}, "targets": targets,
            "fieldConfig": {"defaults": {"unit": unit, **defaults}, "overrides": []},
            "options": options}


def timeseries(title, description, unit, *queries, width=12, height=8, thresholds=None,
               least=None, most=None, stacked=False, decimals=None, log=False):
    """Lines over time. With thresholds, dashed lines where the colours change."""
    custom = {"drawStyle": "line", "lineInterpolation": "linear", "lineWidth": 1,
              "fillOpacity": 25 if stacked else 8, "showPoints": "auto", "spanNulls": False,
              "stacking": {"mode": "normal" if stacked else "none", "group": "A"},
              "thresholdsStyle": {"mode": "dashed" if thresholds else "off"}}
    if log:
        custom["scaleDistribution"] = {"type": "log", "log": 10}
    defaults = {"color": {"mode": "palette-classic"}, "custom": custom,
                "thresholds": {"mode": "absolute", "steps": thresholds or steps(GREEN)}}
    for key, value in (("min", least), ("max", most), ("decimals", decimals)):
        if value is not None:
            defaults[key] = value
    options = {"legend": {"displayMode": "table", "placement": "bottom", "showLegend": True,
                          "calcs": ["lastNotNull", "max"]},
               "tooltip": {"mode": "multi", "sort": "desc"}}
    return _panel("timeseries", title, description, unit, queries, width, height, defaults,
                  options)


def stat(title, description, unit, *queries, width=4, height=4, thresholds=None, decimals=None,
         empty=None, names=False):
    """One number, coloured by its thresholds; with `names`, one for each series with its name."""
    defaults = {"color": {"mode": "thresholds"},
                "thresholds": {"mode": "absolute", "steps": thresholds or steps(BLUE)}}
    if decimals is not None:
        defaults["decimals"] = decimals
    if empty is not None:
        defaults["noValue"] = empty
    options = {"graphMode": "none", "colorMode": "value", "justifyMode": "auto",
               "textMode": "value_and_name" if names else "value", "wideLayout": True,
               "showPercentChange": False, "percentChangeColorMode": "standard",
               "orientation": "auto",
               "reduceOptions": {"values": False, "calcs": ["lastNotNull"], "fields": ""}}
    now = [{**target, "instant": True, "range": False} for target in queries]
    return _panel("stat", title, description, unit, now, width, height, defaults, options)


def heatmap(title, description, unit, expr, width=12, height=8):
    """How often each bucket of a histogram was met, over time."""
    options = {"calculate": False, "cellGap": 1, "showValue": "never",
               "color": {"mode": "scheme", "scheme": "Oranges", "fill": "dark-orange",
                         "scale": "exponential", "exponent": 0.5, "steps": 64,
                         "reverse": False},
               "rowsFrame": {"layout": "auto"},
               "yAxis": {"unit": unit, "axisPlacement": "left", "reverse": False},
               "legend": {"show": True}, "exemplars": {"color": "rgba(255,0,255,0.7)"},
               "tooltip": {"mode": "single", "yHistogram": False, "showColorScale": False},
               "filterValues": {"le": 1e-9}}
    defaults = {"custom": {"scaleDistribution": {"type": "linear"},
                           "hideFrom": {"legend": False, "tooltip": False, "viz": False}}}
    return _panel("heatmap", title, description, unit, [query(expr, "{{le}}", heatmap=True)],
                  width, height, defaults, options)


def datasource_variable():
    return {"type": "datasource", "name": "datasource", "label": "Data source",
            "query": "prometheus", "hide": 0, "multi": False, "includeAll": False,
            "refresh": 1, "regex": "", "options": [], "skipUrlSync": False,
            "current": {"selected": False, "text": "default", "value": "default"}}


def label_variable(name, label, metric, of, description):
    """Values of the label `of` of a metric; all of them at the beginning."""
    text = f"label_values({metric}, {of})"
    return {"type": "query", "name": name, "label": label, "description": description,
            "datasource": DATASOURCE, "definition": text,
            "query": text, "hide": 0, "multi": True,
            "includeAll": True, "allValue": ".*", "refresh": 2, "sort": 1, "regex": "",
            "options": [], "skipUrlSync": False,
            "current": {"selected": True, "text": ["All"], "value": ["$__all"]}}


INSTANCE = label_variable("instance", "Server", 'parplan_build_info{program="parplan-server"}',
                          "instance", "Replicas of the server")
CLUSTER = label_variable("cluster", "Cluster",
                         '{__name__=~"parplan_(agents_connected|step_drift_ratio|'
                         'profile_measurement_timestamp_seconds)"}', "cluster",
                         "Clusters that plans are made for")
NODE = label_variable("node", "Agent", 'parplan_build_info{program="parplan-agent"}', "instance",
                      "Agents, by the address their metrics are read from")


def dashboard(name, title, description, variables, rows):
    """A whole dashboard. `rows` are pairs of a title and panels."""
    panels, top = [], 0
    for row_title, row_panels in rows:
        panels.append({"type": "row", "title": row_title, "collapsed": False, "panels": [],
                       "gridPos": {"x": 0, "y": top, "w": 24, "h": 1}})
        top += 1
        left, tallest = 0, 0
        for panel in row_panels:
            place = panel["gridPos"]
            if left + place["w"] > 24:
                left, top, tallest = 0, top + tallest, 0
            panels.append({**panel, "gridPos": {**place, "x": left, "y": top}})
            left += place["w"]
            tallest = max(tallest, place["h"])
        top += tallest
    panels = [{"id": number, **panel} for number, panel in enumerate(panels, 1)]
    links = [{"title": "parplan", "type": "dashboards", "tags": ["parplan"], "icon": "external link",
              "tooltip": "The other dashboards of parplan", "asDropdown": True,
              "targetBlank": False, "includeVars": True, "keepTime": True}]
    return {"uid": f"parplan-{name}", "title": title, "description": description,
            "tags": ["parplan"], "schemaVersion": 36, "version": 1, "editable": True,
            "graphTooltip": 1, "timezone": "browser", "refresh": "30s",
            "time": {"from": "now-6h", "to": "now"},
            "timepicker": {"refresh_intervals": ["10s", "30s", "1m", "5m", "15m", "1h"]},
            "fiscalYearStartMonth": 0, "liveNow": False, "weekStart": "",
            "templating": {"list": [datasource_variable(), *variables]},
            "annotations": {"list": []}, "links": links, "panels": panels}


# Expressions that the dashboards share.

def rate_by(labels, metric, matchers):
    by = f" by ({labels})" if labels else ""
    return f"sum{by} (rate({metric}{{{matchers}}}[$__rate_interval]))"


def quantile(share, metric, matchers, labels=""):
    """The query of a histogram, over all replicas."""
    by = f"le, {labels}" if labels else "le"
    return (f"histogram_quantile({share}, sum by ({by}) "
            f"(rate({metric}_bucket{{{matchers}}}[$__rate_interval])))")


def mean(metric, matchers, labels=""):
    """The query of a histogram, over all replicas."""
    by = f" by ({labels})" if labels else ""
    return (f"sum{by} (rate({metric}_sum{{{matchers}}}[$__rate_interval])) / "
            f"sum{by} (rate({metric}_count{{{matchers}}}[$__rate_interval]))")


def quantiles(metric, matchers, shares=((0.5, "median"), (0.99, "99 %"))):
    """A query for each share."""
    return [query(quantile(share, metric, matchers), legend) for share, legend in shares]
