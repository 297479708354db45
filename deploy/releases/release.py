#!/usr/bin/python3
"""Signs the files of a release with an operator's Ed25519 key, and verifies them.

    release.py sign FOLDER --key KEY.pem --builder URI --source URI [--commit ID] [--days N]
        writes FOLDER/SHA256SUMS and FOLDER/provenance.dsse.json about all other files in FOLDER
    release.py verify FOLDER --key PUBLIC.pem [--builder URI] [--commit ID]
        succeeds if FOLDER holds exactly the files that were signed
    release.py verify-image NAME@sha256:DIGEST STATEMENT --key PUBLIC.pem
        succeeds if the image of this digest was signed; looks at no registry

docs/releases.md has how to make the keys, and the same by openssl and jq alone. Exit codes: 0, 1 if
something is refused, 2 for a wrong command line.
"""
import argparse
import datetime
import os
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import dsse
import provenance
from dsse import Refused

STATEMENT = "provenance.dsse.json"
SUMS = "SHA256SUMS"


def now():
    return datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0)


def files_of(folder):
    """The files of a release, in order; refuses what is no regular file."""
    if not folder.is_dir():
        raise Refused(f"{folder} is no folder")
    paths = sorted(folder.iterdir(), key=lambda path: path.name)
    for path in paths:
        if path.is_symlink() or not path.is_file():
            raise Refused(f"{path.name} is no regular file; a release is a folder of files only")
    files = [path for path in paths if path.name not in (STATEMENT, SUMS)]
    if not files:
        raise Refused(f"{folder} has no files")
    return files


def sums(subjects):
    return "".join(f"{digest}  {name}\n" for name, digest in sorted(subjects.items())
                   if "@" not in name)


def git(source, *arguments):
    done = subprocess.run(["git", "-C", source, *arguments], capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        raise Refused(f"no commit: {done.stderr.strip()}; give it with --commit")
    return done.stdout.strip()


def commit_of(source):
    """The commit that is checked out, if nothing was changed since."""
    changed = git(source, "status", "--porcelain")
    if changed:
        raise Refused(f"{source} has changes that are in no commit, such as "
                      f"`{changed.splitlines()[0]}`; build a release from a commit")
    return git(source, "rev-parse", "HEAD")


def write(path, text):
    """Replaces a file at once, so that no half of one is ever there."""
    new = path.with_name(f".{path.name}.new")
    new.write_text(text, encoding="utf-8")
    os.replace(new, path)


def sign(flags):
    files = files_of(flags.folder)
    if flags.folder.resolve() in flags.key.resolve().parents:
        raise Refused(f"the private key is in {flags.folder}, which is to be given away")
    subjects = provenance.subjects_of(files)
    source = pathlib.Path(__file__).resolve().parents[2]
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    value = provenance.statement(
        subjects, builder=flags.builder, source=flags.source,
        commit=flags.commit or commit_of(source),
        command=flags.command_line or provenance.command_of(files), materials=provenance.materials_of(files), now=now(),
        life=datetime.timedelta(days=flags.days), source_date_epoch=epoch)
    text = dsse.seal(value, flags.key)
    write(flags.folder / SUMS, sums(subjects))
    write(flags.folder / STATEMENT, text)
    print(f"signed {len(files)} files of {flags.folder} with the key "
          f"{dsse.key_id(dsse.public_key(flags.key, is_private=True))}")
    for name, digest in sorted(subjects.items()):
        if name.endswith("@oci"):
            print(f"{name.removesuffix('@oci')}@sha256:{digest}")


def read(path):
    if not path.is_file() or path.is_symlink():
        raise Refused(f"there is no {path.name}")
    try:
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise Refused(f"{path.name} is no text") from error


def verified(path, flags):
    """The digests by name of a statement that holds."""
    value = dsse.open_sealed(read(path), flags.key)
    subjects = provenance.subjects_in(value)
    provenance.check_terms(value, now(), flags.builder, flags.commit)
    return subjects


def verify(flags):
    subjects = verified(flags.folder / STATEMENT, flags)
    files = files_of(flags.folder)
    there = {path.name for path in files}
    signed = {name for name in subjects if "@" not in name}
    for name in sorted(signed - there):
        raise Refused(f"{name} was signed and is not there")
    for name in sorted(there - signed):
        raise Refused(f"{name} is there and was not signed")
    for path in files:
        if provenance.file_digest(path) != subjects[path.name]:
            raise Refused(f"{path.name} is not the file that was signed")
    if provenance.subjects_of(files) != subjects:
        raise Refused("the images in the archives are not those that were signed")
    if read(flags.folder / SUMS) != sums(subjects):
        raise Refused(f"{SUMS} is not that of the signed files")
    print(f"{len(files)} files of {flags.folder} are as they were signed")


def verify_image(flags):
    match = re.fullmatch(r"(?:\S*/)?([A-Za-z0-9._-]+)@sha256:([0-9a-f]{64})", flags.image)
    if not match:
        raise Refused(f"`{flags.image}` is no image by digest: NAME@sha256:DIGEST")
    name, digest = match.groups()
    subjects = verified(flags.statement, flags)
    if subjects.get(f"{name}@oci") != digest:
        raise Refused(f"{flags.image} was not signed")
    print(f"{flags.image} was signed")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("sign", help="sign all files of a folder")
    one.set_defaults(run=sign)
    one.add_argument("folder", type=pathlib.Path)
    one.add_argument("--key", type=pathlib.Path, required=True, help="private key (PEM)")
    one.add_argument("--builder", required=True, help="URI of who built, such as "
                     "https://builds.example.org/parplan")
    one.add_argument("--source", required=True, help="URI of the repository, such as "
                     "git+https://git.example.org/parplan.git")
    one.add_argument("--commit", help="the commit that was built; by default the one of this "
                     "checkout, which must have no changes")
    one.add_argument("--command-line", help="how it was built, if not by ./parplan-dev package and "
                     "deploy/images/build.sh --archive")
    one.add_argument("--days", type=int, default=366, help="how long the statement holds (366)")
    one = commands.add_parser("verify", help="verify all files of a folder")
    one.set_defaults(run=verify)
    one.add_argument("folder", type=pathlib.Path)
    two = commands.add_parser("verify-image", help="verify an image by its digest")
    two.set_defaults(run=verify_image)
    two.add_argument("image", help="NAME@sha256:DIGEST; a registry before NAME does not count")
    two.add_argument("statement", type=pathlib.Path)
    for command in (one, two):
        command.add_argument("--key", type=pathlib.Path, required=True, help="public key (PEM)")
        command.add_argument("--builder", help="refuse what another has built")
        command.add_argument("--commit", help="refuse what was built from another commit")
    flags = parser.parse_args()
    try:
        flags.run(flags)
    except (Refused, OSError) as error:
        print(f"release.py: refused: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
