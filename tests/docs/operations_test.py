#!/usr/bin/python3
"""Runs the commands of docs/operations.md, in order, as they stand but for folders and ports; and
compares its runbook with the alerts there are.

    operations_test.py --source FOLDER --bin FOLDER

`systemctl` and `chown` are stand-ins: the first starts and stops a server of this test, as its
unit would.
"""
import argparse
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integration"))
from machine import PATIENCE_SECONDS, die_with_parent, free_ports  # noqa: E402

FLAGS = None


def run_script(script, seconds, **options):
    """Ends all that the script started when the time is over, not only the shell."""
    with subprocess.Popen(["bash", "-euxo", "pipefail", "-c", script], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, start_new_session=True,
                          **options) as process:
        try:
            stdout, stderr = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            stdout, stderr = process.communicate()
            stderr += f"\nended after {seconds} s"
        return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)


class Manager:
    """Does what `systemctl` would, for scripts that write to a pipe what they want of it."""

    SHIM = """#!/bin/bash
echo "$*" >{folder}/wanted
read -r code <{folder}/done
exit "$code"
"""

    def __init__(self, folder, server, config):
        self.folder = folder
        self.config = config
        self.command = [server, "--config", config]
        self.process = None
        for name in ("wanted", "done"):
            os.mkfifo(folder / name)
        shim = folder / "bin" / "systemctl"
        shim.write_text(self.SHIM.format(folder=folder))
        shim.chmod(0o755)
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        while True:
            with open(self.folder / "wanted", encoding="utf-8") as wanted:
                words = wanted.read().split()
            if words == ["end"]:
                return
            code = self.do(*words)
            with open(self.folder / "done", "w", encoding="utf-8") as done:
                done.write(f"{code}\n")

    def do(self, verb, unit):
        if unit != "parplan-server":
            return 5
        if verb == "start":
            return self.start()
        if verb == "stop":
            return self.stop()
        if verb == "reload":
            return self.reload()
        return 1

    def reload(self):
        """Done when the server has read its keys, which it tells unless it is told to be quiet."""
        log, told = self.folder / "server.log", '"event":"keys read again"'
        before = log.read_text().count(told)
        self.process.send_signal(signal.SIGHUP)
        end = time.monotonic() + PATIENCE_SECONDS
        while '"warning"' not in self.config.read_text() and log.read_text().count(told) == before:
            if self.process.poll() is not None or time.monotonic() > end:
                return 1
            time.sleep(0.02)
        return 0

    def start(self):
        """Starts like Type=notify: done when the server says so."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready:
            address = self.folder / "notify"
            address.unlink(missing_ok=True)
            ready.bind(str(address))
            ready.settimeout(0.5)
            with open(self.folder / "server.log", "ab") as log:
                self.process = subprocess.Popen(
                    self.command, stdout=subprocess.DEVNULL, stderr=log,
                    preexec_fn=die_with_parent,
                    env={**os.environ, "NOTIFY_SOCKET": str(address)})
            while self.process.poll() is None:
                try:
                    if ready.recv(100) == b"READY=1":
                        return 0
                except TimeoutError:
                    pass
            return self.process.returncode

    def stop(self):
        if self.process is None or self.process.poll() is not None:
            return 0
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE_SECONDS)

    def end(self):
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self.thread.is_alive():
            # Without a reader the thread waits for one; there is none once it is asked to end.
            (self.folder / "wanted").write_text("end\n")
            self.thread.join(PATIENCE_SECONDS)


class Guide(unittest.TestCase):
    def setUp(self):
        self.text = (FLAGS.source / "docs" / "operations.md").read_text(encoding="utf-8")

    def test_its_commands_work_in_order(self):
        for program in ("planctl", "parplan-server"):
            if not (FLAGS.bin / program).is_file():
                self.skipTest(f"{program} is not built")
        blocks = re.findall(r"^```sh\n(.*?)^```$", self.text, re.MULTILINE | re.DOTALL)
        self.assertGreater(len(blocks), 7)
        port, metrics_port = free_ports(2)
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        folder = pathlib.Path(temporary.name)
        for part in ("bin", "etc", "state"):
            (folder / part).mkdir()
        changes = {"/var/lib/parplan": str(folder / "state"),
                   "/etc/parplan": str(folder / "etc"),
                   "/var/backups/parplan": str(folder / "backups"),
                   "/usr/share/parplan/examples": str(FLAGS.source / "deploy" / "examples"),
                   ":9477": f":{port}", ":9478": f":{metrics_port}"}

        def changed(text):
            for old, new in changes.items():
                text = text.replace(old, new)
            return text

        config = folder / "etc" / "parplan-server.json"
        installed = FLAGS.source / "deploy" / "server" / "parplan-server.json"
        config.write_text(changed(installed.read_text()))
        chown = folder / "bin" / "chown"
        chown.write_text("#!/bin/sh\n")
        chown.chmod(0o755)
        for program in ("planctl", "parplan-server"):
            (folder / "bin" / program).symlink_to((FLAGS.bin / program).resolve())
        manager = Manager(folder, folder / "bin" / "parplan-server", config)
        self.addCleanup(manager.end)
        done = run_script(
            changed("\n".join(blocks)), PATIENCE_SECONDS, cwd=folder,
            env={"PATH": f"{folder}/bin:/usr/bin:/bin", "HOME": str(folder),
                 "PARPLAN_SERVER": f"127.0.0.1:{port}"})
        log = (folder / "server.log").read_text()
        self.assertEqual(done.returncode, 0, f"{done.stdout}\n{done.stderr}\n{log}")
        self.assertEqual(done.stdout.count("valid: clusters/"), 4, done.stdout)
        # The rotation: the plan has two signatures, and a key that waits is no more.
        rotated = json.loads((folder / "etc" / "rotated.dsse.json").read_text())
        self.assertEqual(len(rotated["signatures"]), 2)
        restored = (folder / "etc" / "restored.dsse.json").read_text()
        self.assertEqual(json.loads(restored), rotated)
        # Nobody else can read private keys.
        self.assertEqual((folder / "backups").stat().st_mode & 0o777, 0o700)
        self.assertEqual((folder / "backups" / "keys.tar").stat().st_mode & 0o777, 0o600)
        self.assertEqual(manager.stop(), 0)
        manager.end()

    def test_every_alert_has_a_section_and_every_section_an_alert(self):
        runbook = self.text.partition("\n## Runbook\n")[2]
        sections = set(re.findall(r"^### (\w+)$", runbook, re.MULTILINE))
        self.assertGreater(len(sections), 8)
        rules = [path for path in (FLAGS.source / "deploy").glob("prometheus/**/*.y*ml")
                 if "test" not in path.name]
        alerts, links = set(), set()
        for path in rules:
            text = path.read_text(encoding="utf-8")
            alerts |= set(re.findall(r"^\s*-?\s*alert:\s*(\w+)", text, re.MULTILINE))
            links |= set(re.findall(r"operations\.md#([\w-]+)", text))
        if not alerts:
            self.skipTest("there are no alerts yet")
        self.assertEqual(alerts, sections)
        self.assertEqual(links, {alert.lower() for alert in alerts})


def main():
    global FLAGS
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    FLAGS, rest = parser.parse_known_args()
    FLAGS.source = FLAGS.source.resolve()
    FLAGS.bin = FLAGS.bin.resolve()
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
