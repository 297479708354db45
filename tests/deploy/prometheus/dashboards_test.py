#!/usr/bin/python3
"""The dashboards without any data: what is committed is what the generator writes, Grafana's
schemas take it, and every metric in it is documented.

    dashboards_test.py --source FOLDER
"""
import argparse
import copy
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import yaml

import dashboard_checks as checks

FLAGS = argparse.Namespace()


def committed():
    """The dashboards by name."""
    folder = FLAGS.source / "deploy" / "grafana" / "dashboards"
    return {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}


class Dashboards(unittest.TestCase):
    def setUp(self):
        self.known = set(checks.documented_metrics(FLAGS.source))

    def faults(self, dashboard):
        return checks.static_faults(dashboard, self.known)

    def test_the_generator_writes_what_is_committed(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, "-B", FLAGS.source / "deploy/grafana/generate.py",
                            folder], check=True, timeout=300)
            made = {path.name: path.read_text() for path in pathlib.Path(folder).iterdir()}
        here = FLAGS.source / "deploy" / "grafana" / "dashboards"
        self.assertEqual(set(made), {path.name for path in here.iterdir()})
        for name, text in made.items():
            self.assertTrue(text == (here / name).read_text(),
                            f"{name} is not what deploy/grafana/generate.py writes; run it")

    def test_there_are_four(self):
        self.assertEqual(set(committed()), {"plans", "predictions", "fleet", "service"})
        uids = [dashboard["uid"] for dashboard in committed().values()]
        self.assertEqual(len(set(uids)), len(uids))

    def test_nothing_is_wrong_with_them(self):
        for name, dashboard in committed().items():
            with self.subTest(dashboard=name):
                self.assertEqual(self.faults(dashboard), [])

    def test_mistakes_are_found(self):
        def panel(dashboard, kind):
            return next(p for p in checks.panels(dashboard) if p["type"] == kind)

        def rename(dashboard):
            target = panel(dashboard, "timeseries")["targets"][0]
            target["expr"] = target["expr"].replace("parplan_requests", "parplan_reqests")

        mistakes = {
            "unknown type": lambda d: panel(d, "timeseries").update(type="timeserie"),
            "no metric": rename,
            "legend": lambda d: panel(d, "timeseries")["options"].pop("legend"),
            "lineWidht": lambda d: panel(d, "timeseries")["fieldConfig"]["defaults"]["custom"]
            .update(lineWidht=2),
            "no unit": lambda d: panel(d, "stat")["fieldConfig"]["defaults"].pop("unit"),
            "no description": lambda d: panel(d, "stat").pop("description"),
            "fixed range": lambda d: panel(d, "stat")["targets"][0]
            .update(expr="rate(parplan_requests_total[5m])"),
            "not declared": lambda d: panel(d, "stat")["targets"][0]
            .update(expr='parplan_requests_total{a=~"$nobody"}'),
            "not used": lambda d: d["templating"]["list"].append(
                {"type": "query", "name": "unneeded"}),
            "covers": lambda d: panel(d, "stat")["gridPos"].update(x=1),
            "too wide": lambda d: panel(d, "timeseries")["gridPos"].update(x=20),
            "graphMode": lambda d: panel(d, "stat")["options"].update(graphMode="sparkle"),
            "schemaVersion": lambda d: d.pop("schemaVersion"),
            "exprs": lambda d: panel(d, "stat")["targets"][0].update(exprs="x")}
        for words, make in mistakes.items():
            with self.subTest(mistake=words):
                dashboard = copy.deepcopy(committed()["plans"])
                make(dashboard)
                self.assertTrue(any(words in fault for fault in self.faults(dashboard)),
                                self.faults(dashboard))

    def test_provisioning_is_read(self):
        folder = FLAGS.source / "deploy" / "grafana" / "provisioning"
        providers = yaml.safe_load((folder / "dashboards.yml").read_text())["providers"]
        self.assertEqual(providers[0]["type"], "file")
        sources = yaml.safe_load((folder / "datasources.yml").read_text())["datasources"]
        self.assertEqual(sources[0]["type"], "prometheus")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", type=pathlib.Path, required=True)
    _, rest = parser.parse_known_args(namespace=FLAGS)
    FLAGS.source = FLAGS.source.resolve()
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
