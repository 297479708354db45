"""parplan-agent from outside: a profile that planctl plans with, and an agent that stays."""
import argparse
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import grpc

from agent_process import QUICK, Agent
from machine import PATIENCE_SECONDS, children, is_there, wait_for
from parplan_process import Server, make_certificates

FLAGS = argparse.Namespace()
OK, FAILED, WRONG, BUSY, STOPPED = range(5)


def layer(name, kind, **fields):
    return {"layer_definition_id": name, "kind": f"LAYER_KIND_{kind}", "hidden_size": 48,
            "sequence_length": 24, **fields}


MODEL = {
    "model_id": "tiny-gpt",
    "layer_definitions": [
        layer("embedding", "EMBEDDING", vocabulary_size=96),
        layer("decoder", "DECODER", attention_head_count=4, feed_forward_size=192,
              feed_forward_kind="FEED_FORWARD_KIND_GELU"),
        layer("head", "HEAD", vocabulary_size=96)],
    "layer_runs": [{"layer_definition_id": "embedding", "layer_count": 1},
                   {"layer_definition_id": "decoder", "layer_count": 4},
                   {"layer_definition_id": "head", "layer_count": 1}],
    "precision": "PRECISION_FP32", "optimizer": "OPTIMIZER_ADAM"}


# This program stands in for parplan-torch, which needs PyTorch: it answers with times of all layers
# at the degrees and sizes that it is asked for.
STAND_IN = f"""#!{sys.executable}
import json, sys
RELEASE = "2.99.0"
words = sys.argv[1:]
def behind(flag):
    values = []
    for word in words[words.index(flag) + 1:]:
        if word.startswith("--"):
            break
        values.append(word)
    return values
(out,) = behind("--out")
if words[0] == "versions":
    open(out, "w").write(f"parplan 0.1.0\\ntorch {{RELEASE}}\\n")
    sys.exit()
spec = json.load(open(behind("--spec")[0]))
names = [one["layer_definition_id"] for one in spec["layer_definitions"]]
degrees, samples, sizes = ([int(one) for one in behind(flag)] for flag in (
    "--tensor-parallel", "--micro-batch", "--message-size"))
kinds = ["ALL_REDUCE", "ALL_GATHER", "REDUCE_SCATTER", "ALL_TO_ALL", "SEND_RECEIVE"]
json.dump({{
    "provenance": {{"agent": "parplan-torch",
                   "library_versions": [{{"library": "torch", "version": RELEASE}}]}},
    "device_kind": behind("--device-kind")[0],
    "devices_per_node": int(behind("--devices-per-node")[0]),
    "precision": spec["precision"], "runtime_id": "torch",
    "overlap_slowdown": 1.2, "context_memory_bytes": "1000",
    "layer_definitions": spec["layer_definitions"],
    "layer_timings": [{{"layer_definition_id": name, "tensor_parallel_degree": degree,
                       "micro_batch_size": size, "forward_duration": "0.001s",
                       "backward_duration": "0.002s"}}
                      for name in names for degree in degrees for size in samples],
    "layer_memories": [{{"layer_definition_id": name, "tensor_parallel_degree": degree,
                        "parameter_count": "100", "activation_bytes_per_sample": "100"}}
                       for name in names for degree in degrees],
    "collective_timings": [{{"collective": "COLLECTIVE_" + kind, "participant_count": 2,
                            "rank_stride": 1, "message_size_bytes": str(size),
                            "median_duration": "0.0001s"}} for kind in kinds for size in sizes],
}}, open(out, "w"))
"""


class AgentTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.model = self.folder / "model.json"
        self.model.write_text(json.dumps(MODEL))

    def agent(self, *arguments):
        return subprocess.run([FLAGS.agent, *map(str, arguments)], capture_output=True, text=True,
                              timeout=PATIENCE_SECONDS)

    def start_once(self):
        """A measurement that takes long, its process and its ranks."""
        process = subprocess.Popen(
            [FLAGS.agent, "--once", "--out", str(self.folder / "out.json"), "--ranks", "2",
             "--even-if-busy", "--no-pin", "--budget", "1h", "--model", str(self.model)],
            stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        ranks = wait_for("two ranks", lambda: len(children(process.pid)) == 2 and
                         children(process.pid))
        return process, ranks


class OnceTest(AgentTest):
    def test_a_profile_that_planctl_plans_with(self):
        profile_path, cluster_path = self.folder / "profile.json", self.folder / "cluster.json"
        done = self.agent("--once", "--out", profile_path, "--topology-out", cluster_path,
                          "--model", self.model, "--node", "n1", *QUICK)
        self.assertEqual(done.returncode, OK, done.stderr)
        profile = json.loads(profile_path.read_text())
        cluster = json.loads(cluster_path.read_text())
        self.assertEqual(profile["devices_per_node"], 2)
        self.assertEqual(cluster["node_groups"][0]["device_kind"], profile["device_kind"])
        self.assertEqual({timing["collective"] for timing in profile["collective_timings"]},
                         {f"COLLECTIVE_{name}" for name in
                          ("ALL_REDUCE", "ALL_GATHER", "REDUCE_SCATTER", "ALL_TO_ALL",
                           "SEND_RECEIVE", "BROADCAST")})
        self.assertEqual({timing["tensor_parallel_degree"] for timing in profile["layer_timings"]},
                         {1, 2})
        plan = subprocess.run(
            [FLAGS.planctl, "plan", "--offline", "--profile", profile_path, "--cluster",
             cluster_path, "--model", self.model, "--batch", "8", "--allow-estimates"],
            capture_output=True, text=True, timeout=PATIENCE_SECONDS)
        self.assertEqual(plan.returncode, OK, plan.stderr)
        self.assertIn("tiny-gpt on 2", plan.stdout)

    def test_what_is_wrong_is_named(self):
        for arguments, code, words in (
                (["--once"], WRONG, "--out"),
                (["--out", "x"], WRONG, "need --once"),
                (["--once", "--out", "x", "--budget", "soon"], WRONG, "`soon` is not a duration"),
                (["--once", "--out", "x", "--cluster", "No Name"], WRONG, "--cluster"),
                (["--once", "--out", "x", "--model", self.folder / "none.json"], WRONG,
                 "none.json"),
                (["--once", "--out", "x", "--backend", "cuda", "--nvml-library", "/none.so"],
                 FAILED, "no_library"),
                (["--once", "--out", "/none/x", *QUICK], FAILED, "/none/x")):
            with self.subTest(arguments=arguments):
                done = self.agent(*arguments)
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertIn(words, done.stderr)

    def test_the_inventory_is_told(self):
        done = self.agent("--inventory")
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertRegex(done.stdout, r"(?m)^fingerprint [0-9a-f]{64}$")

    def test_the_example_configuration_is_read(self):
        done = self.agent("--inventory", "--config", FLAGS.config)
        self.assertEqual(done.returncode, OK, done.stderr)
        wrong = self.folder / "wrong.toml"
        wrong.write_text(FLAGS.config.read_text() + "\nservr = \"x\"\n")
        done = self.agent("--inventory", "--config", wrong)
        self.assertEqual(done.returncode, WRONG, done.stderr)
        self.assertIn("servr", done.stderr)

    def test_a_signal_ends_the_ranks(self):
        process, ranks = self.start_once()
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(PATIENCE_SECONDS), STOPPED)
        wait_for("the end of all ranks", lambda: not any(map(is_there, ranks)))
        self.assertFalse((self.folder / "out.json").exists())

    def test_no_rank_survives_the_agent(self):
        process, ranks = self.start_once()
        process.kill()
        wait_for("the end of all ranks", lambda: not any(map(is_there, ranks)))

    def test_a_killed_rank_is_named(self):
        process, ranks = self.start_once()
        os.kill(ranks[1], signal.SIGKILL)
        self.assertEqual(process.wait(PATIENCE_SECONDS), FAILED)
        self.assertIn("rank", process.stderr.read())
        wait_for("the end of all ranks", lambda: not any(map(is_there, ranks)))


STORED = 'parplan_agent_uploads_total{result="stored"}'


class DaemonTest(AgentTest):
    def daemon(self, address, *flags, **options):
        return Agent(FLAGS.agent, self.folder, address, *flags, **options)

    def server(self, *flags):
        return Server(FLAGS.server_binary, self.folder, *flags)

    def test_measures_uploads_sleeps_and_measures_what_drifts(self):
        with self.server() as server:
            with self.daemon(server.address) as agent:
                agent.wait_for_metric(STORED, 1)
                agent.wait_for_metric("parplan_agent_upload_queue_length", 0)
                self.assertEqual(agent.metric(
                    'parplan_agent_measurements_total{kind="whole",result="done"}'), 1)
                self.assertGreater(agent.metric(
                    "parplan_agent_last_measurement_timestamp_seconds"), time.time() - 86400)
                self.check_health(agent.port)
                self.report_costs(agent.process.pid)
                self.assertEqual(agent.end(), OK)
            # It remembers, and looks into the spool folder at the start.
            self.leave_window(agent.spool, seconds=3)
            with self.daemon(server.address) as agent:
                agent.wait_for_metric(STORED, 1)
                self.assertEqual(agent.metric(
                    'parplan_agent_measurements_total{kind="whole",result="done"}'), 0)
                self.assertEqual(agent.metric(
                    'parplan_agent_measurements_total{kind="incremental",result="done"}'), 1)
                self.assertEqual(agent.events("measuring")[0]["layer_sizes"], "0")
                self.assertEqual(agent.events("measuring")[0]["budget"], "20s")
                self.assertEqual(agent.metric("parplan_agent_drift_ratio"), 1)
                self.assertEqual(agent.end(), OK)

    def leave_window(self, folder, seconds):
        """All-reduces that take far longer than any machine's."""
        timing = {"collective": "COLLECTIVE_ALL_REDUCE", "participant_count": 2, "rank_stride": 1,
                  "message_size_bytes": 4096, "median_duration": f"{seconds}s",
                  "sample_count": 100}
        window = {"rank": 0, "step_count": 1, "median_step_duration": "1s",
                  "collective_timings": [timing]}
        staged = folder / "w.new"
        staged.write_text(json.dumps(window))
        staged.rename(folder / "w.window.json")

    def check_health(self, port):
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            check = channel.unary_unary("/grpc.health.v1.Health/Check")
            # HealthCheckResponse{status: SERVING}
            self.assertEqual(check(b"", timeout=PATIENCE_SECONDS), b"\x08\x01")

    def report_costs(self, pid):
        """Only told: the machine that tests run on is not quiet."""
        ticks = os.sysconf("SC_CLK_TCK")

        def cpu_seconds():
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
            return (int(fields[11]) + int(fields[12])) / ticks

        resident = next(int(line.split()[1]) for line in
                        pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
                        if line.startswith("VmRSS"))
        threads = len(list(pathlib.Path(f"/proc/{pid}/task").iterdir()))
        seconds = FLAGS.idle_seconds
        before = cpu_seconds()
        time.sleep(seconds)
        print(f"idle agent: {resident / 1000:.1f} MB resident, {threads} threads, "
              f"{100 * (cpu_seconds() - before) / seconds:.2f} % of a core over {seconds} s",
              file=sys.stderr)

    def test_brings_what_it_has_when_the_server_is_back(self):
        with self.server() as server:
            address, port = server.address, server.port
            server.kill()
            with self.daemon(address) as agent:
                agent.wait_for_event("upload failed", 2)
                self.assertEqual(agent.metric("parplan_agent_upload_queue_length"), 1)
                # The agent goes as well: what waits is on disk.
                agent.process.kill()
                agent.process.wait()
            with self.daemon(address) as agent:
                first = agent.wait_for_event("upload failed")
                with self.server("--listen", f"127.0.0.1:{port}"):
                    agent.wait_for_metric(STORED, 1)
                    # Under the id of the first attempt.
                    self.assertEqual(agent.wait_for_event("uploaded")["request_id"],
                                     first["request_id"])
                    self.assertEqual(agent.end(), OK)

    def test_uploads_with_the_certificate_that_is_there_now(self):
        folder = make_certificates(self.folder / "certificates")
        pem, key, config = (folder / name for name in ("live.pem", "live.key", "all.json"))
        # One of an authority that the server does not know.
        shutil.copy(folder / "rogue.pem", pem)
        shutil.copy(folder / "rogue.key", key)
        config.write_text('{"allow_all_callers": true}')
        with self.server("--config", config, "--tls-certificate", folder / "server.pem", "--tls-key",
                         folder / "server.key", "--tls-client-ca", folder / "ca.pem") as server, \
                self.daemon(server.address, "--tls-ca", folder / "ca.pem", "--tls-certificate", pem,
                            "--tls-key", key, "--no-leases") as agent:
            agent.wait_for_event("upload failed")
            # A certificate without its key is not taken.
            shutil.copy(folder / "client.pem", pem)
            agent.wait_for_event("tls files")
            shutil.copy(folder / "client.key", key)
            agent.wait_for_metric(STORED, 1)

    def test_sets_damaged_profiles_aside(self):
        with self.server() as server:
            server.kill()
            with self.daemon(server.address) as agent:
                agent.wait_for_event("upload failed")
                self.assertEqual(agent.end(), OK)
            queue = agent.state / "uploads"
            (record,) = queue.glob("*.record")
            os.truncate(record, record.stat().st_size // 2)
            with self.daemon(server.address) as agent:
                wait_for("the damaged file", lambda: list(queue.glob("*.damaged")))
                self.assertEqual(agent.end(), OK)
            self.assertEqual(list(queue.glob("*.record")), [])

    def test_names_a_full_disk_and_goes_on(self):
        with self.server() as server:
            # Files of the agent can't grow beyond 800 bytes: ports and plans fit, profiles do not. The
            # ranks need more, for memory they share.
            probe = self.folder / "probe"
            probe.write_text("#!/bin/bash\nulimit -S -f unlimited\n"
                             f"exec {FLAGS.agent}-probe \"$@\"\n")
            probe.chmod(0o755)
            with self.daemon(server.address, "--probe-program", probe,
                             file_size_limit=800) as agent:
                event = agent.wait_for_event("cannot queue the profile")
                self.assertIn(str(agent.state), event["message"])
                self.assertEqual(agent.metric("parplan_agent_upload_queue_length"), 0)
                self.assertEqual(agent.end(), OK)
            with self.daemon(server.address) as agent:
                agent.wait_for_metric(STORED, 1)
                self.assertEqual(agent.end(), OK)

    def test_a_signal_during_a_measurement_ends_all(self):
        with self.daemon("127.0.0.1:1", "--budget", "1h", "--model", self.model,
                         "--max-message-bytes", 1 << 26) as agent:
            agent.wait_for_event("measuring")
            ranks = wait_for("two ranks", lambda: len(children(agent.process.pid)) == 2 and
                             children(agent.process.pid))
            self.assertEqual(agent.end(), OK)
            wait_for("the end of all ranks", lambda: not any(map(is_there, ranks)))

    def test_two_agents_measure_the_links_between_them(self):
        with self.server() as server:
            flags = ["--ranks", "1", "--max-message-bytes", 4096]
            with Agent(FLAGS.agent, self.folder / "n2", server.address, *flags, node="n2") as second:
                second.wait_for_metric(STORED, 1)
                with Agent(FLAGS.agent, self.folder / "n1", server.address, *flags,
                           "--link-node", "n1", "--link-node", "n2") as first:
                    first.wait_for_event("measured links")
                    first.wait_for_metric(STORED, 2)
                    self.assertGreaterEqual(
                        len(second.events("measuring links for another node")), 1)
                    self.assertEqual(first.end(), OK)
                self.assertEqual(second.end(), OK)

    def test_measures_in_pytorch_and_uploads_what_parplan_torch_says(self):
        program = self.folder / "parplan-torch"
        program.write_text(STAND_IN)
        program.chmod(0o755)
        flags = ["--runtime", "torch", "--model", self.model, "--torch-model", "models:tiny",
                 "--torch-program", program]
        with self.server() as server:
            with self.daemon(server.address, *flags) as agent:
                agent.wait_for_metric(STORED, 1)
                self.assertEqual(agent.metric(
                    'parplan_agent_measurements_total{kind="whole",result="done"}'), 1)
                self.assertEqual(agent.end(), OK)
            # The same release is not measured again; another one is.
            with self.daemon(server.address, *flags) as agent:
                agent.wait_for_event("started")
                self.assertEqual(agent.end(), OK)
                self.assertEqual(agent.events("measuring"), [])
            program.write_text(STAND_IN.replace("2.99.0", "2.99.1"))
            with self.daemon(server.address, *flags) as agent:
                agent.wait_for_metric(STORED, 1)
                self.assertEqual(agent.events("measuring")[0]["kind"], "whole")
                self.assertEqual(agent.end(), OK)

    def test_what_keeps_it_from_starting_is_named(self):
        file = self.folder / "file"
        file.write_text("")
        for flags, words in ((["--state-dir", file / "below"], "below"),
                             (["--spool-dir", self.folder / "none"], "--spool-dir"),
                             (["--metrics-listen", "127.0.0.1:99999"], "--metrics-listen"),
                             (["--model", self.folder / "none.json"], "none.json"),
                             (["--runtime", "torch", "--model", self.model, "--torch-model",
                               "models:tiny", "--torch-program", self.folder / "no-torch"],
                              "pip install 'parplan[torch]'")):
            with self.subTest(flags=flags):
                done = self.agent("--server", "127.0.0.1:1", "--listen", "off", "--metrics-listen",
                                  "off", "--state-dir", self.folder / "state", *flags)
                self.assertIn(done.returncode, (FAILED, WRONG), done.stderr)
                self.assertIn(words, done.stderr)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--agent", required=True)
    parser.add_argument("--planctl", required=True)
    parser.add_argument("--server-binary", required=True)
    parser.add_argument("--config", type=pathlib.Path, required=True)
    parser.add_argument("--idle-seconds", type=float, default=2.0)
    FLAGS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
