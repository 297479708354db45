#!/usr/bin/python3
"""planctl and a server of its own.

    planctl_server_test.py --planctl PATH --server-binary PATH [--examples FOLDER]

Skipped, with the reason, where --server-binary is no file.
"""
import base64
import datetime
import json
import pathlib
import tempfile
import unittest

from planctl_run import (
    FLAGS, OK, BAD_INPUT, MISSING, NOT_VERIFIED, UNAVAILABLE, NOT_FOUND, PlanctlTest, main, planctl)


class Server(PlanctlTest):
    """Against a server of this test alone, with the examples uploaded."""

    @classmethod
    def setUpClass(cls):
        if FLAGS.server_binary is None or not pathlib.Path(FLAGS.server_binary).is_file():
            raise unittest.SkipTest("no parplan-server is built: --server-binary is no file")
        import parplan_process
        cls.server_folder = tempfile.TemporaryDirectory()
        cls.server = parplan_process.Server(FLAGS.server_binary, cls.server_folder.name).start()
        cls.env = {"PARPLAN_SERVER": cls.server.address}
        cls.trust = pathlib.Path(cls.server_folder.name) / "data" / "trust-bundle.jwks.json"
        for nodes, name in ((1, "llama2-7b-a100"), (2, "llama2-7b-a100-2-nodes")):
            done = planctl("--format", "json", "profile", "upload",
                           FLAGS.examples / f"{name}.profile.json",
                           "--cluster", f"a100-40g-{8 * nodes}", "--node", "node-0", env=cls.env)
            assert done.returncode == OK, done.stderr
            if nodes == 1:
                cls.uploaded = json.loads(done.stdout)

    @classmethod
    def tearDownClass(cls):
        if hasattr(cls, "server"):
            cls.server.__exit__()
            cls.server_folder.cleanup()

    def ask(self, *arguments, code=OK):
        return self.json(*arguments, code=code, env=self.env)

    def signed(self, *flags):
        """A signed plan for job 4711, in a file."""
        path = self.folder / "plan.dsse.json"
        self.ask("plan", *self.question(), "--job", "4711", "--out", path, *flags)
        return path

    def verify(self, path, *flags, code=NOT_VERIFIED, trust=None):
        """The verdict, which text and JSON must agree about."""
        arguments = ["verify", path, "--trust", trust or self.trust, *flags]
        answer = self.json(*arguments, code=code)
        self.text(*arguments, code=code)
        self.assertEqual(answer["valid"], code == OK)
        return answer["verdict"]

    def test_profiles_are_uploaded_listed_shown_and_deleted(self):
        rows = self.ask("profile", "list", "--cluster", "a100-40g-8")["profiles"]
        self.assertEqual([row["name"] for row in rows], [self.uploaded["name"]])
        shown = self.ask("profile", "show", self.uploaded["name"])
        self.assertEqual(shown["device_kind"], "NVIDIA A100-SXM4-40GB")
        # The profile that is shown can be uploaded and planned with again.
        path = self.folder / "shown.json"
        path.write_text(json.dumps(shown))
        self.json("plan", *self.offline(profile=path))
        again = self.ask("profile", "upload", path, "--cluster", "again", "--node", "n")
        self.assertEqual(again["digest"], self.uploaded["digest"])
        kept = self.ask("profile", "upload", path, "--cluster", "again", "--node", "m")
        self.assertEqual(self.ask("profile", "delete", again["name"])["deleted"], [again["name"]])
        self.ask("profile", "delete", again["name"], kept["name"], code=NOT_FOUND)
        rows = self.ask("profile", "list", "--cluster", "again")["profiles"]
        self.assertEqual([row["name"] for row in rows], [kept["name"]])
        self.ask("profile", "show", self.uploaded["name"] + "0", code=NOT_FOUND)
        self.assertEqual(self.ask("profile", "list", "--cluster", "none")["profiles"], [])

    def calibration(self, matrix_efficiency):
        """A calibration file, by hand."""
        path = self.folder / "c.calibration.json"
        path.write_text(json.dumps({
            "provenance": {"agent": "by hand", "sources": [{"source": "lab", "row_count": 12}]},
            "coefficient_values": [{"coefficient": "matrix_efficiency",
                                    "value": matrix_efficiency, "fitted": True}]}))
        return path

    def test_calibrations_are_uploaded_listed_shown_and_activated(self):
        cluster = "a100-40g-16"
        question = [*self.question(2), "--job", "calibrated"]
        listed = self.ask("calibration", "list", "--cluster", cluster)
        self.assertEqual(listed, {"active_calibration": "", "calibrations": []})
        self.text("calibration", "list", "--cluster", cluster, env=self.env)
        path = self.calibration(0.5)
        first = self.ask("calibration", "upload", path, "--cluster", cluster)
        self.assertFalse(first["active"])
        self.assertEqual(self.ask("calibration", "upload", path, "--cluster", cluster), first)
        second = self.ask("calibration", "upload", self.calibration(0.6), "--cluster", cluster,
                          "--activate")
        self.assertTrue(second["active"])
        listed = self.ask("calibration", "list", "--cluster", cluster)
        self.assertEqual(listed, {"active_calibration": second["name"],
                                  "calibrations": [second, first]})
        text = self.text("calibration", "list", "--cluster", cluster, env=self.env).stdout
        self.assertIn(f"{second['name']}  active\n  from lab (12 runs)\n", text)

        # The text that is shown can be uploaded again: it is the same calibration.
        shown = self.ask("calibration", "show", first["name"])
        path.write_text(json.dumps(shown))
        self.assertEqual(self.ask("calibration", "upload", path, "--cluster", cluster), first)

        answer = self.ask("calibration", "activate", first["name"])
        self.assertEqual(answer, {"active_calibration": first["name"], "digest": first["digest"]})
        calibrated = self.ask("plan", *question)
        answer = self.ask("calibration", "activate", "--built-in", "--cluster", cluster)
        self.assertEqual(answer, {"active_calibration": "", "digest": ""})
        built_in = self.ask("plan", *question)
        self.assertNotEqual(built_in["plan"]["name"], calibrated["plan"]["name"])
        self.assertFalse(built_in["search"]["from_cache"])

        self.ask("calibration", "activate", first["name"] + "0", code=NOT_FOUND)
        self.ask("calibration", "show", first["name"] + "0", code=NOT_FOUND)
        for wrong in ([], ["--built-in"], [first["name"], "--cluster", "other"],
                      [first["name"], "--built-in", "--cluster", cluster]):
            self.ask("calibration", "activate", *wrong, code=BAD_INPUT)
        self.ask("calibration", "upload", self.calibration(-1), "--cluster", cluster,
                 code=BAD_INPUT)

    def test_a_plan_of_the_server_is_the_plan_made_offline(self):
        for nodes in (1, 2):
            mine = self.json("plan", *self.offline(nodes))
            theirs = self.ask("plan", *self.question(nodes))
            self.assertEqual(list(theirs), ["plan", "prediction", "search"])
            self.assertEqual(theirs["plan"]["gist"], mine["plan"]["gist"])
            self.assertEqual(theirs["prediction"], mine["prediction"])
            for digest in ("model_digest", "topology_digest", "profile_digest", "hardware_digest",
                           "calibration_digest", "runtime_id"):
                self.assertEqual(theirs["plan"][digest], mine["plan"][digest])
            again = self.ask("plan", *self.question(nodes))
            self.assertTrue(again["search"]["from_cache"])
            self.assertEqual(again["plan"], theirs["plan"])

    def test_a_comparison_of_the_server_is_the_one_made_offline(self):
        for nodes in (1, 2):
            mine = {row["planner"]: row
                    for row in self.json("compare", *self.offline(nodes), "--time-limit",
                                          "2")["comparisons"]}
            theirs = self.ask("compare", *self.question(nodes))["comparisons"]
            self.assertGreaterEqual(len(theirs), 8)
            for row in theirs:
                self.assertEqual(row, mine[row["planner"]])

    def test_shape_says_what_to_ask_for(self):
        answer = self.ask("shape", *self.question(), "--min-devices", 8)
        best = answer["options"][answer["recommended_option_index"]]
        self.assertTrue(best["feasible"])
        self.assertEqual(best["device_count"], 8)
        self.assertIn("what to ask for", self.text("shape", *self.question(), "--min-devices", 8,
                                                   env=self.env).stdout)

    def test_what_has_no_measurements_gives_4(self):
        def other_kind(cluster):
            cluster["node_groups"][0]["device_kind"] = "Unheard-of GPU"
        cluster = self.edited("a100-40g-8.cluster.json", other_kind)
        error = self.ask("plan", *self.question(cluster=cluster), code=MISSING)["error"]
        self.assertEqual(error["reason"], "PROFILE_MISSING")

    def test_a_signed_plan_is_valid_for_whom_it_is(self):
        path = self.signed()
        self.assertEqual(
            self.verify(path, "--cluster", "a100-40g-8", "--job", "4711", "--topology",
                        self.example("a100-40g-8.cluster.json"), code=OK), "valid")
        self.assertIn("signed by", self.text("explain", path).stdout)

    def test_each_refusal_has_its_own_reason(self):
        path = self.signed("--valid-hours", "1")
        envelope = json.loads(path.read_text())
        payload = bytearray(base64.b64decode(envelope["payload"]))
        payload[len(payload) // 2] ^= 1
        altered = self.folder / "altered.json"
        altered.write_text(json.dumps(
            {**envelope, "payload": base64.b64encode(payload).decode()}))
        self.assertEqual(self.verify(altered), "bad_signature")

        other = self.json("keys", "generate", "--data-dir", self.folder / "other",
                          program="server_binary")
        self.assertEqual(self.verify(path, trust=other["trust_bundle"]), "bad_signature")
        later = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=2)
        self.assertEqual(self.verify(path, "--at", later.strftime("%Y-%m-%dT%H:%M:%SZ")),
                         "expired")
        self.assertEqual(self.verify(path, "--job", "4712"), "wrong_audience")
        self.assertEqual(self.verify(path, "--cluster", "elsewhere"), "wrong_audience")
        self.assertEqual(
            self.verify(path, "--topology", self.example("a100-40g-16.cluster.json")),
            "wrong_topology")

    def test_the_server_is_not_asked_to_verify(self):
        path = self.signed()
        done = planctl("verify", path, "--trust", self.trust,
                       env={"PARPLAN_SERVER": "127.0.0.1:1"})
        self.assertEqual(done.returncode, OK, done.stderr)

    def test_files_of_tls_that_cannot_hold_are_named_before_a_call(self):
        import parplan_process
        tls = parplan_process.make_certificates(self.folder / "tls")
        junk = self.folder / "junk.pem"
        junk.write_text("-----BEGIN CERTIFICATE-----\nanVuaw==\n-----END CERTIFICATE-----\n")
        own = ("--tls-certificate", tls / "client.pem", "--tls-key", tls / "client.key")
        for flags, field in ((("--tls-ca", junk), "tls_ca"),
                             (("--tls-certificate", junk, "--tls-key", tls / "client.key"),
                              "tls_certificate"),
                             (("--tls-certificate", tls / "client.pem",
                               "--tls-key", tls / "server.key"), "tls_key"),
                             (("--tls-ca", tls / "ca.key", *own), "tls_ca")):
            answer = self.ask("profile", "list", "--cluster", "c", *flags, code=BAD_INPUT)
            self.assertEqual(answer["error"]["metadata"]["field"], field)
        # Good ones reach the server, which speaks no TLS.
        self.ask("profile", "list", "--cluster", "c", "--tls-ca", tls / "ca.pem", *own,
                 code=UNAVAILABLE)


if __name__ == "__main__":
    main()
