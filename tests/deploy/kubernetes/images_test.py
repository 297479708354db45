#!/usr/bin/python3
"""Container images: small, nobody's, the same whoever builds them, and they run without root.

    images_test.py --source FOLDER --bin FOLDER [--all]

By default the images of server and sidecar; with --all the others as well. A common user builds
and runs them; root does so as one without rights, and builds them itself to compare. Ends with 77
where there is no buildah or it has no user namespaces.
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

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "integration"))
import parplan_process as parplan
import rootless

FLAGS = argparse.Namespace()
PATIENCE_SECONDS = 600
LARGEST_SERVER_BYTES = 42_000_000
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


def images():
    return ["server", "sidecar"] + (["agent", "planctl"] if FLAGS.all else [])


def build(out):
    """Image name -> (reference, id, bytes)."""
    text = run(FLAGS.source / "deploy" / "images" / "build.sh", "--bin", FLAGS.bin, "--out", out,
               *images())
    lines = [line.split() for line in text.splitlines()]
    return {name: (reference, identity, int(size))
            for name, (reference, identity, size) in zip(images(), lines, strict=True)}


def build_to_compare(folder):
    """Builds like `build`, and removes the images."""
    built = build(folder / "again")
    remove(folder / "again")
    return built


def remove(*paths):
    """Also what belongs to other users of the user namespace."""
    enter = [] if os.geteuid() == 0 else ["buildah", "unshare"]
    run(*enter, "rm", "-rf", *paths)


class Images(unittest.TestCase):
    """The images in FLAGS.folder, run as root of a user namespace where there is one."""

    @classmethod
    def setUpClass(cls):
        cls.folder = FLAGS.folder
        cls.names = images()
        told = json.loads((cls.folder / "built.json").read_text())
        cls.built, cls.again = told["images"], told["again"]
        cls.builders = told["by"], told["again_by"]

    def buildah(self, *arguments):
        out = self.folder / "images"
        return ["buildah", "--root", str(out / "storage"), "--runroot", str(out / "run"),
                "--storage-driver", "vfs", *map(str, arguments)]

    def container(self, name):
        """A container of an image, for one test."""
        if not rootless.is_mapped(USER):
            self.skipTest(f"there is no user {USER}: a range of ids in /etc/subuid and "
                          "/etc/subgid is needed")
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
        self.assertEqual(self.again, self.built)
        FIGURES.append("built by {}, and the same by {}".format(*self.builders))

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

    def test_the_bill_of_materials_says_what_is_in_them(self):
        for name in self.names:
            out = self.folder / "images"
            run("/usr/bin/python3", "-B", FLAGS.source / "deploy/releases/make_sbom.py", "check",
                out / f"parplan-{name}.spdx.json", "--root", out / f"context-{name}" / "root",
                "--bin", FLAGS.bin)

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
        container = self.container("server")
        data, plan = self.volume("data"), self.volume("plan")
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


def test(folder):
    """The tests of what is in a folder; the exit code."""
    FLAGS.folder = folder
    program = unittest.main(argv=[sys.argv[0], *FLAGS.rest], exit=False)
    print("\n".join(FIGURES))
    return 0 if program.result.wasSuccessful() else 1


def this_program(source, binaries, *more):
    """The command to run it for somebody else."""
    return [sys.executable, "-B", source / "tests/deploy/kubernetes/images_test.py", "--source", source,
            "--bin", binaries, *(["--all"] if FLAGS.all else []), *more, *FLAGS.rest]


def write_built(folder, **told):
    (folder / "built.json").write_text(json.dumps(told))


def test_as_common_user(folder):
    """Builds, and tests as root of a user namespace, which has the users that containers need."""
    rootless.set_environment(folder)
    done = subprocess.run(["buildah", "unshare", "true"], capture_output=True, text=True,
                          timeout=PATIENCE_SECONDS, check=False)
    if done.returncode != 0:
        print(f"skipped: buildah can't make a user namespace: {done.stderr.strip()}")
        return 77
    me = f"uid {os.getuid()}"
    built = build(folder / "images")
    if FLAGS.again is None:
        write_built(folder, images=built, by=me, again=build_to_compare(folder), again_by=me)
    else:
        write_built(folder, images=built, by=me, again=json.loads(FLAGS.again), again_by="root")
    command = this_program(FLAGS.source, FLAGS.bin, "--folder", folder)
    try:
        return subprocess.run(["buildah", "unshare", *map(str, command)], check=False).returncode
    finally:
        remove(*folder.iterdir())


def test_as_root(folder):
    """Builds, and tests as a common user, where there can be one."""
    folder.chmod(0o711)
    by_root = build_to_compare(folder)
    user = rootless.CommonUser(folder / "user", {"source": FLAGS.source, "bin": FLAGS.bin})
    reason = user.why_not()
    if reason is None:
        command = this_program(user.places["source"], user.places["bin"], "--again",
                               json.dumps(by_root))
        try:
            return user.run(*command).returncode
        finally:
            user.forget()
    print(f"not without root: {reason}")
    write_built(folder, images=build(folder / "images"), by="root", again=by_root, again_by="root")
    return test(folder)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--all", action="store_true")
    # Flags for the child that this program starts: the digests that root built, and the folder.
    parser.add_argument("--again", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=pathlib.Path, help=argparse.SUPPRESS)
    _, FLAGS.rest = parser.parse_known_args(namespace=FLAGS)
    FLAGS.source, FLAGS.bin = FLAGS.source.resolve(), FLAGS.bin.resolve()
    if FLAGS.folder is not None:
        sys.exit(test(FLAGS.folder))
    if shutil.which("buildah") is None:
        print("skipped: there is no buildah (Debian: buildah)")
        sys.exit(77)
    os.umask(0o022)
    is_root = os.geteuid() == 0
    place = rootless.reachable_folder() if is_root else None
    with tempfile.TemporaryDirectory(dir=place) as name:
        code = (test_as_root if is_root else test_as_common_user)(pathlib.Path(name))
    sys.exit(code)


if __name__ == "__main__":
    main()
