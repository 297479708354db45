#!/usr/bin/python3
"""Container images: small, nobody's, the same when built twice, and they run.

    images_test.py --source FOLDER --bin FOLDER [--all]

By default the images of server and sidecar; with --all the others as well. Needs root and
buildah; ends with 77 where one is missing.
"""
import argparse
import json
import os
import pathlib
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integration"))
import parplan_process as parplan

FLAGS = argparse.Namespace()
PATIENCE_SECONDS = 600
LARGEST_SERVER_BYTES = 40_000_000
USER = 65532
FIGURES = []


def run(*arguments, **options):
    done = subprocess.run([str(part) for part in arguments], capture_output=True, text=True,
                          timeout=PATIENCE_SECONDS, check=False, **options)
    if done.returncode != 0:
        raise AssertionError(f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def processes_below(pid):
    """Process ids of all descendants."""
    parents = {}
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit():
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
                parents.setdefault(int(fields[1]), []).append(int(entry.name))
        except (OSError, IndexError):
            continue
    found, left = [], [pid]
    while left:
        children = parents.get(left.pop(), [])
        found += children
        left += children
    return found


class Images(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.names = ["server", "sidecar"] + (["agent", "planctl"] if FLAGS.all else [])
        cls.built = cls.build("images")

    @classmethod
    def build(cls, out):
        """Image name -> (reference, id, bytes)."""
        text = run(FLAGS.source / "deploy" / "images" / "build.sh", "--bin", FLAGS.bin, "--out",
                   cls.folder / out, *cls.names)
        lines = [line.split() for line in text.splitlines()]
        return {name: (reference, identity, int(size))
                for name, (reference, identity, size) in zip(cls.names, lines, strict=True)}

    def buildah(self, *arguments):
        out = self.folder / "images"
        return ["buildah", "--root", str(out / "storage"), "--runroot", str(out / "run"),
                "--storage-driver", "vfs", *map(str, arguments)]

    def container(self, name):
        """A container of an image, for one test."""
        made = run(*self.buildah("from", self.built[name][0])).strip()
        self.addCleanup(run, *self.buildah("rm", made))
        return made

    def volume(self, name):
        path = self.folder / f"{self.id().rpartition('.')[2]}-{name}"
        path.mkdir()
        os.chown(path, USER, USER)
        return path

    def start(self, container, volumes, *command):
        """A command in a container, as Kubernetes starts it: as nobody's user."""
        options = [part for path, target in volumes for part in ("-v", f"{path}:{target}")]
        process = subprocess.Popen(
            self.buildah("run", "--isolation", "chroot", "--user", f"{USER}:{USER}", *options,
                         container, "--", *command),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

        def end():
            if process.poll() is None:
                for pid in (*processes_below(process.pid), process.pid):
                    try:
                        os.kill(pid, signal.SIGKILL)
                    except ProcessLookupError:
                        pass
                process.wait()
            process.stdout.close()

        self.addCleanup(end)
        return process

    def wait_for(self, what, process, condition):
        end = time.monotonic() + PATIENCE_SECONDS
        while True:
            value = condition()
            if value:
                return value
            if process.poll() is not None:
                raise AssertionError(f"{what}: ended with {process.returncode}: "
                                     f"{process.stdout.read()}")
            if time.monotonic() > end:
                raise AssertionError(f"waited in vain for {what}")
            time.sleep(0.05)

    def test_they_are_small(self):
        for name, (reference, identity, size) in self.built.items():
            FIGURES.append(f"{reference}: {size / 1e6:.1f} MB ({identity[7:19]})")
        self.assertLessEqual(self.built["server"][2], LARGEST_SERVER_BYTES)

    def test_building_again_gives_the_same_image(self):
        # The first are left as they are; other tests run them.
        again = self.build("again")
        shutil.rmtree(self.folder / "again")
        self.assertEqual({name: built[1] for name, built in again.items()},
                         {name: built[1] for name, built in self.built.items()})

    def test_nothing_in_them_is_for_the_user_to_change(self):
        for name in self.names:
            root = self.folder / "images" / f"context-{name}" / "root"
            for path in root.rglob("*"):
                facts = path.lstat()
                if stat.S_ISLNK(facts.st_mode):
                    continue
                self.assertFalse(facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH | stat.S_ISUID
                                                  | stat.S_ISGID), path)
            self.assertFalse((root / "bin/sh").exists() or (root / "usr/bin/sh").exists())
            packages = (root / "usr/share/doc/parplan/packages").read_text().splitlines()
            self.assertTrue(any(line.startswith("libc6 ") for line in packages))
            for line in packages:
                copyright_file = root / "usr/share/doc" / line.split()[0] / "copyright.gz"
                self.assertTrue(copyright_file.is_file(), copyright_file)

    def test_their_settings_are_those_of_the_manifests(self):
        for name in self.names:
            config = json.loads(run(*self.buildah("inspect", "--type", "image",
                                                  self.built[name][0])))["OCIv1"]["config"]
            self.assertEqual(config["User"], f"{USER}:{USER}")
            program = {"server": "parplan-server", "sidecar": "parplan-sidecar",
                       "agent": "parplan-agent", "planctl": "planctl"}[name]
            self.assertEqual(config["Entrypoint"], [f"/usr/bin/{program}"])

    def test_every_program_starts(self):
        programs = {"server": ["parplan-server"], "sidecar": ["parplan-sidecar"],
                    "agent": ["parplan-agent", "parplan-agent-probe"], "planctl": ["planctl"]}
        for name in self.names:
            container = self.container(name)
            for program in programs[name]:
                if program == "parplan-agent-probe":
                    continue  # It is told what to do by the agent alone.
                process = self.start(container, [], f"/usr/bin/{program}", "--version")
                text, _ = process.communicate(timeout=PATIENCE_SECONDS)
                self.assertEqual(process.returncode, 0, text)
                self.assertIn(f"{program} ", text)

    def test_a_server_serves_as_nobody_and_a_pod_gets_its_plan(self):
        data, plan = self.volume("data"), self.volume("plan")
        container = self.container("server")
        server = self.start(
            container, [(data, "/var/lib/parplan")], "/usr/bin/parplan-server",
            "--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0",
            "--health-listen", "127.0.0.1:0", "--data-dir", "/var/lib/parplan/server",
            "--port-file", "/var/lib/parplan/port",
            "--health-port-file", "/var/lib/parplan/health-port",
            "--metrics-port-file", "/var/lib/parplan/metrics-port")
        self.wait_for("the server", server, (data / "metrics-port").exists)
        with open(f"/proc/{self.server_pid(server)}/status", encoding="utf-8") as file:
            facts = dict(line.split(":", 1) for line in file)
        self.assertEqual(facts["Uid"].split(), [str(USER)] * 4)
        address = f"127.0.0.1:{(data / 'port').read_text().strip()}"
        health = f"127.0.0.1:{(data / 'health-port').read_text().strip()}"
        with parplan.Client(health) as client:
            self.assertTrue(parplan.is_serving(client, "parplan.v1.PlanService"))
        with parplan.Client(address) as client:
            client.upload("clusters/lab/nodes/n1", "upload-1", parplan.small_profile(), 300)
            made = client.call("parplan.v1.PlanService", "CreatePlan",
                               parplan.small_question(job_id="job-1", request_id="r-1"), 300)
        # An init container that shares nothing with the server but the public keys.
        trust = data / "server" / "trust-bundle.jwks.json"
        init = self.start(
            self.container("sidecar"), [(plan, "/plan"), (trust, "/etc/trust.json:ro")],
            "/usr/bin/parplan-sidecar", "init", "--server", address, "--cluster", "lab",
            "--job", "job-1", "--trust", "/etc/trust.json", "--volume", "/plan")
        text, _ = init.communicate(timeout=PATIENCE_SECONDS)
        self.assertEqual(init.returncode, 0, text)
        self.assertIn(made.name, text)
        self.assertEqual((plan / "generation").read_text(), "1\n")
        self.assertIn(made.name, (plan / "plan.env").read_text())
        self.assertEqual((plan / ".current" / "plan.dsse.json").stat().st_uid, USER)
        # The end, as a kubelet brings it about.
        os.kill(self.server_pid(server), signal.SIGTERM)
        text, _ = server.communicate(timeout=PATIENCE_SECONDS)
        self.assertEqual(server.returncode, 0, text)
        self.assertIn('"event":"ended"', text)

    @staticmethod
    def server_pid(process):
        for pid in processes_below(process.pid):
            if os.readlink(f"/proc/{pid}/exe").endswith("/usr/bin/parplan-server"):
                return pid
        raise AssertionError("no server among the processes of the container")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--all", action="store_true")
    _, rest = parser.parse_known_args(namespace=FLAGS)
    FLAGS.source, FLAGS.bin = FLAGS.source.resolve(), FLAGS.bin.resolve()
    if os.geteuid() != 0 or shutil.which("buildah") is None:
        print("skipped: images are built as root, with buildah")
        sys.exit(77)
    program = unittest.main(argv=[sys.argv[0], *rest], exit=False)
    print("\n".join(FIGURES))
    sys.exit(not program.result.wasSuccessful())


if __name__ == "__main__":
    main()
