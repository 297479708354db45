#!/usr/bin/python3
"""Recording rules and alerts under promtool: each rule gives what it says, each alert fires when
it must and is silent when it must not be.

    rules_test.py --source FOLDER [--promtool PATH]

Prints `rules N alerts N cases N`. Ends with 77 without promtool.
"""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import yaml

FLAGS = argparse.Namespace()
DAY = 86400
SERVER = 'job="parplan-server",instance="s:9478"'
SIDECAR = 'job="parplan-sidecar",instance="train-0:9482"'
AGENT = 'job="parplan-agent",instance="n1:9480",cluster="lab"'


def alerts():
    rules = yaml.safe_load((FLAGS.rules / "alerts.yml").read_text())
    return [rule for group in rules["groups"] for rule in group["rules"]]


def recordings():
    rules = yaml.safe_load((FLAGS.rules / "recording.yml").read_text())
    return [rule for group in rules["groups"] for rule in group["rules"]]


class Case:
    """Series, each with its values minute by minute, and what an alert makes of them."""

    def __init__(self, alert, series, at, labels=None, severity=None):
        self.alert = alert
        self.series = series
        self.at = at
        self.labels = labels  # None: silent.
        self.severity = severity

    def document(self):
        expected = []
        if self.labels is not None:
            expected = [expected_alert(self.alert, self.labels, self.severity)]
        return {
            "interval": "1m",
            "input_series": [{"series": name, "values": values}
                             for name, values in self.series.items()],
            "alert_rule_test": [{"eval_time": self.at, "alertname": self.alert,
                                 "exp_alerts": expected}]}


def expected_alert(name, labels, severity):
    rule = next(rule for rule in alerts() if rule["alert"] == name and
                severity in (None, rule["labels"]["severity"]))
    texts = {}
    for key, text in rule["annotations"].items():
        texts[key] = re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda found: labels[found.group(1)],
                            text)
        assert "{{" not in texts[key], texts[key]
    return {"exp_labels": {**labels, **rule["labels"]}, "exp_annotations": texts}


def requests(**calls_a_minute):
    return {f'parplan_requests_total{{{SERVER},method="CreatePlan",code="{code}"}}':
            f"0+{count}x120" for code, count in calls_a_minute.items()}


def ratios(metric, mean, a_minute=1):
    """Executions of a day whose ratios have a mean; one is measured every minute."""
    return {f'{metric}_count{{{SERVER},cluster="lab"}}': f"0+{a_minute}x1600",
            f'{metric}_sum{{{SERVER},cluster="lab"}}': f"0+{a_minute * mean:g}x1600"}


def few(metric, mean):
    """Three executions in a day."""
    return {f'{metric}_count{{{SERVER},cluster="lab"}}': "0x100 3x1600",
            f'{metric}_sum{{{SERVER},cluster="lab"}}': f"0x100 {3 * mean:g}x1600"}


def cases():
    server = {"job": "parplan-server", "instance": "s:9478"}
    agent = {"job": "parplan-agent", "instance": "n1:9480", "cluster": "lab"}
    pod = {"job": "parplan-sidecar", "instance": "train-0:9482"}
    lab = {"cluster": "lab"}
    up = f"up{{{SERVER}}}"
    agent_up = f"up{{{AGENT}}}"
    step, peak = "parplan_step_duration_ratio", "parplan_peak_memory_ratio"
    certificate = (f'parplan_tls_certificate_expiry_timestamp_seconds{{{SERVER},'
                   'file="certificate"}')
    key = f"parplan_signing_key_expiry_timestamp_seconds{{{SERVER}}}"
    signing = f"parplan_signing_keys{{{SERVER}}}"
    writable = f"parplan_store_writable{{{SERVER}}}"
    measured = f'parplan_profile_measurement_timestamp_seconds{{{SERVER},cluster="lab"}}'
    connected = f'parplan_agents_connected{{{SERVER},cluster="lab"}}'
    waiting = {f"parplan_search_queue_limit{{{SERVER}}}": "64x60",
               f"parplan_searches_waiting{{{SERVER}}}": "60x60"}
    store = f'parplan_store_calls_total{{{SERVER},operation="put_plan",code="%s"}}'
    failed = f'parplan_searches_total{{{SERVER},planner="exact",outcome="check_failed"}}'
    audit = f"parplan_audit_failures_total{{{SERVER}}}"
    rejects = f'parplan_rejects_total{{{SERVER},reason="%s"}}'
    return [
        Case("ParplanServerDown", {up: "1 1 0x20"}, "10m", server),
        Case("ParplanServerDown", {up: "1 1 0 1x20"}, "10m"),
        Case("ParplanServerDown", {agent_up: "0x30"}, "20m"),

        Case("ParplanServerAbsent", {up: "1x5 _x30"}, "30m", {"job": "parplan-server"}),
        Case("ParplanServerAbsent", {agent_up: "1x30"}, "30m", {"job": "parplan-server"}),
        Case("ParplanServerAbsent", {up: "1x5 _x3 1x30"}, "30m"),
        # One that is there and gives no answer is another's matter.
        Case("ParplanServerAbsent", {up: "1x5 0x30"}, "30m"),

        Case("ParplanRequestsFailing", requests(OK=90, INTERNAL=10), "30m",
             {"job": "parplan-server"}),
        Case("ParplanRequestsFailing", requests(OK=90, INVALID_ARGUMENT=50, UNAVAILABLE=1), "30m"),
        Case("ParplanRequestsFailing", requests(OK=0, INTERNAL=0), "30m"),

        Case("ParplanRejectsHigh", {**requests(OK=60, INVALID_ARGUMENT=40),
                                    rejects % "SPEC_INVALID": "0+40x120"}, "60m",
             {"job": "parplan-server", "reason": "SPEC_INVALID"}),
        Case("ParplanRejectsHigh", {**requests(OK=90, INVALID_ARGUMENT=10),
                                    rejects % "SPEC_INVALID": "0+10x120"}, "60m"),

        Case("ParplanQueueFull", waiting, "20m", server),
        Case("ParplanQueueFull", {**waiting, f"parplan_searches_waiting{{{SERVER}}}": "8x60"},
             "20m"),
        Case("ParplanQueueFull", {rejects % "QUEUE_FULL": "0+2x60"}, "20m", server),
        Case("ParplanQueueFull", {rejects % "SPEC_INVALID": "0+2x60"}, "20m"),

        Case("ParplanQuotaExceeded", {rejects % "QUOTA_EXCEEDED": "0+2x60"}, "30m", server),
        Case("ParplanQuotaExceeded", {rejects % "QUOTA_EXCEEDED": "0x5 1x60"}, "30m"),
        Case("ParplanQuotaExceeded", {rejects % "QUEUE_FULL": "0+2x60"}, "30m"),

        Case("ParplanStoreUnavailable", {store % "UNAVAILABLE": "0+1x30"}, "20m", server),
        # One call that failed.
        Case("ParplanStoreUnavailable", {store % "UNAVAILABLE": "0x5 1x30"}, "8m"),
        Case("ParplanStoreUnavailable", {store % "UNAVAILABLE": "0x5 1x30"}, "9m"),
        Case("ParplanStoreUnavailable", {store % "NOT_FOUND": "0+50x30", store % "OK": "0+50x30",
                                         store % "UNAVAILABLE": "0x30"}, "20m"),

        Case("ParplanStoreReadOnly", {writable: "1 0x20"}, "5m", server),
        Case("ParplanStoreReadOnly", {writable: "1 0 1x20"}, "5m"),

        Case("ParplanAuditFailing", {audit: "0x10 1x60"}, "15m", server),
        Case("ParplanAuditFailing", {audit: "3x90"}, "30m"),
        # It is long ago.
        Case("ParplanAuditFailing", {audit: "0x10 1x60"}, "40m"),

        Case("ParplanSearchCheckFailed", {failed: "0x10 1x60"}, "15m",
             {"job": "parplan-server", "planner": "exact"}),
        Case("ParplanSearchCheckFailed", {failed: "3x90"}, "80m"),

        Case("ParplanCertificateExpiring", {certificate: f"{10 * DAY}x200"}, "100m",
             {**server, "file": "certificate"}, "warning"),
        Case("ParplanCertificateExpiring", {certificate: f"{20 * DAY}x200"}, "100m"),
        # Both fire: only the critical one has waited long enough after 20 minutes.
        Case("ParplanCertificateExpiring", {certificate: f"{1 * DAY}x200"}, "20m",
             {**server, "file": "certificate"}, "critical"),

        Case("ParplanCannotSign", {signing: "1 0x20"}, "5m", server),
        Case("ParplanCannotSign", {signing: "1 0 1x20"}, "5m"),
        Case("ParplanCannotSign", {signing: "2x20"}, "10m"),

        Case("ParplanSigningKeyExpiring", {key: f"{4 * DAY}x200"}, "100m", server),
        Case("ParplanSigningKeyExpiring", {key: f"{80 * DAY}x200"}, "100m"),
        # A server that has just started has not looked at its keys yet.
        Case("ParplanSigningKeyExpiring", {key: f"0 {80 * DAY}x200"}, "100m"),

        Case("ParplanPredictionDrift", ratios(step, 1.3), "1560m", lab),
        Case("ParplanPredictionDrift", ratios(step, 0.7), "1560m", lab),
        Case("ParplanPredictionDrift", ratios(step, 1.1), "1560m"),
        Case("ParplanPredictionDrift", few(step, 2.0), "1500m"),

        Case("ParplanMemoryUnderpredicted", {**ratios(step, 1.0), **ratios(peak, 1.1)}, "1560m",
             lab),
        Case("ParplanMemoryUnderpredicted", {**ratios(step, 1.0), **ratios(peak, 0.8)}, "1560m"),
        Case("ParplanMemoryUnderpredicted", {**few(step, 1.0), **few(peak, 1.4)}, "1500m"),

        Case("ParplanProfileStale", {measured: f"-{15 * DAY}x200"}, "100m", lab),
        Case("ParplanProfileStale", {measured: f"-{6 * DAY}x200"}, "100m"),
        # One of two replicas has not heard of the new profile.
        Case("ParplanProfileStale",
             {measured: f"-{15 * DAY}x200",
              measured.replace("s:9478", "t:9478"): f"-{DAY}x200"}, "100m"),
        # All replicas know of the kind that is stale.
        Case("ParplanProfileStale",
             {measured: f"-{15 * DAY}x200",
              measured.replace("s:9478", "t:9478"): f"-{15 * DAY}x200"}, "100m", lab),
        # That kind leaves the cluster: one replica sees so, then the other; then the last kind.
        Case("ParplanProfileStale",
             {measured: f"-{15 * DAY}x30 {-DAY}x170",
              measured.replace("s:9478", "t:9478"): f"-{15 * DAY}x60 {-DAY}x140"}, "100m"),
        Case("ParplanProfileStale", {measured: f"-{15 * DAY}x30 _x170"}, "100m"),

        Case("ParplanAgentAbsent", {connected: "8x30 7x100"}, "100m", lab),
        # None has come back to a server that started again.
        Case("ParplanAgentAbsent", {connected: "8x30 _x100"}, "100m", lab),
        Case("ParplanAgentAbsent", {connected: "0x30 _x100"}, "100m"),
        # One that moved was counted twice for a while.
        Case("ParplanAgentAbsent", {connected: "8x30 9 9 8x100"}, "100m"),
        # A server that starts again has none for a while.
        Case("ParplanAgentAbsent", {connected: "8x30 0x5 8x100"}, "100m"),
        # Agents that move to another replica.
        Case("ParplanAgentAbsent", {connected: "8x30 2x100",
                                    connected.replace("s:9478", "t:9478"): "0x30 6x100"}, "100m"),

        Case("ParplanAgentDown", {agent_up: "1x5 0x60"}, "40m", agent),
        Case("ParplanAgentDown", {agent_up: "1x5 0x5 1x60"}, "40m"),

        Case("ParplanUploadsWaiting", {f"parplan_agent_upload_queue_length{{{AGENT}}}": "2x200"},
             "120m", agent),
        Case("ParplanUploadsWaiting",
             {f"parplan_agent_upload_queue_length{{{AGENT}}}": "2x30 0 2x200"}, "80m"),

        Case("ParplanJobDrift", {f"parplan_sidecar_drifting{{{SIDECAR}}}": "1x90"}, "60m", pod),
        Case("ParplanJobDrift", {f"parplan_sidecar_drifting{{{SIDECAR}}}": "1x20 0 1x90"}, "45m"),

        Case("ParplanWindowsWaiting", {f"parplan_sidecar_windows_waiting{{{SIDECAR}}}": "5x90"},
             "60m", pod),
        Case("ParplanWindowsWaiting",
             {f"parplan_sidecar_windows_waiting{{{SIDECAR}}}": "5x8 0 5x8 0 5x8 0 5x8 0 5x8 0"},
             "44m"),

        Case("ParplanNodeDrift", {f"parplan_agent_drifted_shapes{{{AGENT}}}": "3x200"}, "150m",
             agent),
        Case("ParplanNodeDrift", {f"parplan_agent_drifted_shapes{{{AGENT}}}": "3x60 0x200"},
             "150m"),
    ]


# Returns for each recording rule: series, when, and its values by labels, as promtool writes them.
def recorded():
    calls = requests(OK=90, INTERNAL=10)
    histogram = {f'parplan_request_duration_seconds_bucket{{{SERVER},method="GetPlan",le="{le}"}}':
                 f"0+{count}x120" for le, count in (("0.1", 50), ("0.2", 100), ("+Inf", 100))}
    stored = {f'parplan_store_call_duration_seconds_bucket{{{SERVER},operation="get_plan",'
              f'le="{le}"}}': f"0+{count}x120" for le, count in (("0.1", 50), ("0.2", 100),
                                                                 ("+Inf", 100))}
    lookups = {f'parplan_cache_lookups_total{{{SERVER},cache="plan",result="{result}"}}':
               f"0+{count}x120" for result, count in (("hit", 30), ("miss", 10))}
    by_phase = {f'parplan_phase_duration_ratio_{part}{{{SERVER},phase="forward"}}':
                f"0+{value}x1600" for part, value in (("count", 2), ("sum", 3))}
    by_item = {f'parplan_memory_item_ratio_{part}{{{SERVER},item="logits"}}':
               f"0+{value}x1600" for part, value in (("count", 2), ("sum", 3))}
    agents = {f'parplan_agents_connected{{job="j",instance="{i}",cluster="lab"}}': "3x60"
              for i in "ab"}
    job = 'job="parplan-server"'
    return {
        "job_method_code:parplan_requests:rate5m":
            (calls, "30m", {f'code="INTERNAL",{job},method="CreatePlan"': 10 / 60,
                            f'code="OK",{job},method="CreatePlan"': 90 / 60}),
        "job:parplan_request_failures:ratio_rate5m": (calls, "30m", {job: 0.1}),
        "job_method:parplan_request_duration_seconds:p99_rate5m":
            (histogram, "30m", {f'{job},method="GetPlan"': 0.198}),
        "job_reason:parplan_rejects:rate15m":
            ({f'parplan_rejects_total{{{SERVER},reason="QUEUE_FULL"}}': "0+6x120"}, "30m",
             {f'{job},reason="QUEUE_FULL"': 0.1}),
        "job_cache:parplan_cache_hits:ratio_rate5m":
            (lookups, "30m", {f'cache="plan",{job}': 0.75}),
        "job_operation:parplan_store_call_duration_seconds:p99_rate5m":
            (stored, "30m", {f'{job},operation="get_plan"': 0.198}),
        "cluster:parplan_executions_measured:increase1d":
            (ratios("parplan_step_duration_ratio", 1.5), "1500m", {'cluster="lab"': 1440}),
        "cluster:parplan_step_duration_ratio:mean1d":
            (ratios("parplan_step_duration_ratio", 1.5), "1500m", {'cluster="lab"': 1.5}),
        "cluster:parplan_peak_memory_ratio:mean1d":
            (ratios("parplan_peak_memory_ratio", 0.5), "1500m", {'cluster="lab"': 0.5}),
        "phase:parplan_phase_duration_ratio:mean1d":
            (by_phase, "1500m", {'phase="forward"': 1.5}),
        "item:parplan_memory_item_ratio:mean1d": (by_item, "1500m", {'item="logits"': 1.5}),
        "cluster:parplan_profile_age_seconds:min":
            ({f'parplan_profile_measurement_timestamp_seconds{{{SERVER},cluster="lab"}}':
              "600x60"}, "30m", {'cluster="lab"': 1200}),
        "cluster:parplan_agents_connected:sum": (agents, "30m", {'cluster="lab"': 6}),
    }


class Rules(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def promtool(self, *arguments):
        return subprocess.run([FLAGS.promtool, *map(str, arguments)], capture_output=True,
                              text=True, timeout=300)

    def run_rules(self, tests):
        """Runs tests against the rules. Those over days evaluate them more rarely, but not so
        rarely that a recorded value is stale (5 minutes) when another rule reads it."""
        def is_long(test):
            return any(int(part["eval_time"].rstrip("m")) > 1000 for part in
                       test.get("alert_rule_test", []) + test.get("promql_expr_test", []))

        paths = []
        for interval, chosen in (("1m", [test for test in tests if not is_long(test)]),
                                 ("4m", [test for test in tests if is_long(test)])):
            if not chosen:
                continue
            paths.append(self.folder / f"every-{interval}.yml")
            paths[-1].write_text(yaml.safe_dump({
                "rule_files": [str(FLAGS.rules / name)
                               for name in ("recording.yml", "alerts.yml")],
                "evaluation_interval": interval, "tests": chosen}))
        return self.promtool("test", "rules", *paths)

    def test_promtool_finds_no_fault(self):
        for name in ("recording.yml", "alerts.yml"):
            done = self.promtool("check", "rules", FLAGS.rules / name)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        done = self.promtool("check", "config", FLAGS.rules / "prometheus.yml")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_every_alert_says_what_to_do(self):
        for rule in alerts():
            with self.subTest(alert=rule["alert"]):
                self.assertTrue(rule["alert"].startswith("Parplan"))
                self.assertIn(rule["labels"]["severity"], ("warning", "critical"))
                self.assertEqual(set(rule["annotations"]), {"summary", "description",
                                                            "runbook_url"})
                found = re.fullmatch(r"(docs/\w+\.md)#(\w+)",
                                     rule["annotations"]["runbook_url"])
                self.assertEqual(found.group(2), rule["alert"].lower())
                page = FLAGS.source / found.group(1)
                if page.exists():
                    self.assertRegex(page.read_text(), rf"(?m)^#+ {rule['alert']}$")

    def test_every_alert_fires_and_is_silent(self):
        known = {(rule["alert"], rule["labels"]["severity"]) for rule in alerts()}
        fired = {(case.alert, expected_alert(case.alert, case.labels, case.severity)
                  ["exp_labels"]["severity"]) for case in cases() if case.labels is not None}
        self.assertEqual(fired, known)
        self.assertEqual({case.alert for case in cases() if case.labels is None},
                         {name for name, _ in known})
        done = self.run_rules([case.document() for case in cases()])
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_every_recording_rule_gives_what_it_says(self):
        self.assertEqual(set(recorded()), {rule["record"] for rule in recordings()})
        tests = []
        for name, (series, at, samples) in recorded().items():
            tests.append({
                "interval": "1m",
                "input_series": [{"series": series_name, "values": values}
                                 for series_name, values in series.items()],
                # Rounded: promtool compares exactly.
                "promql_expr_test": [{
                    "expr": f"round({name}, 0.001)", "eval_time": at,
                    "exp_samples": [{"labels": f"{{{labels}}}", "value": round(value, 3)}
                                    for labels, value in samples.items()]}]})
        done = self.run_rules(tests)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_a_wrong_expectation_is_found(self):
        case = cases()[0]
        self.assertIsNotNone(case.labels)
        self.assertNotEqual(self.run_rules([Case(case.alert, case.series, case.at).document()])
                            .returncode, 0)
        silent = next(case for case in cases() if case.labels is None)
        wrong = Case(silent.alert, silent.series, silent.at,
                     {"job": "parplan-server", "instance": "s:9478"})
        self.assertNotEqual(self.run_rules([wrong.document()]).returncode, 0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--promtool", default=shutil.which("promtool"))
    _, rest = parser.parse_known_args(namespace=FLAGS)
    if FLAGS.promtool is None:
        print("promtool is not installed (Debian: prometheus)")
        sys.exit(77)
    FLAGS.source = FLAGS.source.resolve()
    FLAGS.rules = FLAGS.source / "deploy" / "prometheus"
    print(f"rules {len(recordings())} alerts {len(alerts())} cases {len(cases())}", flush=True)
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
