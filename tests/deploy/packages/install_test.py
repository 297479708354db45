#!/usr/bin/python3
"""The files that each package would install: programs with manual pages and completion, units that
systemd takes, configuration that the programs take.

    install_test.py --cmake PROGRAM --build FOLDER --source FOLDER --version X.Y.Z
"""
import argparse
import gzip
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

FLAGS = None
PACKAGES = ("parplan-server", "parplan-client", "parplan-agent", "parplan-executor",
            "libparplan-executor1", "libparplan-executor-dev", "python3-parplan-executor",
            "parplan-sidecar", "parplan-slurm")


def run(*command, **options):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True,
                          timeout=300, check=False, **options)


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.roots = {}
        for package in PACKAGES:
            root = pathlib.Path(folder.name) / package
            done = run(FLAGS.cmake, "--install", FLAGS.build, "--component", package,
                       env={**os.environ, "DESTDIR": str(root)})
            if done.returncode != 0:
                raise AssertionError(done.stderr)
            cls.roots[package] = root

    def programs(self):
        """Each program with the root of its package."""
        found = [(root, path) for root in self.roots.values()
                 for path in sorted((root / "usr/bin").glob("*"))]
        self.assertGreaterEqual(len(found), 5)
        return found

    def test_each_file_is_of_one_package_and_in_a_folder_of_the_standard(self):
        owner = {}
        for package, root in self.roots.items():
            for path in root.rglob("*"):
                if path.is_dir():
                    continue
                name = "/" + str(path.relative_to(root))
                self.assertNotIn(name, owner)
                owner[name] = package
                self.assertRegex(name, r"^/(usr/(bin|lib|share|include)|etc/parplan|lib/systemd"
                                       r"/system)/")
        for name, package in (("/usr/bin/parplan-server", "parplan-server"),
                              ("/lib/systemd/system/parplan-server.service", "parplan-server"),
                              ("/etc/parplan/parplan-server.json", "parplan-server"),
                              ("/usr/lib/sysusers.d/parplan-server.conf", "parplan-server"),
                              ("/usr/share/parplan/prometheus/alerts.yml", "parplan-server"),
                              ("/usr/share/parplan/grafana/dashboards/plans.json",
                               "parplan-server"),
                              ("/usr/bin/planctl", "parplan-client"),
                              ("/usr/share/bash-completion/completions/planctl", "parplan-client"),
                              ("/usr/share/fish/vendor_completions.d/parplan-server.fish",
                               "parplan-server"),
                              ("/usr/bin/parplan-agent", "parplan-agent"),
                              ("/usr/bin/parplan-agent-probe", "parplan-agent"),
                              ("/usr/lib/parplan/libparplan_nccl_profiler.so", "parplan-agent"),
                              ("/usr/lib/tmpfiles.d/parplan-agent.conf", "parplan-agent"),
                              ("/usr/bin/parplan-exec", "parplan-executor"),
                              ("/usr/include/parplan/parplan_executor.h",
                               "libparplan-executor-dev"),
                              ("/usr/lib/python3/dist-packages/parplan_executor/__init__.py",
                               "python3-parplan-executor")):
            self.assertEqual(owner.get(name), package, name)
        libraries = {name.rpartition("/")[2]: package for name, package in owner.items()}
        self.assertEqual(libraries["libparplan_executor.so.1"], "libparplan-executor1")
        self.assertEqual(libraries["libparplan_executor.so"], "libparplan-executor-dev")

    def test_every_program_prints_its_version_and_has_a_manual_and_completion(self):
        for root, program in self.programs():
            done = run(program, "--version")
            self.assertEqual(done.stdout, f"{program.name} {FLAGS.version}\n")
            page = root / f"usr/share/man/man1/{program.name}.1.gz"
            self.assertTrue(page.is_file(), page)
            completion = root / f"usr/share/bash-completion/completions/{program.name}"
            self.assertEqual(run("bash", "-n", completion).returncode, 0)

    def need(self, program):
        """Those who may install it must have it, or nothing would be looked at anywhere."""
        if shutil.which(program) is None:
            if os.geteuid() == 0 and pathlib.Path("/etc/debian_version").exists():
                self.fail(f"there is no {program}: ./parplan-dev setup test")
            self.skipTest(f"there is no {program}")

    def test_a_manual_page_has_all_that_help_says(self):
        self.need("man")
        for root, program in self.programs():
            told = run(program, "--help").stdout
            shown = run("man", "-l", root / f"usr/share/man/man1/{program.name}.1.gz",
                        env={**os.environ, "MANWIDTH": "200", "LC_ALL": "C.UTF-8"}).stdout
            shown = shown.replace("\u2010", "-").replace("\u2212", "-")
            for flag in set(re.findall(r"--[a-z][\w-]*", told)):
                self.assertIn(flag, shown, program.name)
            for heading in ("NAME", "SYNOPSIS", "OPTIONS"):
                self.assertIn(f"\n{heading}\n", "\n" + shown, program.name)
            self.assertIn("EXIT STATUS", shown, program.name)

    def test_manual_pages_have_no_mistakes(self):
        self.need("man")
        count = 0
        for root in self.roots.values():
            for page in (root / "usr/share/man").rglob("*.gz"):
                done = run("man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", page,
                           env={**os.environ, "LC_ALL": "C.UTF-8", "MANROFFSEQ": ""})
                self.assertEqual((done.returncode, done.stderr), (0, ""), page.name)
                # Nothing of the machine that wrote it.
                text = gzip.decompress(page.read_bytes()).decode()
                self.assertNotRegex(text, rf"={re.escape(os.uname().nodename)}(\s|$)")
                count += 1
        self.assertGreater(count, 25)

    def test_every_command_of_planctl_has_a_page(self):
        root = self.roots["parplan-client"]
        told = run(root / "usr/bin/planctl", "--help").stdout.partition("\nSubcommands:\n")[2]
        names = re.findall(r"^  (\S+)", told.partition("\n\n")[0], re.MULTILINE)
        self.assertGreater(len(names), 15)
        for name in names:
            self.assertTrue((root / f"usr/share/man/man1/planctl-{name}.1.gz").is_file(), name)

    def test_the_configuration_is_taken(self):
        root = self.roots["parplan-server"]
        server = root / "usr/bin/parplan-server"
        done = run(server, "--check-config", "--config", root / "etc/parplan/parplan-server.json")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        # That of the example names files that are not there; nothing else is wrong with it.
        example = root / "usr/share/doc/parplan-server/examples/parplan-server-tls.json"
        done = run(server, "--check-config", "--config", example)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("/etc/parplan/tls/server.pem", json.loads(done.stderr)["message"])

    def units(self, folder):
        """The units with the programs where they are here."""
        for package in ("parplan-server", "parplan-agent"):
            root = self.roots[package]
            text = (root / f"lib/systemd/system/{package}.service").read_text()
            unit = pathlib.Path(folder) / f"{package}.service"
            unit.write_text(text.replace("=/usr/bin/", f"={root}/usr/bin/")
                            # Pages and users are there once the package is.
                            .replace("Documentation=", "#"))
            yield unit

    def test_systemd_takes_the_units_and_finds_them_closed(self):
        self.need("systemd-analyze")
        with tempfile.TemporaryDirectory() as folder:
            for unit in self.units(folder):
                done = run("systemd-analyze", "verify", "--man=no", unit,
                           env={**os.environ, "SYSTEMD_LOG_LEVEL": "warning"})
                ours = [line for line in done.stderr.splitlines() if unit.name in line]
                self.assertEqual(ours, [], done.stderr)
                done = run("systemd-analyze", "security", "--offline=true", "--no-pager", unit)
                exposure = re.search(r"exposure level for \S+: ([\d.]+)", done.stdout)
                self.assertIsNotNone(exposure, done.stdout + done.stderr)
                print(f"{unit.name}: exposure {exposure.group(1)} of 10")
                most = 1.5 if unit.stem == "parplan-server" else 3.0
                self.assertLessEqual(float(exposure.group(1)), most, done.stdout)

    def test_the_log_goes_to_the_journal(self):
        # Standard error goes where standard output does, unless it is told otherwise.
        for package in ("parplan-server", "parplan-agent"):
            text = (self.roots[package] / f"lib/systemd/system/{package}.service").read_text()
            told = dict(re.findall(r"^Standard(Output|Error)=(.*)$", text, re.MULTILINE))
            self.assertEqual(told.get("Error", told.get("Output", "journal")), "journal", package)

    def test_a_purge_removes_the_links_of_an_enabled_service(self):
        for name in ("server", "agent"):
            with tempfile.TemporaryDirectory() as folder:
                wants = pathlib.Path(folder, "etc/systemd/system/multi-user.target.wants")
                wants.mkdir(parents=True)
                for service in (f"parplan-{name}", "other"):
                    (wants / f"{service}.service").symlink_to(f"/lib/systemd/system/{service}.service")
                script = FLAGS.source / "deploy/packages" / name / "postrm"
                for word, left in (("remove", 2), ("purge", 1)):
                    done = run("sh", script, word, env={**os.environ, "DPKG_ROOT": folder})
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertEqual(len(list(wants.iterdir())), left)
                self.assertTrue((wants / "other.service").is_symlink())

    def test_maintainer_scripts_are_sh(self):
        scripts = [path for path in (FLAGS.source / "deploy/packages").glob("*/*")
                   if path.name in ("postinst", "prerm", "postrm")]
        self.assertEqual(len(scripts), 8)
        for script in scripts:
            self.assertEqual(run("sh", "-n", script).returncode, 0)
            self.assertTrue(os.access(script, os.X_OK), script)


def main():
    global FLAGS
    parser = argparse.ArgumentParser()
    for name in ("cmake", "build", "source"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    parser.add_argument("--version", required=True)
    FLAGS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
