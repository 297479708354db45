"""Statements of in-toto (v1) with provenance of SLSA (v1.0) about the files of a release: what they
are, what they were built from, by whom and how, and until when that may be relied on."""
import datetime
import hashlib
import io
import json
import re
import tarfile

from dsse import Refused

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://slsa.dev/provenance/v1"
BUILD_TYPE = "https://parplan.example.org/build/release/v1"
# A member of ours, named as SLSA asks (`<vendor>_<member>`): in-toto has no end of validity.
EXPIRES = "parplan_expiresOn"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+~:@-]{0,199}")
SHA256 = re.compile(r"[0-9a-f]{64}")
COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
LONGEST = datetime.timedelta(days=3 * 366)
# Clocks of two machines may differ by so much.
CLOCK_SKEW = datetime.timedelta(minutes=10)


def stamp(moment):
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_stamp(text):
    return datetime.datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(
        tzinfo=datetime.timezone.utc)


def file_digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def bill_in(layer):
    """The bill of materials in a layer of an image, or None."""
    try:
        with tarfile.open(fileobj=io.BytesIO(layer)) as files:
            return files.extractfile(BILL_IN_IMAGE).read()
    except (tarfile.TarError, KeyError, EOFError):
        return None


def open_image(path):
    """The digest by which a registry knows the image of an OCI archive, and its layers. Looks whether
    the archive has the manifest of this digest, and all that the manifest names."""
    try:
        with tarfile.open(path, "r:") as archive:
            def read(name):
                return archive.extractfile(name).read()

            def blob(descriptor):
                digest = descriptor["digest"].removeprefix("sha256:")
                if not SHA256.fullmatch(digest):
                    raise ValueError(f"{descriptor['digest']} is no SHA-256")
                data = read(f"blobs/sha256/{digest}")
                if hashlib.sha256(data).hexdigest() != digest or len(data) != descriptor["size"]:
                    raise ValueError(f"a blob is not {descriptor['digest']}")
                return data

            (entry,) = json.loads(read("index.json"))["manifests"]
            manifest = json.loads(blob(entry))
            blob(manifest["config"])
            return entry["digest"].removeprefix("sha256:"), list(map(blob, manifest["layers"]))
    except (tarfile.TarError, KeyError, ValueError, TypeError, AttributeError) as error:
        raise Refused(f"{path.name} is no archive of one OCI image: {error}") from error


def subjects_of(files):
    """Names and digests of files, and of the images in them (`parplan-server@oci` for
    parplan-server.tar)."""
    subjects = {}
    for path in files:
        if not NAME.fullmatch(path.name) or "@" in path.name:
            raise Refused(f"`{path.name}` is no name for a file of a release")
        subjects[path.name] = file_digest(path)
        if path.suffix == ".tar":
            subjects[f"{path.stem}@oci"], _ = open_image(path)
    return subjects


BILL = ".spdx.json"
BILL_IN_IMAGE = "usr/share/doc/parplan/sbom.spdx.json"


def materials_of(files):
    """Packages of the distribution that the bills of materials among files name. Refuses a package
    or an image without its bill, and a bill of another package."""
    found, digests = set(), {}
    for path in files:
        if not path.name.endswith(BILL):
            continue
        try:
            packages = json.loads(path.read_text(encoding="utf-8"))["packages"]
            for package in packages:
                found |= {one["referenceLocator"] for one in package["externalRefs"]
                          if re.match(r"pkg:deb/(?!parplan/)[^@]+@", one["referenceLocator"])}
            digests[path.name.removesuffix(BILL)] = {
                one["checksumValue"] for package in packages
                for one in package.get("checksums", ())}
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise Refused(f"{path.name} is no bill of materials: {error!r}") from error
    for path in files:
        if path.suffix in (".deb", ".tar") and path.stem not in digests:
            raise Refused(f"{path.name} has no bill of materials: {path.stem}{BILL}")
        if path.suffix == ".deb" and file_digest(path) not in digests[path.stem]:
            raise Refused(f"{path.stem}{BILL} is of another {path.name}")
        if path.suffix == ".tar":
            beside = path.with_name(f"{path.stem}{BILL}").read_bytes()
            bills = set(map(bill_in, open_image(path)[1])) - {None}
            if bills and bills != {beside}:
                raise Refused(f"{path.stem}{BILL} is not the one in the image")
    return sorted(found)


def command_of(files):
    """How the files are made (docs/releases.md)."""
    commands = {".deb": "./parplan-dev package", ".tar": "deploy/images/build.sh --archive"}
    return " && ".join(command for suffix, command in commands.items()
                       if any(path.suffix == suffix for path in files)) or "unknown"


def statement(subjects, *, builder, source, commit, command, materials, now, life,
              source_date_epoch=None):
    if not COMMIT.fullmatch(commit):
        raise Refused(f"`{commit}` is no full id of a commit")
    for what, uri in (("builder", builder), ("source", source)):
        if not re.fullmatch(r"[a-z][a-z0-9+.-]*:\S+", uri):
            raise Refused(f"the {what} must be a URI and is `{uri}`")
    if not datetime.timedelta() < life <= LONGEST:
        raise Refused(f"a statement holds for 1 to {LONGEST.days} days")
    origin = {"uri": source, "digest": {"gitCommit": commit}}
    return {
        "_type": STATEMENT,
        "subject": [{"name": name, "digest": {"sha256": digest}}
                    for name, digest in sorted(subjects.items())],
        "predicateType": PREDICATE,
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {"source": origin, "command": command},
                "internalParameters": {"sourceDateEpoch": source_date_epoch},
                "resolvedDependencies": [origin, *({"uri": uri} for uri in materials)]},
            "runDetails": {
                "builder": {"id": builder},
                "metadata": {"finishedOn": stamp(now), EXPIRES: stamp(now + life)}}}}


def subjects_in(value):
    """Digests by name of a statement; refuses what is no statement of a release."""
    try:
        if value["_type"] != STATEMENT or value["predicateType"] != PREDICATE:
            raise Refused("a statement of another type")
        if value["predicate"]["buildDefinition"]["buildType"] != BUILD_TYPE:
            raise Refused("the provenance of another build")
        pairs = [(one["name"], one["digest"]["sha256"]) for one in value["subject"]]
        subjects = dict(pairs)
        if not pairs or len(subjects) != len(pairs) or not all(
                NAME.fullmatch(name) and SHA256.fullmatch(digest) for name, digest in pairs):
            raise Refused("the subjects of the statement are not files of a release")
        return subjects
    except (KeyError, TypeError, ValueError) as error:
        raise Refused(f"no statement about a release: {error!r}") from error


def check_terms(value, now, builder=None, commit=None):
    """Refuses a statement that has expired, and one of another builder or commit than was asked."""
    try:
        predicate = value["predicate"]
        metadata = predicate["runDetails"]["metadata"]
        made, end = parse_stamp(metadata["finishedOn"]), parse_stamp(metadata[EXPIRES])
        found = predicate["runDetails"]["builder"]["id"]
        source = predicate["buildDefinition"]["externalParameters"]["source"]["digest"]["gitCommit"]
    except (KeyError, TypeError, ValueError) as error:
        raise Refused(f"no provenance of a release: {error!r}") from error
    if made > now + CLOCK_SKEW:
        raise Refused(f"the statement is of the future: {stamp(made)}")
    if end <= now or end - made > LONGEST:
        raise Refused(f"the statement has expired: {stamp(end)}")
    if builder is not None and found != builder:
        raise Refused(f"built by {found} and not by {builder}")
    if commit is not None and source != commit:
        raise Refused(f"built from {source} and not from {commit}")
