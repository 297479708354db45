#!/usr/bin/python3
"""Signed releases, with real keys of openssl: what was signed is verified, and anything else refused.

    sign_test.py --source FOLDER
"""
import argparse
import base64
import contextlib
import datetime
import hashlib
import io
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
from unittest import mock

FLAGS = argparse.Namespace()
COMMIT = "0123456789abcdef0123456789abcdef01234567"
BUILDER = "https://builds.example.org/parplan"
SAID = ("--builder", BUILDER, "--source", "git+https://git.example.org/parplan.git", "--commit", COMMIT)


def openssl(*arguments):
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


def make_key(folder, name, *algorithm):
    key, public = folder / f"{name}.key.pem", folder / f"{name}.pub.pem"
    openssl("genpkey", "-algorithm", *(algorithm or ("ED25519",)), "-out", key)
    openssl("pkey", "-in", key, "-pubout", "-out", public)
    return key, public


def write_image(path, program=b"program", break_it=None):
    """An OCI archive of one layer; its digest."""
    blobs = {}

    def blob(data):
        digest = hashlib.sha256(data).hexdigest()
        blobs[digest] = data
        return {"digest": f"sha256:{digest}", "size": len(data)}

    manifest = {"config": blob(b"{}"), "layers": [blob(program)]}
    entry = blob(json.dumps(manifest).encode())
    with tarfile.open(path, "w") as archive:
        files = {f"blobs/sha256/{digest}": data for digest, data in blobs.items()}
        files["index.json"] = json.dumps({"manifests": [entry]}).encode()
        if break_it:
            break_it(files)
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return entry["digest"].removeprefix("sha256:")


def layer_with(text):
    """A layer that holds a bill of materials."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as layer:
        info = tarfile.TarInfo("usr/share/doc/parplan/sbom.spdx.json")
        info.size = len(text)
        layer.addfile(info, io.BytesIO(text))
    return file.getvalue()


def flip(path, bit):
    data = bytearray(path.read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)


def script_of_the_page(words):
    """The commands of docs/releases.md that have some words."""
    text = (FLAGS.source / "docs/releases.md").read_text(encoding="utf-8")
    (script,) = [one for one in re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
                 if words in one]
    return script


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        place = tempfile.TemporaryDirectory()
        cls.addClassCleanup(place.cleanup)
        cls.keys = pathlib.Path(place.name)
        cls.key, cls.public = make_key(cls.keys, "operator")
        cls.other_key, cls.other_public = make_key(cls.keys, "stranger")
        sys.path.insert(0, str(FLAGS.source / "deploy/releases"))
        cls.dsse, cls.provenance, cls.release = map(
            __import__, ("dsse", "provenance", "release"))

    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.folder = pathlib.Path(place.name) / "release"
        self.folder.mkdir()
        (self.folder / "parplan-server_0.1.0-1_amd64.deb").write_bytes(bytes(range(256)))
        (self.folder / "parplan-server_0.1.0-1_amd64.spdx.json").write_text(json.dumps({
            "packages": [{"externalRefs": [{"referenceLocator": purl}], "checksums": [
                {"checksumValue": hashlib.sha256(bytes(range(256))).hexdigest()}]} for purl in (
                    "pkg:deb/debian/libssl3@3.0.19-1?arch=amd64", "pkg:deb/debian/systemd",
                    "pkg:deb/parplan/parplan-server@0.1.0-1")]}))
        (self.folder / "parplan-server.spdx.json").write_text('{"packages": []}')
        self.digest = write_image(self.folder / "parplan-server.tar")
        self.statement = self.folder / "provenance.dsse.json"

    def run_program(self, *arguments):
        """What the program does with a command line, in this process, which is faster."""
        out, err = io.StringIO(), io.StringIO()
        with mock.patch.object(sys, "argv", ["release.py", *map(str, arguments)]), \
                contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = self.release.main()
        return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())

    def sign(self, *more):
        done = self.run_program("sign", self.folder, "--key", self.key, *SAID, *more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def verify(self, *more, key=None):
        return self.run_program("verify", self.folder, "--key", key or self.public, *more)

    def refused(self, words, done):
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertEqual(done.stdout, "")
        self.assertIn("refused: ", done.stderr)
        self.assertIn(words, done.stderr)

    def opened(self):
        return self.dsse.open_sealed(self.statement.read_text(), self.public)

    def reseal(self, change):
        """A statement that the operator signed and that says something else."""
        value = self.opened()
        change(value)
        self.statement.write_text(self.dsse.seal(value, self.key))


class Signed(Case):
    def test_the_program_signs_and_verifies(self):
        def run(*arguments):
            return subprocess.run([FLAGS.source / "deploy/releases/release.py", *arguments],
                                  capture_output=True, text=True, check=False, timeout=60).returncode

        self.assertEqual(run("sign", self.folder, "--key", self.key, *SAID), 0)
        verify = ("verify", self.folder, "--key", self.public)
        self.assertEqual(run(*verify), 0)
        (self.folder / "more").write_text("more")
        self.assertEqual(run(*verify), 1)
        self.assertEqual(run(*verify, "--kye"), 2)

    def test_what_was_signed_is_verified(self):
        told = self.sign()
        self.assertIn(f"parplan-server@sha256:{self.digest}", told)
        done = self.verify("--builder", BUILDER, "--commit", COMMIT)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("4 files", done.stdout)
        # Again, over what was signed before.
        self.sign()
        self.assertEqual(self.verify().returncode, 0)

    def test_the_statement_is_one_of_in_toto_with_provenance_of_slsa(self):
        self.sign("--days", "7")
        envelope = json.loads(self.statement.read_text())
        self.assertEqual(envelope["payloadType"], "application/vnd.in-toto+json")
        value = json.loads(base64.b64decode(envelope["payload"]))
        self.assertEqual(value["_type"], "https://in-toto.io/Statement/v1")
        self.assertEqual(value["predicateType"], "https://slsa.dev/provenance/v1")
        self.assertEqual({one["name"]: one["digest"]["sha256"] for one in value["subject"]}, {
            **{path.name: hashlib.sha256(path.read_bytes()).hexdigest()
               for path in self.folder.iterdir()
               if path.name not in ("provenance.dsse.json", "SHA256SUMS")},
            "parplan-server@oci": self.digest})
        build, details = (value["predicate"][name] for name in ("buildDefinition", "runDetails"))
        self.assertEqual(details["builder"], {"id": BUILDER})
        self.assertEqual(build["externalParameters"]["command"],
                         "./parplan-dev package && deploy/images/build.sh --archive")
        origin, *materials = build["resolvedDependencies"]
        self.assertEqual(origin["digest"], {"gitCommit": COMMIT})
        # Packages of which the version is not known, and our own, are no materials.
        self.assertEqual(materials, [{"uri": "pkg:deb/debian/libssl3@3.0.19-1?arch=amd64"}])
        made, end = (datetime.datetime.fromisoformat(details["metadata"][name][:-1])
                     for name in ("finishedOn", "parplan_expiresOn"))
        self.assertEqual(end - made, datetime.timedelta(days=7))

    def test_the_sums_are_those_of_sha256sum(self):
        self.sign()
        done = subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=self.folder,
                              capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout.count(": OK")), (0, 4))

    def test_images_are_verified_by_their_digests(self):
        self.sign()
        for image in (f"parplan-server@sha256:{self.digest}",
                      f"registry.example.org/parplan/parplan-server@sha256:{self.digest}"):
            done = self.run_program("verify-image", image, self.statement, "--key", self.public)
            self.assertEqual(done.returncode, 0, done.stderr)
        for words, image in (
                ("was not signed", f"parplan-server@sha256:{'0' * 64}"),
                ("was not signed", f"parplan-agent@sha256:{self.digest}"),
                ("no image by digest", "parplan-server:0.1.0"),
                ("no image by digest", f"parplan-server@sha256:{self.digest[:-1]}")):
            self.refused(words, self.run_program("verify-image", image, self.statement, "--key",
                                                 self.public))
        # A digest of a file is none of an image.
        deb = self.folder / "parplan-server_0.1.0-1_amd64.deb"
        self.refused("no image by digest", self.run_program(
            "verify-image", f"{deb.name}@oci@sha256:{self.digest}", self.statement, "--key",
            self.public))

    def test_the_page_verifies_with_openssl_and_jq_alone(self):
        if not shutil.which("jq"):
            self.skipTest("there is no jq here")
        script = script_of_the_page("openssl pkeyutl -verify")
        self.sign()

        def run():
            shutil.copy(self.public, self.folder.parent / "release.pub.pem")
            return subprocess.run(["bash", "-euo", "pipefail", "-c", script], cwd=self.folder.parent,
                                  capture_output=True, text=True, check=False)

        done = run()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count(": OK"), 4)
        flip(self.folder / "parplan-server.tar", 1000)
        self.assertNotEqual(run().returncode, 0)
        flip(self.folder / "parplan-server.tar", 1000)
        self.assertEqual(run().returncode, 0)
        flip(self.statement, 8 * 100)
        self.assertNotEqual(run().returncode, 0)

    def test_the_page_makes_keys_that_sign(self):
        script = script_of_the_page("openssl genpkey")
        place = self.folder.parent
        subprocess.run(["bash", "-euo", "pipefail", "-c", script], cwd=place, check=True,
                       capture_output=True)
        self.assertEqual((place / "release.key.pem").stat().st_mode & 0o077, 0)
        done = self.run_program("sign", self.folder, "--key", place / "release.key.pem", *SAID)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.verify(key=place / "release.pub.pem").returncode, 0)


class Refused(Case):
    def test_one_bit_of_a_file_is_enough(self):
        self.sign()
        for path in sorted(self.folder.iterdir()):
            if path == self.statement:
                continue
            bits = path.stat().st_size * 8
            for bit in (0, bits // 3, bits // 2, bits - 1):
                with self.subTest(path=path.name, bit=bit):
                    flip(path, bit)
                    self.assertEqual(self.verify().returncode, 1)
                    flip(path, bit)
        self.assertEqual(self.verify().returncode, 0)

    def test_one_bit_of_the_envelope_is_enough(self):
        self.sign()
        data = self.statement.read_bytes()
        refused = 0
        # Every bit of the beginning; of the payload, and of the key's name and the signature behind
        # it, bits in turn.
        bits = [*range(8 * 20), *range(8 * 20, 8 * (len(data) - 300), 16 * 8 + 1),
                *range(8 * (len(data) - 300), 8 * len(data), 9)]
        for bit in bits:
            changed = bytearray(data)
            changed[bit // 8] ^= 1 << bit % 8
            try:
                text = changed.decode()
            except UnicodeDecodeError:
                refused += 1
                continue
            with self.assertRaises(self.dsse.Refused, msg=f"bit {bit}"):
                self.dsse.open_sealed(text, self.public)
            refused += 1
        self.assertEqual(refused, len(bits))
        self.assertGreater(refused, 500)
        self.dsse.open_sealed(data.decode(), self.public)

    def test_missing_and_extra_files(self):
        self.sign()
        deb = self.folder / "parplan-server_0.1.0-1_amd64.deb"
        data = deb.read_bytes()
        deb.unlink()
        self.refused("was signed and is not there", self.verify())
        deb.write_bytes(data)
        for name in ("more.deb", ".hidden", "SHA256SUMS.old"):
            (self.folder / name).write_text("more")
            self.refused("was not signed", self.verify())
            (self.folder / name).unlink()
        (self.folder / "folder").mkdir()
        self.refused("no regular file", self.verify())
        (self.folder / "folder").rmdir()
        deb.rename(self.folder.parent / "elsewhere")
        deb.symlink_to(self.folder.parent / "elsewhere")
        self.refused("no regular file", self.verify())
        deb.unlink()
        deb.write_bytes(data)
        self.assertEqual(self.verify().returncode, 0)
        (self.folder / "SHA256SUMS").unlink()
        self.refused("SHA256SUMS", self.verify())
        self.sign()
        self.statement.unlink()
        self.refused("there is no provenance.dsse.json", self.verify())

    def test_two_files_that_changed_places(self):
        self.sign()
        one, two = (self.folder / name for name in ("parplan-server.spdx.json",
                                                    "parplan-server_0.1.0-1_amd64.spdx.json"))
        data = one.read_bytes()
        one.write_bytes(two.read_bytes())
        two.write_bytes(data)
        self.refused("is not the file that was signed", self.verify())

    def test_other_keys(self):
        self.sign()
        self.refused("signed by the key", self.verify(key=self.other_public))
        # One that a stranger signed, with the operator's name for the key.
        value = self.opened()
        text = self.dsse.seal(value, self.other_key)
        self.statement.write_text(text)
        self.refused("signed by the key", self.verify())
        mine, theirs = (self.dsse.key_id(self.dsse.public_key(key))
                        for key in (self.public, self.other_public))
        self.statement.write_text(text.replace(theirs, mine))
        self.refused("the signature is not good", self.verify())
        _, rsa = make_key(self.keys, "rsa", "RSA")
        _, x25519 = make_key(self.keys, "x25519", "X25519")
        _, curve = make_key(self.keys, "curve", "EC", "-pkeyopt", "ec_paramgen_curve:P-256")
        for key in (rsa, x25519, curve):
            self.refused("is no Ed25519 key", self.verify(key=key))
        self.refused("is no public key", self.verify(key=self.key))
        self.refused("is no public key", self.verify(key=self.folder / "nothing.pem"))

    def test_envelopes_of_other_shapes(self):
        self.sign()
        good = self.statement.read_text()
        envelope = json.loads(good)
        payload, (signed,) = envelope["payload"], envelope["signatures"]
        for text in ("", "{}", "[]", "null", good + " ", good.replace("\n", "\r\n"),
                     json.dumps(envelope), good.replace("{", '{"x": 1,', 1),
                     good.replace("{", f'{{"payload": "{payload}",', 1),
                     json.dumps({**envelope, "signatures": []}, indent=1) + "\n",
                     json.dumps({**envelope, "signatures": [signed, signed]}, indent=1) + "\n",
                     json.dumps({**envelope, "payloadType": "text/plain"}, indent=1) + "\n",
                     "[" * 5000):
            with self.subTest(text=text[:40]):
                self.statement.write_text(text)
                self.refused("", self.verify())
        self.statement.write_bytes(b"\xff" + good.encode())
        self.refused("is no text", self.verify())

    def test_statements_that_expired_or_come_from_the_future(self):
        self.sign("--days", "1")
        value = self.opened()
        moment = self.provenance.parse_stamp(
            value["predicate"]["runDetails"]["metadata"]["parplan_expiresOn"])
        second, minute = datetime.timedelta(seconds=1), datetime.timedelta(minutes=1)
        self.provenance.check_terms(value, moment - second)
        with self.assertRaisesRegex(self.dsse.Refused, "has expired"):
            self.provenance.check_terms(value, moment)
        made = moment - datetime.timedelta(days=1)
        self.provenance.check_terms(value, made - 10 * minute)
        with self.assertRaisesRegex(self.dsse.Refused, "of the future"):
            self.provenance.check_terms(value, made - 11 * minute)
        metadata = {"finishedOn": "2020-01-01T00:00:00Z",
                    "parplan_expiresOn": "2021-01-01T00:00:00Z"}
        self.reseal(lambda v: v["predicate"]["runDetails"].update(metadata=metadata))
        self.refused("has expired: 2021-01-01T00:00:00Z", self.verify())
        for change in ({"parplan_expiresOn": "9999-01-01T00:00:00Z"}, {"parplan_expiresOn": None},
                       {"finishedOn": "now"}):
            self.reseal(lambda v, change=change: v["predicate"]["runDetails"]["metadata"].update(
                change))
            self.refused("", self.verify())
        self.reseal(lambda v: v["predicate"]["runDetails"].pop("metadata"))
        self.refused("no provenance", self.verify())

    def test_statements_about_something_else(self):
        for words, change in (
                ("another type", lambda v: v.update(_type="https://in-toto.io/Statement/v0.1")),
                ("another type", lambda v: v.update(predicateType="https://spdx.dev/Document")),
                ("another build", lambda v: v["predicate"]["buildDefinition"].update(
                    buildType="https://example.org")),
                ("not files of a release", lambda v: v["subject"].append(v["subject"][0])),
                ("not files of a release", lambda v: v["subject"][0].update(name="../x")),
                ("not files of a release", lambda v: v.update(subject=[])),
                ("no statement", lambda v: v["subject"][0]["digest"].pop("sha256")),
                ("the images in the archives", lambda v: v["subject"].pop(next(
                    number for number, one in enumerate(v["subject"]) if "@" in one["name"]))),
                ("is not the file", lambda v: v["subject"][-1]["digest"].update(
                    sha256="0" * 64))):
            with self.subTest(words=words):
                self.sign()
                self.reseal(change)
                self.refused(words, self.verify())

    def test_other_builders_and_commits(self):
        self.sign()
        self.refused("built by", self.verify("--builder", "https://elsewhere.example.org"))
        self.refused("built from", self.verify("--commit", COMMIT[::-1]))

    def test_archives_whose_images_are_not_whole(self):
        path = self.folder / "parplan-server.tar"

        def change(files):
            name = next(name for name, data in files.items() if data == b"program")
            files[name] = b"malware"

        for break_it in (change, lambda files: files.pop("index.json"),
                         lambda files: files.update({"index.json": b'{"manifests": []}'})):
            write_image(path, break_it=break_it)
            self.refused("no archive of one OCI image", self.run_program(
                "sign", self.folder, "--key", self.key, *SAID))
        path.write_bytes(b"no tar")
        self.refused("no archive of one OCI image", self.run_program(
            "sign", self.folder, "--key", self.key, *SAID))

    def test_what_cannot_be_signed(self):
        good = ["--key", self.key, *SAID]
        for words, more in (("full id of a commit", ["--commit", "main"]),
                            ("builder must be a URI", ["--builder", "me"]),
                            ("holds for 1 to", ["--days", "0"]),
                            ("holds for 1 to", ["--days", "100000"]),
                            ("no private key", ["--key", self.public]),
                            ("is no Ed25519 key", ["--key", make_key(self.keys, "r", "RSA")[0]])):
            self.refused(words, self.run_program("sign", self.folder, *good, *more))
        shutil.copy(self.key, self.folder / "key.pem")
        self.refused("is to be given away", self.run_program(
            "sign", self.folder, *good, "--key", self.folder / "key.pem"))
        (self.folder / "key.pem").unlink()
        self.assertFalse(self.statement.exists())
        bill = self.folder / "parplan-server_0.1.0-1_amd64.spdx.json"
        for words, text in (("is of another", bill.read_text().replace('"checksumValue": "',
                                                                       '"checksumValue": "0')),
                            ("is no bill of materials", "[]"), ("is no bill of materials", "{")):
            old = bill.read_text()
            bill.write_text(text)
            self.refused(words, self.run_program("sign", self.folder, *good))
            bill.write_text(old)
        image = self.folder / "parplan-server.tar"
        write_image(image, layer_with(b'{"packages": [{}]}'))
        self.refused("is not the one in the image", self.run_program("sign", self.folder, *good))
        write_image(image, layer_with(b'{"packages": []}'))
        self.sign()
        self.statement.unlink()
        for name in (bill.name, "parplan-server.spdx.json"):
            (self.folder / name).rename(self.folder.parent / name)
            self.refused("has no bill of materials", self.run_program("sign", self.folder, *good))
            (self.folder.parent / name).rename(self.folder / name)
        (self.folder / "a name").write_text("x")
        self.refused("is no name", self.run_program("sign", self.folder, *good))
        empty = self.folder.parent / "empty"
        empty.mkdir()
        self.refused("has no files", self.run_program("sign", empty, *good))

    def test_a_checkout_with_changes_is_no_commit(self):
        checkout = self.folder.parent / "checkout"

        def git(*arguments):
            return subprocess.run(
                ["git", "-C", checkout, "-c", "user.name=a", "-c", "user.email=a@example.org",
                 *arguments], check=True, capture_output=True, text=True).stdout.strip()

        checkout.mkdir()
        git("init", "-q")
        (checkout / "file").write_text("one")
        git("add", "file")
        git("commit", "-q", "-m", "one")
        self.assertEqual(self.release.commit_of(checkout), git("rev-parse", "HEAD"))
        (checkout / "file").write_text("two")
        with self.assertRaisesRegex(self.dsse.Refused, "in no commit"):
            self.release.commit_of(checkout)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", type=pathlib.Path, required=True)
    _, rest = parser.parse_known_args(namespace=FLAGS)
    FLAGS.source = FLAGS.source.resolve()
    if shutil.which("openssl") is None:
        print("skipped: there is no openssl")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
