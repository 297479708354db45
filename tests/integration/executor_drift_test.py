"""A job on slower links: the executor leaves what it measures, and the agent measures anew."""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

from agent_process import QUICK, Agent
from agent_test import MODEL, STORED
from machine import PATIENCE_SECONDS, wait_for
from parplan_process import Server

FLAGS = argparse.Namespace()
# Far slower than the memory of any machine, however much else it does.
SLOW_LINKS = {"ranks_per_node": 2, "within_node": {"latency_seconds": 0.1}}


class ExecutorDriftTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.model = self.write("model.json", MODEL)
        self.links = self.write("links.json", SLOW_LINKS)
        self.cluster = self.folder / "cluster.json"

    def write(self, name, value):
        path = self.folder / name
        path.write_text(json.dumps(value))
        return path

    def run_program(self, *arguments):
        done = subprocess.run(list(map(str, arguments)), capture_output=True, text=True,
                              timeout=PATIENCE_SECONDS)
        self.assertEqual(done.returncode, 0, f"{arguments[0]}: {done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def plan(self, server):
        path = self.folder / "plan.json"
        self.run_program(FLAGS.planctl, "plan", "--model", self.model, "--cluster", self.cluster,
                         "--batch", "1", "--planner", "tp", "--allow-estimates", "--job", "job",
                         "--server", server.address, "--out", path)
        return path

    def train(self, plan, spool, *flags):
        return self.run_program(
            FLAGS.executor, "--plan", plan, "--trust", self.folder / "data/trust-bundle.jwks.json",
            "--model", self.model, "--topology", self.cluster, "--job", "job", "--ranks", "2", "--no-pin",
            "--steps", "4", "--window-steps", "2", "--spool", spool, *flags)

    def test_slower_links_of_a_job_make_the_agent_measure_anew(self):
        # The node's profile and cluster file, for planners.
        self.run_program(FLAGS.agent, "--once", *QUICK, "--max-message-bytes", "4096", "--cluster",
                         "lab", "--node", "n1", "--out", self.folder / "once.json",
                         "--topology-out", self.cluster)
        with Server(FLAGS.server_binary, self.folder) as server, \
                Agent(FLAGS.agent, self.folder, server.address, "--model", self.model,
                      "--drift-pause", "1s") as agent:
            agent.wait_for_metric(STORED, 1)
            plan = self.plan(server)
            self.train(plan, agent.spool, "--shape-links", self.links)
            agent.wait_for_event("drift")
            # Windows that come later may make it measure once more.
            wait_for("a measurement of what drifted", lambda: agent.metric(
                'parplan_agent_measurements_total{kind="incremental",result="done"}') >= 1)
            wait_for("the new profile", lambda: agent.metric(STORED) >= 2)
            # Two ranks, two windows, some sizes.
            wait_for("all windows", lambda: not list(agent.spool.iterdir()))
            self.assertGreaterEqual(agent.metric("parplan_agent_passive_timings_total"), 4)
            self.assertEqual(agent.metric("parplan_agent_refused_windows_total"), 0)
            measuring = agent.events("measuring")[1]
            self.assertEqual(measuring["kind"], "incremental")
            self.assertEqual(measuring["layer_sizes"], "0")
            # Windows without a folder are lost, and the log says how many.
            lost = [json.loads(line[line.index("{"):]) for line in self.train(plan, self.folder / "gone").splitlines()
                    if '"event":"windows could not be left for the agent"' in line]
            self.assertEqual({event["level"] for event in lost}, {"warning"})
            self.assertTrue(all(int(event["lost_windows"]) > 0 for event in lost))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name in ("agent", "planctl", "server-binary", "executor"):
        parser.add_argument(f"--{name}", required=True)
    FLAGS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
