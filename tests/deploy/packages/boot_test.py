#!/usr/bin/python3
"""The units under a systemd that booted: start, plan, reload, kill, stop, upgrade, boot again.

    boot_test.py --root FOLDER --next FOLDER

In --root a Debian with systemd and the packages; in --next, packages of the next revision. The
machine has no network but a loopback device of its own, so that services have their usual ports.
Needs root; ends with 77 where nothing can be booted, and says why.
"""
import argparse
import json
import os
import pathlib
import queue
import shutil
import subprocess
import sys
import unittest

import grpc

import machine as machines

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "integration"))
import parplan_process as parplan

FLAGS = argparse.Namespace()
MACHINE = None
LONG = machines.PATIENCE_SECONDS
ADDRESS = "127.0.0.1:9477"  # As the configuration that is installed has it.
SERVER, AGENT = "parplan-server", "parplan-agent"
PLANS, PROFILES = "parplan.v1.PlanService", "parplan.v1.ProfileService"
EXAMPLES = "/usr/share/parplan/examples"
AGENT_CONFIGURATION = f"""
server = "{ADDRESS}"
cluster = "lab"
node = "booted"
backend = "cpu"
ranks = 2
even-if-busy = true
pin = false
budget = "120s"
max-message-bytes = 16384
state-dir = "/var/lib/parplan-agent"
spool-dir = "/var/spool/parplan-agent"
"""


def wait_for_event(event, after):
    """The first line of that event in the server's log after so many lines."""
    def find():
        events = (json.loads(line) for line in MACHINE.log(SERVER)[after:])
        return next((fields for fields in events if fields["event"] == event), None)
    return machines.wait_for(f"the event {event}", find)


def wait_for_restart(unit, old):
    """The process that came in place of `old`."""
    def find():
        pid = int(MACHINE.property(unit, "MainPID"))
        active = MACHINE.property(unit, "ActiveState") == "active"
        return pid if active and pid not in (0, old) else None
    return machines.wait_for(f"another {unit}", find)


def make_plan(job):
    """Name of a plan of the small model for a job."""
    with parplan.Client(ADDRESS) as client:
        client.upload("clusters/lab/nodes/n1", "upload", parplan.small_profile(), LONG)
        question = parplan.small_question(job_id=job, request_id=job)
        return client.call(PLANS, "CreatePlan", question, LONG).name


class Booted(unittest.TestCase):
    """One machine's story, in the order in which it is written here."""

    def setUp(self):
        MACHINE.run("systemctl", "reset-failed")

    def start(self):
        """The running server's process and the length of its log."""
        MACHINE.run("systemctl", "start", SERVER)
        return int(MACHINE.property(SERVER, "MainPID")), len(MACHINE.log(SERVER))

    def edit(self, **settings):
        """Changes the server's configuration for one test."""
        path = MACHINE.root / "etc/parplan/parplan-server.json"
        before = path.read_text()
        self.addCleanup(path.write_text, before)
        path.write_text(json.dumps({**json.loads(before), **settings}))

    def assert_enclosed(self, unit, user):
        """The sandbox of the unit is around its process."""
        pid = MACHINE.property(unit, "MainPID")
        facts = dict(line.split(":\t", 1)
                     for line in MACHINE.run("cat", f"/proc/{pid}/status").stdout.splitlines())
        number = MACHINE.run("id", "-u", user).stdout.strip()
        self.assertEqual(facts["Uid"].split(), [number] * 4)
        self.assertEqual([int(facts[name], 16) for name in ("CapPrm", "CapEff", "CapBnd")], [0] * 3)
        self.assertEqual((facts["NoNewPrivs"], facts["Seccomp"]), ("1", "2"))
        done = MACHINE.run("nsenter", "--target", pid, "--mount", "touch", "/usr/bin/mine",
                           "/etc/mine", check=False)
        self.assertEqual(done.stderr.count("Read-only file system"), 2, done.stderr)

    def test_nothing_failed_at_boot_and_nothing_of_ours_was_started(self):
        self.assertEqual(MACHINE.run("systemctl", "--failed", "--plain", "--no-legend").stdout, "")
        for unit in (SERVER, AGENT):
            self.assertEqual(MACHINE.property(unit, "LoadState"), "loaded")
            self.assertEqual(MACHINE.property(unit, "ActiveState"), "inactive")

    def test_a_server_that_is_started_listens_and_plans_in_its_sandbox(self):
        self.start()
        with parplan.Client(ADDRESS) as client:  # No second try.
            self.assertTrue(parplan.is_serving(client, PLANS))
        self.assert_enclosed(SERVER, "parplan")
        MACHINE.run("planctl", "profile", "upload", f"{EXAMPLES}/llama2-7b-a100.profile.json",
                    "--cluster", "a100-40g-8", "--node", "node-0", "--timeout", LONG)
        MACHINE.run("planctl", "plan", "--model", f"{EXAMPLES}/llama2-7b.model.json", "--cluster",
                    f"{EXAMPLES}/a100-40g-8.cluster.json", "--batch", 64, "--job", 4711, "--out",
                    "/run/plan.dsse.json", "--timeout", LONG)
        MACHINE.run("planctl", "verify", "/run/plan.dsse.json", "--job", 4711,
                    "--trust", "/var/lib/parplan/trust-bundle.jwks.json")

    def test_its_log_is_json_in_the_journal(self):
        self.start()
        with parplan.Client(ADDRESS) as client:
            client.call(PLANS, "GetCapabilities", {}, LONG)
        wait_for_event("call", 0)
        events = [json.loads(line) for line in MACHINE.log(SERVER)]
        self.assertIn("listening", [fields["event"] for fields in events])
        self.assertTrue(all(fields["time"] and fields["level"] for fields in events))

    def test_a_reload_changes_how_much_it_logs_and_not_the_process(self):
        MACHINE.run("systemctl", "stop", SERVER)
        self.edit(log_level="error")
        seen = len(MACHINE.log(SERVER))
        pid, now = self.start()
        self.assertEqual(now, seen)  # It listens, and does not tell.
        self.edit(log_level="info")
        MACHINE.run("systemctl", "reload", SERVER)
        wait_for_event("keys read again", seen)
        self.assertEqual(int(MACHINE.property(SERVER, "MainPID")), pid)

    def test_what_is_killed_comes_back_and_knows_its_plans(self):
        pid, _ = self.start()
        name = make_plan("before-the-kill")
        restarts = int(MACHINE.property(SERVER, "NRestarts"))
        MACHINE.run("sh", "-c", f"kill -KILL {pid}")
        wait_for_restart(SERVER, pid)
        self.assertEqual(int(MACHINE.property(SERVER, "NRestarts")), restarts + 1)
        with parplan.Client(ADDRESS) as client:
            self.assertEqual(client.call(PLANS, "GetPlan", {"name": name}, LONG).name, name)
        self.assertEqual(make_plan("before-the-kill"), name)

    def test_a_wrong_configuration_is_told_once_and_not_tried_again(self):
        MACHINE.run("systemctl", "stop", SERVER)
        self.edit(workers="many")
        done = MACHINE.run("systemctl", "start", SERVER, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(MACHINE.property(SERVER, "ActiveState"), "failed")
        self.assertEqual(MACHINE.property(SERVER, "ExecMainStatus"), "2")
        self.assertEqual(MACHINE.property(SERVER, "NRestarts"), "0")
        self.assertIn("workers", MACHINE.log(SERVER)[-1])

    def test_a_stop_lets_a_call_in_progress_end(self):
        self.edit(drain_time=f"{LONG}s")
        override = MACHINE.root / f"etc/systemd/system/{SERVER}.service.d/override.conf"
        override.parent.mkdir()
        self.addCleanup(MACHINE.run, "systemctl", "daemon-reload")
        self.addCleanup(shutil.rmtree, override.parent)
        override.write_text(f"[Service]\nTimeoutStopSec={2 * LONG}\n")  # As operations.md says.
        MACHINE.run("systemctl", "daemon-reload")
        MACHINE.run("systemctl", "restart", SERVER)
        seen = len(MACHINE.log(SERVER))
        with parplan.Client(ADDRESS) as client:
            messages = queue.SimpleQueue()  # An upload that has begun, until None is its last.
            self.addCleanup(messages.put, None)
            messages.put({"header": {"parent": "clusters/lab/nodes/held", "request_id": "held",
                                     "provenance": {"agent": "test"}, "device_kind": "Test GPU",
                                     "devices_per_node": 2}})
            held = client.start(PROFILES, "UploadProfile", iter(messages.get, None), LONG)
            client.call(PLANS, "GetCapabilities", {}, LONG)
            stop = subprocess.Popen(MACHINE.command("systemctl", "stop", SERVER))
            try:
                wait_for_event("draining", seen)
                self.assertEqual(MACHINE.property(SERVER, "ActiveState"), "deactivating")
                messages.put(None)
                self.assertTrue(held.result().name)
                self.assertEqual(stop.wait(LONG), 0)
            finally:
                stop.kill()
                stop.wait()
        wait_for_event("ended", seen)
        self.assertEqual(MACHINE.property(SERVER, "Result"), "success")
        self.assertEqual(MACHINE.property(SERVER, "ExecMainStatus"), "0")

    def test_an_agent_measures_in_its_sandbox_and_comes_back(self):
        self.start()
        (MACHINE.root / "etc/parplan/parplan-agent.toml").write_text(AGENT_CONFIGURATION)
        MACHINE.run("systemctl", "start", AGENT)
        self.assert_enclosed(AGENT, "parplan-agent")

        def measured():
            with parplan.Client(ADDRESS) as client:
                found = client.call(PROFILES, "ListProfiles", {"parent": "clusters/lab/nodes/booted"},
                                    LONG)
            return list(found.profiles)

        profile = machines.wait_for("a profile", measured)[0]
        self.assertEqual(profile.devices_per_node, 2)
        pid = int(MACHINE.property(AGENT, "MainPID"))
        MACHINE.run("sh", "-c", f"kill -KILL {pid}")
        wait_for_restart(AGENT, pid)
        MACHINE.run("systemctl", "stop", AGENT)
        self.assertEqual(MACHINE.property(AGENT, "Result"), "success")

    def test_an_upgrade_starts_what_runs_again_and_nothing_else(self):
        pid, _ = self.start()
        MACHINE.run("systemctl", "stop", AGENT)
        name = make_plan("before-the-upgrade")
        packages = [f"{FLAGS.next}/{path.name}" for path in
                    (MACHINE.root / str(FLAGS.next).lstrip("/")).glob("*.deb")]
        self.assertTrue(packages)
        MACHINE.run("dpkg", "--install", "--force-confold", *packages)
        self.assertNotIn(int(MACHINE.property(SERVER, "MainPID")), (0, pid))
        self.assertEqual(MACHINE.property(SERVER, "ActiveState"), "active")
        self.assertEqual(MACHINE.property(AGENT, "ActiveState"), "inactive")
        with parplan.Client(ADDRESS) as client:
            self.assertEqual(client.call(PLANS, "GetPlan", {"name": name}, LONG).name, name)

    def test_what_is_enabled_starts_at_boot(self):
        MACHINE.run("systemctl", "enable", SERVER, AGENT)
        self.start()
        name = make_plan("before-the-reboot")
        MACHINE.power_off()
        MACHINE.boot()
        for unit in (SERVER, AGENT):
            self.assertEqual(MACHINE.property(unit, "ActiveState"), "active")
        with parplan.Client(ADDRESS) as client:
            self.assertEqual(client.call(PLANS, "GetPlan", {"name": name}, LONG).name, name)

    def test_what_is_removed_is_stopped(self):
        self.start()
        MACHINE.run("systemctl", "start", AGENT)
        MACHINE.run("dpkg", "--remove", SERVER, AGENT)
        for unit in (SERVER, AGENT):
            self.assertEqual(MACHINE.property(unit, "ActiveState"), "inactive")
        with parplan.Client(ADDRESS) as client, self.assertRaises(grpc.RpcError):
            client.call(PLANS, "GetCapabilities", {}, LONG)


def main():
    global MACHINE
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=pathlib.Path, required=True)
    parser.add_argument("--next", type=pathlib.Path, required=True, help="as the machine names it")
    parser.parse_args(namespace=FLAGS)
    if os.geteuid() != 0:
        print("skipped: only root can boot what is in a folder")
        sys.exit(77)
    machines.enclose()
    with machines.Machine(FLAGS.root.resolve()) as MACHINE:
        reason = MACHINE.why_not()
        if reason is not None:
            print(f"skipped: nothing can be booted here: {reason}")
            sys.exit(77)
        MACHINE.boot()
        story = unittest.TestSuite(Booted(name) for name in vars(Booted) if name.startswith("test_"))
        done = unittest.TextTestRunner(verbosity=2).run(story)
        if not done.wasSuccessful():
            print(MACHINE.run("journalctl", "--lines=100", f"--unit={SERVER}", f"--unit={AGENT}",
                              check=False).stdout)
    sys.exit(not done.wasSuccessful())


if __name__ == "__main__":
    main()
