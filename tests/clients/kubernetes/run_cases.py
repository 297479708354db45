"""Measurements go to the server, nothing is lost, and newer plans come."""
import json
import shutil
import ssl
import subprocess

import grpc

import parplan_process as parplan
from machine import PATIENCE_SECONDS, wait_for
from sidecar_case import (EXECUTIONS, FLAGS, OK, PLANS, REFUSED, UNAVAILABLE, WRONG, Sidecar,
                          SidecarTest, window)


def end_of(certificate):
    """When it ends, in seconds since 1970."""
    done = subprocess.run(["openssl", "x509", "-noout", "-enddate", "-in", certificate],
                          capture_output=True, text=True, check=True)
    return ssl.cert_time_to_seconds(done.stdout.strip().removeprefix("notAfter="))


class RunTest(SidecarTest):
    def begin(self, server, job="job-1", tls=()):
        """A plan on the volume."""
        self.upload(server)
        plan = self.create(server, job)
        done = self.init("--server", server.address, "--plan", plan.name, *tls)
        self.assertEqual(done.returncode, OK, done.stderr)
        return plan

    def report(self, server, sidecar, plan, steps, request_id="0b9d0a6e-1", close=True):
        """Reports like a job, by a client that knows the messages from the server."""
        with parplan.Client(server.address, self.credentials) as messages:
            messages.service(EXECUTIONS)
            messages.channel.close()
            messages.channel = grpc.insecure_channel(f"unix:{sidecar.socket}")
            execution = messages.call(EXECUTIONS, "CreateExecution",
                                      {"parent": plan.name, "request_id": request_id}, 60)
            answer = messages.call(
                EXECUTIONS, "ReportMetrics",
                [{"execution": execution.name, "window": window(rank, step)}
                 for step in steps for rank in (0, 1)], 60)
            self.assertEqual(answer.stored_window_count, 2 * len(steps))
            if close:
                messages.call(EXECUTIONS, "CompleteExecution", {"name": execution.name}, 60)

    def executions(self, server, plan):
        with parplan.Client(server.address, self.credentials) as client:
            return client.call(EXECUTIONS, "ListExecutions", {"parent": plan.name}).executions

    def test_a_drift_limit_is_a_finite_number(self):
        for limit in ("nan", "inf", "1", "1001"):
            done = subprocess.run(
                [FLAGS.bin / "parplan-sidecar", "run", "--check-config", "--drift-limit", limit],
                capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS)
            self.assertEqual(done.returncode, WRONG)
            self.assertIn("must be a number from 1.001 to 1000", done.stderr)

    def test_windows_reach_the_server_and_drift_is_told(self):
        with self.serve() as server:
            plan = self.begin(server)
            with Sidecar(self.folder, server.address) as sidecar:
                with parplan.Client(f"127.0.0.1:{sidecar.port}") as client:
                    self.assertTrue(parplan.is_serving(client))
                self.report(server, sidecar, plan, range(0, 100, 10))
                closed = wait_for("the end of the execution", lambda: [
                    one for one in self.executions(server, plan) if one.state == 2])
                self.assertEqual(closed[0].window_count, 20)
                metrics = sidecar.metrics()
                self.assertEqual(metrics["parplan_sidecar_windows_received_total"], 20)
                self.assertEqual(metrics["parplan_sidecar_windows_forwarded_total"], 20)
                self.assertEqual(metrics["parplan_sidecar_windows_waiting"], 0)
                self.assertEqual(metrics["parplan_sidecar_plan_generation"], 1)
                # 100 ms a step, on two GPUs that need a few.
                self.assertGreater(metrics["parplan_sidecar_step_duration_ratio"], 1.25)
                self.assertEqual(metrics["parplan_sidecar_drifting"], 1)
                self.assertEqual(len(sidecar.events("steps take another time than predicted")), 1)
                resident = metrics["process_resident_memory_bytes"]
                print(f"\nresident memory of the sidecar: {resident / 1e6:.1f} MB")
                self.assertLess(resident, 30e6)
                self.assertEqual(sidecar.end(), OK)

    def test_nothing_acknowledged_is_lost(self):
        server = self.serve()
        with server:
            plan = self.begin(server)
            address, port = server.address, server.port
            with Sidecar(self.folder, address) as sidecar:
                self.report(server, sidecar, plan, [0], close=False)
                wait_for("two windows", lambda: self.executions(server, plan) and
                         self.executions(server, plan)[0].window_count == 2)
                # The server dies; the job goes on; the sidecar dies; both come back.
                descriptors = parplan.Client(address)
                descriptors.service(EXECUTIONS)
                server.kill()
                descriptors.channel = grpc.insecure_channel(f"unix:{sidecar.socket}")
                name = descriptors.call(EXECUTIONS, "CreateExecution", {
                    "parent": plan.name, "request_id": "0b9d0a6e-1"}, 60).name
                for step in range(10, 60, 10):
                    descriptors.call(EXECUTIONS, "ReportMetrics", [
                        {"execution": name, "window": window(rank, step)} for rank in (0, 1)], 60)
                    if step == 30:
                        sidecar.kill()
                        sidecar.start()
                        descriptors.channel.close()
                        descriptors.channel = grpc.insecure_channel(f"unix:{sidecar.socket}")
                descriptors.call(EXECUTIONS, "CompleteExecution", {"name": name}, 60)
                descriptors.channel.close()
                self.assertEqual(sidecar.metrics()["parplan_sidecar_windows_waiting"], 10)
                # Ended without the server it says what it keeps.
                sidecar.arguments += ["--drain-time", "200ms"]
                sidecar.kill()
                sidecar.start()
                self.assertEqual(sidecar.end(), UNAVAILABLE)
                self.assertIn("10 windows could not be brought", sidecar.log())
                server.flags += ["--listen", f"127.0.0.1:{port}"]
                server.start()
                sidecar.start()
                closed = wait_for("all windows", lambda: [
                    one for one in self.executions(server, plan) if one.state == 2])
                self.assertEqual([one.window_count for one in closed], [12])
                self.assertEqual(len(self.executions(server, plan)), 1)
                self.assertEqual(sidecar.end(), OK)

    def test_windows_that_the_server_refuses_are_counted_and_told(self):
        server = self.serve()
        with server:
            self.begin(server)
            with Sidecar(self.folder, server.address) as sidecar:
                with parplan.Client(server.address) as job:
                    job.service(EXECUTIONS)
                    # All of them have come before the server can refuse the execution.
                    port = server.port
                    server.kill()
                    job.channel.close()
                    job.channel = grpc.insecure_channel(f"unix:{sidecar.socket}")
                    name = job.call(EXECUTIONS, "CreateExecution", {
                        "parent": "clusters/lab/plans/nobodys", "request_id": "0b9d0a6e-1"}, 60).name
                    job.call(EXECUTIONS, "ReportMetrics", [
                        {"execution": name, "window": window(rank, step)}
                        for step in (0, 10) for rank in (0, 1)], 60)
                server.flags += ["--listen", f"127.0.0.1:{port}"]
                server.start()
                wait_for("the refusal", lambda: sidecar.metrics()
                         ["parplan_sidecar_windows_refused_total"] == 4)
                self.assertEqual(sidecar.metrics()["parplan_sidecar_windows_forwarded_total"], 0)
                (refused,) = sidecar.events("the server refused")
                self.assertIn("nobodys", refused["message"])
                self.assertEqual(sidecar.end(), REFUSED)
                self.assertIn('"refused":"4"', sidecar.log())
                self.assertIn("4 windows that were taken from the job were refused", sidecar.log())

    def test_what_comes_after_the_server_gave_up_is_taken(self):
        with self.serve("--execution-silence", "1s") as server:
            plan = self.begin(server)
            with Sidecar(self.folder, server.address) as sidecar:
                self.report(server, sidecar, plan, [0], close=False)
                wait_for("the server to give up", lambda: [
                    one for one in self.executions(server, plan)
                    if one.state == 3 and "abandoned" in one.failure_reason])
                self.report(server, sidecar, plan, [10, 20])
                closed = wait_for("the end that the job told", lambda: [
                    one for one in self.executions(server, plan) if one.state == 2])
                self.assertEqual([one.window_count for one in closed], [6])
                self.assertEqual(sidecar.metrics()["parplan_sidecar_windows_refused_total"], 0)
                self.assertEqual(sidecar.end(), OK)

    def test_what_a_killed_job_left_open_is_failed_and_a_restart_opens_it_again(self):
        with self.serve() as server:
            plan = self.begin(server)
            with Sidecar(self.folder, server.address) as sidecar:
                # The trainer is killed, and the pod ends.
                self.report(server, sidecar, plan, [0], close=False)
                self.assertEqual(sidecar.end(), OK)
                (failed,) = self.executions(server, plan)
                self.assertEqual((failed.state, failed.window_count), (3, 2))
                self.assertEqual(failed.failure_reason,
                                 "the pod ended before its job said how it went")
                # It was the sidecar alone: the job goes on, and ends.
                sidecar.start()
                self.report(server, sidecar, plan, [10], close=False)
                wait_for("the next windows", lambda: [
                    one for one in self.executions(server, plan) if one.window_count == 4])
                (again,) = self.executions(server, plan)
                self.assertEqual((again.state, again.failure_reason), (1, ""))
                self.report(server, sidecar, plan, [20])
                (closed,) = wait_for("the end of the execution", lambda: [
                    one for one in self.executions(server, plan) if one.state == 2])
                self.assertEqual((closed.name, closed.window_count), (failed.name, 6))
                self.assertEqual(sidecar.end(), OK)

    def test_renewed_certificates_are_used_without_a_restart(self):
        made = parplan.make_certificates(self.folder / "certificates")
        self.credentials = grpc.ssl_channel_credentials(
            (made / "ca.pem").read_bytes(), (made / "client.key").read_bytes(),
            (made / "client.pem").read_bytes())

        def flags(certificate, key):
            return ("--tls-ca", made / "ca.pem", "--tls-certificate", certificate, "--tls-key", key)

        with self.serve("--tls-certificate", made / "server.pem", "--tls-key", made / "server.key",
                        "--tls-client-ca", made / "ca.pem",
                        *parplan.grants_flags(self.folder, ("dns:localhost", "agent", "n1"),
                                              ("dns:localhost", "planner"),
                                              ("dns:localhost", "executor", "job-1"))) as server:
            plan = self.begin(server, tls=flags(made / "client.pem", made / "client.key"))
            # Those that ended, as far as the server is concerned.
            mine = self.folder / "mine"
            mine.mkdir()
            shutil.copy(made / "rogue.pem", mine / "tls.crt")
            shutil.copy(made / "rogue.key", mine / "tls.key")
            with Sidecar(self.folder, server.address,
                         *flags(mine / "tls.crt", mine / "tls.key")) as sidecar:
                self.report(server, sidecar, plan, [0])
                wait_for("a call that failed", lambda: sidecar.metrics()
                         ["parplan_sidecar_forward_failures_total"] > 0)
                self.assertEqual(len(self.executions(server, plan)), 0)
                told = sidecar.metrics()
                for label, path in (("certificate", mine / "tls.crt"),
                                    ("server_ca", made / "ca.pem")):
                    name = "parplan_tls_certificate_expiry_timestamp_seconds"
                    self.assertEqual(told[f'{name}{{file="{label}"}}'], end_of(path))
                shutil.copy(made / "client.pem", mine / "tls.crt")
                shutil.copy(made / "client.key", mine / "tls.key")
                wait_for("the windows", lambda: sidecar.metrics()
                         ["parplan_sidecar_windows_forwarded_total"] == 2)
                self.assertEqual(sidecar.end(), OK)
            self.assertEqual([one.window_count for one in self.executions(server, plan)], [2])

    def test_a_bound_again_plan_is_picked_up_whole(self):
        with self.serve() as server:
            first = self.begin(server)
            with Sidecar(self.folder, server.address, "--look-every", "50ms") as sidecar:
                def ratio():
                    return sidecar.metrics()["parplan_sidecar_step_duration_ratio"]

                self.report(server, sidecar, first, (0, 10, 20), "0b9d0a6e-1")
                before = ratio()
                # Another batch is another training.
                self.create(server, "job-1", batch=16)
                refusal = wait_for("a refusal", lambda: sidecar.events(
                    "a newer plan was refused"))[0]["message"]
                self.assertIn("a batch of 16 and the job trains with 8", refusal)
                self.assertEqual(self.read("generation"), "1\n")
                question = parplan.small_question(8, job_id="job-1")
                question["spec"]["options"] = {"micro_batch_count": 8}
                with parplan.Client(server.address) as client:
                    second = client.call(PLANS, "CreatePlan", question, PATIENCE_SECONDS)
                self.create(server, "job-2", batch=32)
                self.assertNotEqual(first.name, second.name)
                wait_for("the second generation", lambda: self.read("generation") == "2\n")
                self.assertEqual(self.environment("plan.env")["PARPLAN_PLAN_NAME"], second.name)
                changed = wait_for("the log", lambda: sidecar.events("plan changed"))
                self.assertEqual((changed[0]["from"], changed[0]["to"]), (first.name, second.name))
                # The job goes on under the plan it has, until it takes the other.
                self.report(server, sidecar, first, (30, 40), "0b9d0a6e-2")
                self.assertEqual(ratio(), before)
                self.report(server, sidecar, second, (0, 10, 20), "0b9d0a6e-3")
                self.assertNotEqual(ratio(), before)
                wait_for("another look", lambda: sidecar.metrics()
                         ['parplan_sidecar_plan_looks_total{result="same"}'] > 0)
                self.assertEqual(self.read("generation"), "2\n")
                self.assertEqual(sidecar.end(), OK)

    def test_the_plan_of_another_model_is_not_the_jobs(self):
        with self.serve() as server:
            plan = self.begin(server)
            before = self.read("plan.dsse.json")
            with Sidecar(self.folder, server.address, "--look-every", "50ms") as sidecar:
                question = parplan.small_question(8, job_id="job-1")
                layers = question["spec"]["model"]["layer_runs"]
                layers[0]["layer_count"] *= 2
                with parplan.Client(server.address) as client:
                    other = client.call(PLANS, "CreatePlan", question, PATIENCE_SECONDS)
                self.assertNotEqual(other.name, plan.name)
                wait_for("a refusal", lambda: sidecar.metrics()[
                    'parplan_sidecar_plan_looks_total{result="refused"}'] > 0)
                self.assertEqual(self.read("plan.dsse.json"), before)
                self.assertIn("another model", sidecar.events("a newer plan was refused")[0][
                    "message"])

    def test_without_a_plan_it_does_not_begin(self):
        with self.serve() as server:
            sidecar = Sidecar(self.folder, server.address)
            with self.assertRaisesRegex(AssertionError, "ended with 7.*there is no plan"):
                sidecar.start()

    def measure(self):
        """Two cores of this machine, measured: a profile, their topology, and a model."""
        definitions = [
            {"layer_definition_id": "embedding", "kind": "LAYER_KIND_EMBEDDING", "hidden_size": 48,
             "sequence_length": 24, "vocabulary_size": 96},
            {"layer_definition_id": "decoder", "kind": "LAYER_KIND_DECODER", "hidden_size": 48,
             "sequence_length": 24, "attention_head_count": 4, "feed_forward_size": 192,
             "feed_forward_kind": "FEED_FORWARD_KIND_GELU"},
            {"layer_definition_id": "head", "kind": "LAYER_KIND_HEAD", "hidden_size": 48,
             "sequence_length": 24, "vocabulary_size": 96}]
        model = {"model_id": "tiny-gpt", "layer_definitions": definitions,
                 "layer_runs": [{"layer_definition_id": name, "layer_count": count}
                                for name, count in (("embedding", 1), ("decoder", 2), ("head", 1))],
                 "precision": "PRECISION_FP32", "optimizer": "OPTIMIZER_ADAM"}
        (self.folder / "model.json").write_text(json.dumps(model))
        subprocess.run(
            [FLAGS.bin / "parplan-agent", "--once", "--ranks", "2", "--even-if-busy", "--budget",
             "120s", "--max-message-bytes", "16384", "--micro-batches", "1", "--node", "n1",
             "--cluster", "here", "--model", self.folder / "model.json",
             "--out", self.folder / "profile.json", "--topology-out", self.folder / "cluster.json"],
            check=True, capture_output=True, timeout=2 * PATIENCE_SECONDS)
        return model, parplan.load(self.folder / "cluster.json")

    def test_an_executor_trains_under_the_plan_and_reports_through_the_sidecar(self):
        model, topology = self.measure()
        with self.serve() as server:
            subprocess.run([FLAGS.bin / "planctl", "profile", "upload", self.folder / "profile.json",
                            "--cluster", "here", "--node", "n1", "--server", server.address],
                           check=True, capture_output=True, timeout=PATIENCE_SECONDS)
            question = self.folder / "question.json"
            question.write_text(json.dumps({
                "parent": "clusters/here", "spec": {
                    "model": model, "topology": topology, "global_batch_size": 4,
                    "options": {"allow_estimates": True}}}))
            done = self.init("--server", server.address, "--question", question, "--job", "job-1")
            self.assertEqual(done.returncode, OK, done.stderr)
            told = self.environment("plan.env")
            refused = subprocess.run(
                [FLAGS.bin / "parplan-exec", "--plan", "x", "--trust", "x", "--model", "x",
                 "--topology", "x", "--report-to", server.address],
                capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS)
            self.assertEqual(refused.returncode, WRONG)
            self.assertIn("not of the form unix:PATH", refused.stderr)
            with Sidecar(self.folder, server.address) as sidecar:
                trained = subprocess.run(
                    [FLAGS.bin / "parplan-exec", "--plan", told["PARPLAN_PLAN"], "--trust",
                     told["PARPLAN_TRUST"], "--model", told["PARPLAN_MODEL"], "--topology",
                     told["PARPLAN_TOPOLOGY"], "--job", told["PARPLAN_JOB_ID"], "--ranks", "2",
                     "--steps", "6", "--window-steps", "2", "--report-to",
                     f"unix:{sidecar.socket}"],
                    capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS)
                self.assertEqual(trained.returncode, OK, trained.stderr)
                with parplan.Client(server.address) as client:
                    def ended():
                        found = client.call(EXECUTIONS, "ListExecutions",
                                            {"parent": done.stdout.strip()}).executions
                        return [one for one in found if one.state == 2]
                    (execution,) = wait_for("the execution", ended)
                # Three windows of two ranks.
                self.assertEqual(execution.window_count, 6)
                self.assertEqual(sidecar.end(), OK)
