#!/usr/bin/python3
"""Bills of materials: they have every library of the programs of this build, the same bytes wherever
they are written, and no change of them or of the files goes unseen.

    sbom_test.py --source FOLDER --bin FOLDER

Packs programs of FOLDER into packages of its own. Ends with 77 where none is built.
"""
import argparse
import copy
import functools
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

FLAGS = argparse.Namespace()
# What the packages of this test hold. One has no program at all.
PACKAGES = {"parplan-server": ["parplan-server"], "parplan-executor": ["parplan-exec"],
            "parplan-agent": ["parplan-agent", "libparplan_nccl_profiler.so"],
            "python3-parplan-executor": []}
SECONDS = 1700000000


def make_sbom(*arguments, seconds=SECONDS):
    return subprocess.run(
        ["/usr/bin/python3", "-B", FLAGS.source / "deploy/releases/make_sbom.py", *arguments],
        capture_output=True, text=True, check=False, timeout=300,
        env={"PATH": "/usr/bin:/bin", "SOURCE_DATE_EPOCH": str(seconds)})


def pack(folder, name, programs):
    """A package of stripped programs, and the tree it was made of."""
    tree = folder / "trees" / name
    (tree / "DEBIAN").mkdir(parents=True)
    doc = tree / "usr/share/doc" / name
    doc.mkdir(parents=True)
    shutil.copy(FLAGS.source / "deploy/packages/copyright", doc)
    (tree / "usr/bin").mkdir()
    for program in programs:
        subprocess.run(["strip", "--strip-unneeded", "-o", tree / "usr/bin" / program,
                        FLAGS.bin / program], check=True)
    (tree / "DEBIAN/control").write_text(
        f"Package: {name}\nVersion: 0.1.0-1\nArchitecture: {'amd64' if programs else 'all'}\n"
        "Maintainer: The parplan authors <parplan@example.org>\n"
        "Depends: libc6 (>= 2.36), systemd-standalone-sysusers | systemd-sysusers, "
        "libparplan-executor1 (>= 0.1.0)\nDescription: a test\n")
    (folder / "packages").mkdir(exist_ok=True)
    subprocess.run(["dpkg-deb", "--root-owner-group", "-Znone", "--build", tree,
                    folder / "packages"], check=True, stdout=subprocess.DEVNULL,
                   env={**os.environ, "SOURCE_DATE_EPOCH": str(SECONDS)})
    shutil.rmtree(tree / "DEBIAN")
    return next((folder / "packages").glob(f"{name}_*.deb"))


def find(document, name):
    (found,) = [one for one in document["packages"] if one["name"] == name]
    return found


def drop(document, name):
    """Takes a package and its relations away."""
    gone = find(document, name)
    document["packages"].remove(gone)
    document["relationships"] = [
        one for one in document["relationships"]
        if gone["SPDXID"] not in (one["spdxElementId"], one["relatedSpdxElement"])]


def drop_relations(document, kind, name):
    identity = find(document, name)["SPDXID"]
    left = [one for one in document["relationships"]
            if (one["relationshipType"], one["relatedSpdxElement"]) != (kind, identity)]
    assert len(left) < len(document["relationships"])
    document["relationships"] = left


def rename_library(document, package):
    found = find(document, package)
    found["comment"] = found["comment"].replace("libssl.so.3", "libssl.so.4")


def set_version(document, name, version):
    found = find(document, name)
    (reference,) = found["externalRefs"]
    reference["referenceLocator"] = reference["referenceLocator"].replace(
        found["versionInfo"].replace("+", "%2B"), version)
    found["versionInfo"] = version


class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        place = tempfile.TemporaryDirectory()
        cls.addClassCleanup(place.cleanup)
        cls.folder = pathlib.Path(place.name)
        cls.debs = {name: pack(cls.folder, name, programs) for name, programs in PACKAGES.items()}
        done = make_sbom("packages", cls.folder / "packages", "--bin", FLAGS.bin,
                         "--build-package", "cmake", "libeigen3-dev")
        assert done.returncode == 0, done.stderr
        cls.texts = {name: deb.with_suffix(".spdx.json").read_text()
                     for name, deb in cls.debs.items()}
        sys.path.insert(0, str(FLAGS.source / "deploy/releases"))
        cls.checks = __import__("check_sbom")

    def wrong(self, document, name="parplan-server", root=None):
        deb = self.debs[name]
        return self.checks.check(document, root or self.folder / "trees" / name,
                                 hashlib.sha256(deb.read_bytes()).hexdigest(), folder=FLAGS.bin)

    def document(self, name="parplan-server"):
        return json.loads(self.texts[name])

    def test_the_documents_say_what_the_packages_hold(self):
        for name, deb in self.debs.items():
            done = make_sbom("check", deb.with_suffix(".spdx.json"), "--deb", deb, "--bin",
                             FLAGS.bin)
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_every_library_that_ldd_names_is_there_with_its_package(self):
        # Looked up here with ldd and dpkg alone.
        for name, programs in PACKAGES.items():
            document = self.document(name)
            for program in programs:
                text = subprocess.run(["ldd", FLAGS.bin / program], capture_output=True, text=True,
                                      check=True).stdout
                rows = [line.split() for line in text.splitlines() if "=> /" in line]
                self.assertGreater(len(rows), 1)
                paths = {spelt for _, _, path, _ in rows for spelt in (path, f"/usr{path}")}
                done = subprocess.run(["dpkg", "-S", *sorted(paths)], capture_output=True,
                                      text=True, check=False)
                packages = {line.rpartition(": ")[2].removeprefix("/usr"): line.partition(":")[0]
                            for line in done.stdout.splitlines()}
                for library, _, path, _ in rows:
                    package = packages[path.removeprefix("/usr")]
                    self.assertIn(library, find(document, package)["comment"].split(), name)

    def test_libraries_that_are_compiled_in_are_there(self):
        for name, library in (("parplan-server", "nlohmann-json3-dev"),
                              ("parplan-server", "libcli11-dev"),
                              ("parplan-executor", "libeigen3-dev")):
            document = self.document(name)
            identity = find(document, library)["SPDXID"]
            self.assertTrue(any(one["relationshipType"] == "STATIC_LINK"
                                and one["relatedSpdxElement"] == identity
                                for one in document["relationships"]), library)

    def test_what_it_was_built_and_is_installed_with_is_there(self):
        document = self.document("python3-parplan-executor")
        kinds = {(one["relationshipType"], one["spdxElementId"], one["relatedSpdxElement"])
                 for one in document["relationships"]}
        main = find(document, "python3-parplan-executor")["SPDXID"]
        self.assertIn(("BUILD_DEPENDENCY_OF", find(document, "cmake")["SPDXID"], main), kinds)
        asked = find(document, "systemd-standalone-sysusers")
        self.assertIn(("DEPENDS_ON", main, asked["SPDXID"]), kinds)
        self.assertIn("systemd-sysusers", asked["comment"])
        ours = find(document, "libparplan-executor1")
        self.assertEqual(ours["externalRefs"][0]["referenceLocator"],
                         "pkg:deb/parplan/libparplan-executor1")

    def test_libraries_have_version_supplier_licence_and_purl(self):
        library = find(self.document(), "libssl3")
        shown = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", "libssl3"], text=True,
                               capture_output=True, check=True).stdout
        self.assertEqual(library["versionInfo"], shown)
        self.assertRegex(library["supplier"], "^Organization: .")
        self.assertIn("Apache-2.0", library["licenseDeclared"])
        self.assertRegex(library["externalRefs"][0]["referenceLocator"],
                         "^pkg:deb/[a-z]+/libssl3@" + shown.replace("+", "%2B"))

    def test_the_bytes_depend_on_no_place_and_no_clock(self):
        again = self.folder / "somewhere" / "else"
        again.mkdir(parents=True)
        for deb in self.debs.values():
            shutil.copy(deb, again)
        arguments = ("packages", again, "--bin", FLAGS.bin, "--build-package", "libeigen3-dev",
                     "cmake")
        self.assertEqual(make_sbom(*arguments).returncode, 0)
        for name, deb in self.debs.items():
            text = (again / deb.name).with_suffix(".spdx.json").read_text()
            self.assertEqual(text, self.texts[name])
            self.assertNotIn(str(self.folder), text)
            self.assertNotIn(str(FLAGS.source), text)
        self.assertIn('"created": "2023-11-14T22:13:20Z"', text)
        name = "python3-parplan-executor"
        for deb in again.glob("*.deb"):
            if not deb.name.startswith(name):
                deb.unlink()
        self.assertEqual(make_sbom(*arguments, seconds=SECONDS + 1).returncode, 0)
        other = json.loads((again / self.debs[name].name).with_suffix(".spdx.json").read_text())
        self.assertEqual(other["creationInfo"]["created"], "2023-11-14T22:13:21Z")
        # Another document has another name.
        self.assertNotEqual(other["documentNamespace"], self.document(name)["documentNamespace"])

    def test_a_changed_document_is_refused(self):
        def first_file(document):
            (found,) = [one for one in document["files"]
                        if one["fileName"] == "./usr/bin/parplan-server"]
            return found

        def change_digest(document):
            checksum = first_file(document)["checksums"][1]
            checksum["checksumValue"] = f"{int(checksum['checksumValue'], 16) ^ 1:064x}"

        def forget_file(document):
            file = first_file(document)
            document["files"].remove(file)
            document["relationships"] = [
                one for one in document["relationships"] if file["SPDXID"] not in (
                    one["spdxElementId"], one["relatedSpdxElement"])]

        attacks = (
            ("linked with libssl.so.3", lambda d: drop(d, "libssl3")),
            ("linked with libre2.so.9", lambda d: drop(d, "libre2-9")),
            ("linked with libsqlite3.so.0",
             lambda d: drop_relations(d, "DYNAMIC_LINK", "libsqlite3-0")),
            ("linked with libffi.so.8",
             lambda d: drop_relations(d, "DEPENDS_ON", "libffi8")),
            ("linked with libssl.so.3", lambda d: rename_library(d, "libssl3")),
            ("linked with libssl.so.3", lambda d: set_version(d, "libssl3", "3.0.1-1")),
            ("nlohmann-json3-dev compiled in", lambda d: drop(d, "nlohmann-json3-dev")),
            ("has another SHA256", change_digest),
            ("is not in the document", forget_file),
            ("is contained by nothing", lambda d: d["relationships"].remove(next(
                one for one in d["relationships"] if one["relationshipType"] == "CONTAINS"))),
            ("the package has another SHA256", lambda d: find(d, "parplan-server")["checksums"][0]
             .update(checksumValue="0" * 64)),
            ("packageVerificationCode", lambda d: find(d, "parplan-server").update(
                packageVerificationCode={"packageVerificationCodeValue": "0" * 40})),
            ("does not say what it describes", lambda d: d["relationships"].remove(next(
                one for one in d["relationships"] if one["relationshipType"] == "DESCRIBES"))),
            ("no versionInfo", lambda d: find(d, "libssl3").pop("versionInfo")),
            ("no supplier", lambda d: find(d, "libssl3").pop("supplier")),
            ("no licenseDeclared", lambda d: find(d, "libssl3").pop("licenseDeclared")),
            ("not in hasExtractedLicensingInfos",
             lambda d: d["hasExtractedLicensingInfos"].clear()),
            ("one purl", lambda d: find(d, "libssl3")["externalRefs"].clear()),
            ("the purl is of something else", lambda d: find(d, "libssl3").update(
                externalRefs=find(d, "libre2-9")["externalRefs"])),
            ("primaryPackagePurpose", lambda d: find(d, "libssl3").update(
                primaryPackagePurpose="DATA")),
            ("there twice", lambda d: d["packages"].append(find(d, "libssl3"))),
            ("relationship", lambda d: d["relationships"][0].update(
                relatedSpdxElement="SPDXRef-Nobody")),
            ("relationship", lambda d: d["relationships"][0].update(relationshipType="LINKS")),
            ("not relative", lambda d: first_file(d).update(fileName="usr/bin/parplan-server")),
            ("no SHA256", lambda d: first_file(d)["checksums"].pop()),
            ("spdxVersion", lambda d: d.update(spdxVersion="SPDX-2.2")),
            ("creationInfo", lambda d: d["creationInfo"].update(created="today")),
            ("documentNamespace", lambda d: d.update(documentNamespace="parplan")),
            ("a path of one machine", lambda d: d.update(name="/srv/parplan-server")),
        )
        # The files stay as they are, so they are looked at once.
        for function in ("loaded", "compiled_in"):
            patch = mock.patch.object(self.checks.links, function, functools.lru_cache(
                getattr(self.checks.links, function)))
            patch.start()
            self.addCleanup(patch.stop)
        self.assertEqual(self.wrong(self.document()), [])
        for words, change in attacks:
            with self.subTest(words=words):
                document = self.document()
                change(document)
                found = self.wrong(document)
                self.assertTrue(any(words in line for line in found), found)

    def test_changed_files_are_seen(self):
        root = self.folder / "changed"

        def seen(change):
            shutil.rmtree(root, ignore_errors=True)
            shutil.copytree(self.folder / "trees" / "parplan-server", root, symlinks=True)
            change(root / "usr/bin/parplan-server")
            return self.wrong(self.document(), root=root)

        def flip(path):
            data = bytearray(path.read_bytes())
            data[len(data) // 2] ^= 1
            path.write_bytes(data)

        self.assertEqual(seen(lambda path: None), [])
        self.assertIn("usr/bin/parplan-server has another SHA256",
                      seen(lambda path: flip(path.parents[1] /
                                             "share/doc/parplan-server/copyright")
                           or flip(path)))
        self.assertIn("usr/bin/parplan-server is in the document and not there",
                      seen(lambda path: path.unlink()))
        self.assertIn("usr/bin/more is not in the document",
                      seen(lambda path: path.with_name("more").write_text("more")))

    def test_a_changed_package_is_refused(self):
        deb = self.debs["python3-parplan-executor"]
        changed = self.folder / deb.name
        data = bytearray(deb.read_bytes())
        data[data.index(b"debian-binary") + 20] ^= 1
        changed.write_bytes(data)
        done = make_sbom("check", deb.with_suffix(".spdx.json"), "--deb", changed)
        self.assertEqual(done.returncode, 1)
        self.assertIn("another SHA256", done.stderr)
        done = make_sbom("packages", self.folder / "trees")
        self.assertEqual(done.returncode, 1)
        self.assertIn("has no package", done.stderr)


class Image(unittest.TestCase):
    """The root of an image, as deploy/images/build.sh gathers it."""

    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.folder = pathlib.Path(place.name)
        self.root = self.folder / "root"
        (self.root / "usr/bin").mkdir(parents=True)
        (self.root / "usr/share/doc/parplan").mkdir(parents=True)
        (self.root / "usr/share/doc/parplan/packages").write_text("libc6\n")
        subprocess.run(["strip", "-o", self.root / "usr/bin/parplan-sidecar",
                        FLAGS.bin / "parplan-sidecar"], check=True)
        text = subprocess.run(["ldd", FLAGS.bin / "parplan-sidecar"], capture_output=True, text=True,
                              check=True).stdout
        for word in text.split():
            if word.startswith("/"):
                place = word if word.startswith("/usr/") else f"/usr{word}"
                target = self.root / place[1:]
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(os.path.realpath(word), target)
        self.library = next(self.root.rglob("libssl.so.3"))
        self.out = self.folder / "parplan-sidecar.spdx.json"

    def write(self, *more):
        return make_sbom("image", self.root, "parplan-sidecar", "0.1.0", self.out, "--bin",
                         FLAGS.bin, *more, seconds=0)

    def check(self):
        return make_sbom("check", self.out, "--root", self.root, "--bin", FLAGS.bin)

    def test_libraries_are_traced_to_their_packages(self):
        done = self.write()
        self.assertEqual(done.returncode, 0, done.stderr)
        done = self.check()
        self.assertEqual(done.returncode, 0, done.stderr)
        document = json.loads(self.out.read_text())
        self.assertEqual(document["creationInfo"]["created"], "1970-01-01T00:00:00Z")
        (file,) = [one for one in document["files"] if one["fileName"].endswith("/libssl.so.3")]
        self.assertEqual(file["checksums"][1]["checksumValue"],
                         hashlib.sha256(self.library.read_bytes()).hexdigest())
        relations = {(one["spdxElementId"], one["relationshipType"], one["relatedSpdxElement"])
                     for one in document["relationships"]}
        self.assertIn((file["SPDXID"], "EXPANDED_FROM_ARCHIVE",
                       find(document, "libssl3")["SPDXID"]), relations)
        changed = copy.deepcopy(document)
        drop(changed, "libssl3")
        self.out.write_text(json.dumps(changed))
        done = self.check()
        self.assertEqual(done.returncode, 1)
        self.assertIn("libssl.so.3 comes from no package", done.stderr)
        self.assertIn("is linked with libssl.so.3", done.stderr)

    def test_a_library_of_nobody_is_refused(self):
        self.assertEqual(self.write().returncode, 0)
        data = bytearray(self.library.read_bytes())
        data[-1] ^= 1
        self.library.write_bytes(data)
        done = self.check()
        self.assertEqual(done.returncode, 1)
        self.assertIn("libssl.so.3 has another SHA256", done.stderr)
        done = self.write()
        self.assertEqual(done.returncode, 1)
        self.assertIn("is no copy of a file of a Debian package", done.stderr)
        # Only what was named as a replacement of ours may differ.
        self.assertEqual(self.write("--stand-in", "libssl.so.*").returncode, 0)
        self.library.unlink()
        done = self.write()
        self.assertEqual(done.returncode, 1)
        self.assertIn("needs libssl.so.3, which the image lacks", done.stderr)

    def test_the_document_in_the_image_is_the_one_beside_it(self):
        self.assertEqual(self.write().returncode, 0)
        inside = self.root / "usr/share/doc/parplan/sbom.spdx.json"
        shutil.copy(self.out, inside)
        self.assertEqual(self.check().returncode, 0)
        inside.write_text(inside.read_text().replace("0.1.0", "0.1.1", 1))
        done = self.check()
        self.assertEqual(done.returncode, 1)
        self.assertIn("is another document", done.stderr)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    _, rest = parser.parse_known_args(namespace=FLAGS)
    FLAGS.source, FLAGS.bin = FLAGS.source.resolve(), FLAGS.bin.resolve()
    for program in ("parplan-sidecar", *(p for programs in PACKAGES.values() for p in programs)):
        if not (FLAGS.bin / program).is_file():
            print(f"skipped: {program} is not built")
            sys.exit(77)
    if shutil.which("dpkg-deb") is None:
        print("skipped: there is no dpkg-deb (Debian: dpkg)")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
