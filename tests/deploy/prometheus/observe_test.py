#!/usr/bin/python3
"""A real Prometheus reads a real server, over TLS to its clients, a real agent and a real sidecar,
while all work: every query of every dashboard gives finite values, every rule can be evaluated, and what
is told keeps the rules of names.

    observe_test.py --source FOLDER --server-binary FILE --agent FILE --sidecar FILE

Prints what it counted. Ends with 77 without Prometheus.
"""
import argparse
import copy
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

FLAGS = argparse.Namespace()
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "integration"))

import grpc  # noqa: E402

import dashboard_checks as checks  # noqa: E402
import metric_rules  # noqa: E402
from agent_process import Agent  # noqa: E402
from observe_load import Load  # noqa: E402
from parplan_process import Client, Server, make_certificates, small_question  # noqa: E402
from prometheus_process import PATIENCE_SECONDS, Prometheus, fetch, query_fault  # noqa: E402

# A query of a rate needs some scrapes within it, also where a busy machine misses many.
RATE_WINDOW = "5m"
# Less than the 14 days of which the first alert warns, and more than the 2 of the second, which
# would fire within this test.
CERTIFICATE_DAYS = 10
ROUNDS = 3
SCRAPES = 8

CONFIG = """
global: {{scrape_interval: 2s, evaluation_interval: 1s}}
rule_files: ["{rules}/recording.yml", "{rules}/alerts.yml"]
scrape_configs:
  - job_name: parplan-server
    static_configs: [{{targets: ["127.0.0.1:{server}"]}}]
  - job_name: parplan-agent
    static_configs: [{{targets: ["127.0.0.1:{agent}"], labels: {{cluster: lab}}}}]
  - job_name: parplan-sidecar
    static_configs: [{{targets: ["127.0.0.1:{sidecar}"]}}]
"""


def wait_for(what, condition, look=lambda: None):
    """The first true value of `condition()`; `look` may end the wait by raising."""
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        look()
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"waited in vain for {what}")
        time.sleep(0.1)


class Sidecar:
    """A sidecar of a plan, whose volume is filled first; killed at the latest with the `with`
    block."""

    def __init__(self, folder, plan, server_flags):
        self.folder = folder
        self.volume = folder / "volume"
        # Paths of sockets are short.
        self.sockets = tempfile.TemporaryDirectory(dir="/tmp")
        self.socket = pathlib.Path(self.sockets.name) / "s"
        self.common = ["--trust", folder / "data" / "trust-bundle.jwks.json",
                       "--volume", self.volume, *server_flags]
        self.plan = plan
        self.process = None

    def command(self, *arguments):
        return [str(part) for part in (FLAGS.sidecar, *arguments)]

    def __enter__(self):
        subprocess.run(self.command("init", *self.common, "--plan", self.plan.name), check=True,
                       capture_output=True, timeout=PATIENCE_SECONDS)
        port_file = self.folder / "sidecar-metrics-port"
        with open(self.folder / "sidecar.log", "ab") as log:
            self.process = subprocess.Popen(self.command(
                "run", *self.common, "--socket", self.socket, "--state-dir",
                self.folder / "sidecar-state", "--listen", "127.0.0.1:0", "--metrics-listen",
                "127.0.0.1:0", "--port-file", self.folder / "sidecar-port",
                "--metrics-port-file", port_file), stderr=log)
        wait_for("the sidecar", lambda: port_file.exists() or self.process.poll() is not None)
        if self.process.poll() is not None:
            self.__exit__()
            raise AssertionError((self.folder / "sidecar.log").read_text())
        self.metrics_port = int(port_file.read_text())
        return self

    def __exit__(self, *unused):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.sockets.cleanup()


class Observed(unittest.TestCase):
    """Everything runs once, for all tests."""

    @classmethod
    def setUpClass(cls):
        cls.start = time.time()
        folder = cls.enter(tempfile.TemporaryDirectory())
        cls.folder = pathlib.Path(folder)
        pems = make_certificates(cls.folder / "pems", CERTIFICATE_DAYS)
        cls.server = cls.enter(Server(
            FLAGS.server_binary, cls.folder, "--tls-certificate", pems / "server.pem",
            "--tls-key", pems / "server.key", "--tls-client-ca", pems / "ca.pem",
            "--allow-all-callers"))
        address = f"localhost:{cls.server.port}"
        cls.agent = cls.enter(Agent(
            FLAGS.agent, cls.folder, address, "--tls-ca", pems / "ca.pem",
            "--tls-certificate", pems / "client.pem", "--tls-key", pems / "client.key"))
        credentials = grpc.ssl_channel_credentials(
            (pems / "ca.pem").read_bytes(), (pems / "client.key").read_bytes(),
            (pems / "client.pem").read_bytes())
        client = cls.enter(Client(address, credentials))
        cls.load = Load(client)
        cls.load.prepare()
        plan = client.call("parplan.v1.PlanService", "CreatePlan",
                           small_question(8, job_id="watched"), PATIENCE_SECONDS)
        sidecar = cls.enter(Sidecar(cls.folder, plan, [
            "--server", address, "--tls-ca", pems / "ca.pem",
            "--tls-certificate", pems / "client.pem", "--tls-key", pems / "client.key"]))
        cls.sidecar_port = sidecar.metrics_port
        config = cls.folder / "prometheus.yml"
        config.write_text(CONFIG.format(rules=FLAGS.source / "deploy" / "prometheus",
                                        server=cls.server.metrics_port,
                                        agent=cls.agent.metrics_port,
                                        sidecar=cls.sidecar_port))
        cls.prometheus = cls.enter(Prometheus(FLAGS.prometheus, cls.folder, config))
        job = cls.enter(Client(address, credentials))
        job.service("parplan.v1.ExecutionService")  # As the server describes it.
        job.channel = cls.enter(grpc.insecure_channel(f"unix:{sidecar.socket}"))
        cls.load.report_to(job, plan)
        cls.load.start()
        wait_for("the agent's profile",
                 lambda: cls.agent.metric('parplan_agent_uploads_total{result="stored"}') > 0,
                 cls.load.check)
        wait_for(f"{ROUNDS} rounds", lambda: cls.load.rounds >= ROUNDS, cls.load.check)
        # All is there to be told; now it has to be read.
        scrapes = {name: f'sum_over_time(up{{job="{name}"}}[1h])'
                   for name in ("parplan-server", "parplan-agent", "parplan-sidecar")}
        before = {name: cls.prometheus.value(count) for name, count in scrapes.items()}
        for name, count in scrapes.items():
            wait_for(f"{SCRAPES} scrapes of {name}",
                     lambda: cls.prometheus.value(count) >= before[name] + SCRAPES,
                     cls.load.check)
        cls.load.stop()

    @classmethod
    def enter(cls, context):
        """Does the same as `enterClassContext` of later releases of unittest."""
        value = context.__enter__()
        cls.addClassCleanup(context.__exit__, None, None, None)
        return value

    @classmethod
    def pages(cls):
        return {"server": fetch(f"http://127.0.0.1:{cls.server.metrics_port}/metrics"),
                "agent": fetch(f"http://127.0.0.1:{cls.agent.metrics_port}/metrics"),
                "sidecar": fetch(f"http://127.0.0.1:{cls.sidecar_port}/metrics")}

    def dashboards(self):
        folder = FLAGS.source / "deploy" / "grafana" / "dashboards"
        return {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}

    def values_of(self, variable):
        """Returns the values in a variable's list."""
        found = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"])
        self.assertIsNotNone(found, variable)
        return self.prometheus.series_labels(found.group(1), found.group(2), self.start)

    def faults(self, dashboard):
        """Returns the faults of all queries, with variables set to each value and to all."""
        variables = [variable for variable in dashboard["templating"]["list"]
                     if variable["type"] == "query"]
        faults = [f"variable `{variable['name']}` has no values" for variable in variables
                  if not self.values_of(variable)]
        seconds = int(time.time() - self.start) + 1
        for panel, target in checks.queries(dashboard):
            text = target["expr"].replace("$__rate_interval", RATE_WINDOW)
            text = text.replace("$__range", f"{seconds}s")
            for variable in variables:
                text = re.sub(rf"\$\{{?{variable['name']}\b\}}?", variable["allValue"], text)
            unit = panel["fieldConfig"]["defaults"].get("unit", "none")
            fault = query_fault(self.prometheus, text, self.start, unit)
            if fault is not None:
                faults.append(f"panel `{panel['title']}`: {fault}")
        return faults

    def test_every_query_of_every_dashboard_gives_finite_values(self):
        panels = queries = 0
        for name, dashboard in self.dashboards().items():
            with self.subTest(dashboard=name):
                self.assertEqual(self.faults(dashboard), [])
            panels += sum(1 for _ in checks.panels(dashboard))
            queries += sum(1 for _ in checks.queries(dashboard))
        print(f"\ndashboards {len(self.dashboards())} panels {panels} queries {queries}",
              flush=True)

    def test_a_query_that_gives_nothing_is_found(self):
        dashboard = copy.deepcopy(self.dashboards()["service"])
        _, target = next(iter(checks.queries(dashboard)))
        target["expr"] = "parplan_reqests_total"
        self.assertEqual(len(self.faults(dashboard)), 1)
        target["expr"] = "sum(parplan_requests_total"
        self.assertEqual(len(self.faults(dashboard)), 1)
        target["expr"] = "parplan_build_info / 0"
        self.assertEqual(len(self.faults(dashboard)), 1)
        target["expr"] = "-parplan_build_info"
        self.assertEqual(len(self.faults(dashboard)), 1)
        variable = dashboard["templating"]["list"][1]
        variable["query"] = "label_values(parplan_nothing, instance)"
        self.assertIn(f"variable `{variable['name']}` has no values", self.faults(dashboard))

    def test_every_rule_is_evaluated(self):
        groups = self.prometheus.api("rules")["groups"]
        rules = [rule for group in groups for rule in group["rules"]]
        self.assertGreater(len(rules), 20)
        for rule in rules:
            self.assertEqual(rule["health"], "ok", rule.get("lastError"))
        alerts = sum(1 for rule in rules if rule["type"] == "alerting")
        print(f"\nrules {len(rules) - alerts} alerts {alerts}", flush=True)

    def test_nothing_alarms_that_should_not(self):
        alerts = self.prometheus.api("alerts")["alerts"]
        self.assertEqual([alert["labels"] for alert in alerts if alert["state"] == "firing"], [])
        # These certificates end within 14 days: that waits an hour to fire.
        self.assertIn("ParplanCertificateExpiring",
                      {alert["labels"]["alertname"] for alert in alerts})

    def test_promtool_takes_what_the_programs_export(self):
        for name, text in self.pages().items():
            done = subprocess.run([FLAGS.promtool, "check", "metrics"], input=text, text=True,
                                  capture_output=True, timeout=PATIENCE_SECONDS)
            self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""), name)

    def test_names_and_labels_keep_our_rules(self):
        total = 0
        for name, text in self.pages().items():
            page = metric_rules.Page(text)
            self.assertEqual(metric_rules.faults(page), [], name)
            total += page.series_count
            print(f"\n{name}: metrics {len(page.types)} series {page.series_count}", flush=True)
        self.assertGreater(total, 500)

    def test_a_bad_name_is_found(self):
        for text, words in (
                ("# HELP x_a h\n# TYPE x_a gauge\nx_a 1\n", "does not begin"),
                ("# TYPE parplan_a_bytes gauge\nparplan_a_bytes 1\n", "no help"),
                ("# HELP parplan_as h\n# TYPE parplan_as counter\nparplan_as 1\n", "_total"),
                ("# HELP parplan_a_ms h\n# TYPE parplan_a_ms gauge\nparplan_a_ms 1\n", "seconds"),
                ("# HELP parplan_a_bytes h\n# TYPE parplan_a_bytes gauge\n"
                 'parplan_a_bytes{job_name="name of a job"} 1\n', "no short word")):
            with self.subTest(rule=words):
                found = metric_rules.faults(metric_rules.Page(text))
                self.assertTrue(any(words in fault for fault in found), found)

    def test_all_that_is_told_is_documented_and_the_other_way_round(self):
        documented = checks.documented_metrics(FLAGS.source)
        told = {}
        for text in self.pages().values():
            page = metric_rules.Page(text)
            for name in page.types:
                told.setdefault(name, set()).update(page.labels.get(name, set()))
        self.assertEqual(set(documented) - set(told), set(), "documented and not told")
        self.assertEqual(set(told) - set(documented), set(), "told and not documented")
        for name, labels in told.items():
            self.assertEqual(documented[name], labels, name)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--server-binary", type=pathlib.Path, required=True)
    parser.add_argument("--agent", type=pathlib.Path, required=True)
    parser.add_argument("--sidecar", type=pathlib.Path, required=True)
    parser.add_argument("--prometheus", default=shutil.which("prometheus"))
    parser.add_argument("--promtool", default=shutil.which("promtool"))
    _, rest = parser.parse_known_args(namespace=FLAGS)
    if FLAGS.prometheus is None or FLAGS.promtool is None:
        print("Prometheus is not installed (Debian: prometheus)")
        sys.exit(77)
    FLAGS.source = FLAGS.source.resolve()
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
