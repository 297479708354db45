"""Checks a document of SPDX 2.3 against the rules of its format and against what is there: files and
their digests, and the libraries that the loader finds for programs. Shares with what wrote it only
the look-up of packages."""
import hashlib
import json
import pathlib
import re
import tempfile

import debian
import links

ID = re.compile(r"SPDXRef-[A-Za-z0-9.-]+")
# The path of the document in an image.
IN_IMAGE = "usr/share/doc/parplan/sbom.spdx.json"
HEX = {"SHA1": 40, "SHA256": 64}
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
ABSOLUTE_PATH = re.compile(r'"/')
KINDS = {"DESCRIBES", "CONTAINS", "DYNAMIC_LINK", "STATIC_LINK", "DEPENDS_ON",
         "BUILD_DEPENDENCY_OF", "EXPANDED_FROM_ARCHIVE", "GENERATED_FROM"}
OPERATORS = {"AND", "OR", "WITH"}
PURPOSES = {"INSTALL", "CONTAINER", "LIBRARY", "OTHER", None}


def _strings(value, fields, where):
    for field in fields:
        if not isinstance(value.get(field), str) or not value[field]:
            yield f"{where}: no {field}"


def _checksums(element, needed, where):
    found = {one.get("algorithm"): one.get("checksumValue", "")
             for one in element.get("checksums", ())}
    for algorithm in needed:
        if not re.fullmatch(r"[0-9a-f]{%d}" % HEX[algorithm], found.get(algorithm, "")):
            yield f"{where}: no {algorithm}"


def _licence(expression, known, where):
    for word in re.findall(r"[^\s()]+", expression):
        if word.startswith("LicenseRef-") and word not in known:
            yield f"{where}: {word} is not in hasExtractedLicensingInfos"
        elif word not in OPERATORS and not re.fullmatch(r"[A-Za-z0-9.+-]+", word):
            yield f"{where}: `{word}` is no licence"


def _package(package, known, where):
    yield from _strings(package, ("SPDXID", "name", "versionInfo", "supplier", "downloadLocation",
                                  "licenseConcluded", "licenseDeclared", "copyrightText"), where)
    if not re.match(r"(Organization|Person): .", package.get("supplier", "")):
        yield f"{where}: supplier"
    if package.get("primaryPackagePurpose") not in PURPOSES:
        yield f"{where}: primaryPackagePurpose"
    yield from _licence(package.get("licenseDeclared", ""), known, where)
    purls = [one.get("referenceLocator", "") for one in package.get("externalRefs", ())
             if one.get("referenceType") == "purl"
             and one.get("referenceCategory") == "PACKAGE-MANAGER"]
    if len(purls) != 1 or not re.fullmatch(r"pkg:(deb/[a-z]+|oci)/[^/\s@?]+(@[^\s@?]+)?(\?\S+)?",
                                           purls[0]):
        yield f"{where}: one purl"
    elif purls[0].startswith("pkg:deb/") and package.get("versionInfo") != "NOASSERTION":
        name, shown = package.get("name", ""), package.get("versionInfo", "")
        vendor = purls[0].split("/")[1]
        if not purls[0].startswith(debian.purl(vendor, name, shown)):
            yield f"{where}: the purl is of something else"


def structure(document):
    """What is against the format."""
    yield from _strings(document, ("name", "documentNamespace"), "document")
    for field, value in (("spdxVersion", "SPDX-2.3"), ("dataLicense", "CC0-1.0"),
                         ("SPDXID", "SPDXRef-DOCUMENT")):
        if document.get(field) != value:
            yield f"document: {field}"
    creation = document.get("creationInfo", {})
    if not TIME.fullmatch(creation.get("created", "")) or not creation.get("creators") or \
            any(not re.match(r"(Tool|Organization|Person): .", one)
                for one in creation["creators"]):
        yield "document: creationInfo"
    if not re.match(r"[a-z]+:[^#\s]+$", document.get("documentNamespace", "")):
        yield "document: documentNamespace is no URI"
    known = {one.get("licenseId") for one in document.get("hasExtractedLicensingInfos", ())
             if one.get("extractedText")}
    elements = ["SPDXRef-DOCUMENT"]
    for package in document.get("packages", ()):
        where = package.get("name", "a package")
        elements.append(package.get("SPDXID", ""))
        yield from _package(package, known, where)
    for file in document.get("files", ()):
        where = file.get("fileName", "a file")
        elements.append(file.get("SPDXID", ""))
        yield from _strings(file, ("SPDXID", "fileName", "licenseConcluded"), where)
        yield from _checksums(file, ("SHA1", "SHA256"), where)
        if not where.startswith("./") or ".." in where.split("/"):
            yield f"{where}: the path is not relative to the package"
    for element in elements:
        if not ID.fullmatch(element) or elements.count(element) > 1:
            yield f"{element}: the SPDX id is wrong or there twice"
    for relation in document.get("relationships", ()):
        ends = relation.get("spdxElementId"), relation.get("relatedSpdxElement")
        if relation.get("relationshipType") not in KINDS or not set(ends) <= set(elements):
            yield f"relationship {ends}: {relation.get('relationshipType')}"
    if ABSOLUTE_PATH.search(json.dumps([document.get(field) for field in (
            "name", "creationInfo", "files", "relationships")])):
        yield "document: a path of one machine"


class Claims:
    """What a document says, looked up by name."""

    def __init__(self, document):
        self.packages = {one["SPDXID"]: one for one in document["packages"]}
        self.files = {one["fileName"][2:]: one for one in document["files"]}
        self.relations = [(one["spdxElementId"], one["relationshipType"],
                           one["relatedSpdxElement"])
                          for one in document["relationships"]]
        mains = [other for one, kind, other in self.relations
                 if (one, kind) == ("SPDXRef-DOCUMENT", "DESCRIBES")]
        self.main = self.packages[mains[0]] if len(mains) == 1 else None

    def related(self, element, kind):
        """Names of packages that an element has a relation to."""
        return {self.packages[other]["name"] for one, what, other in self.relations
                if (one, what) == (element, kind) and other in self.packages}

    def reached(self, element):
        """(name of a library, package, version) of all that a program is linked with."""
        found, seen, left = set(), {element}, [(element, "DYNAMIC_LINK")]
        while left:
            here, wanted = left.pop()
            for one, kind, other in self.relations:
                if (one, kind) == (here, wanted) and other in self.packages and other not in seen:
                    seen.add(other)
                    left.append((other, "DEPENDS_ON"))
                    package = self.packages[other]
                    kind_of_comment, _, names = package.get("comment", "").partition(": ")
                    if kind_of_comment == "libraries":
                        found |= {(name, package["name"], package["versionInfo"])
                                  for name in names.split()}
        return found


def _files(claims, root):
    there = {str(path.relative_to(root)): path for path in sorted(root.rglob("*"))
             if path.is_file() and not path.is_symlink()}
    there.pop(IN_IMAGE, None)  # It can't have its own digest.
    for name in sorted(set(there) - set(claims.files)):
        yield f"{name} is not in the document"
    for name in sorted(set(claims.files) - set(there)):
        yield f"{name} is in the document and not there"
    sha1s = []
    for name in sorted(set(there) & set(claims.files)):
        data = there[name].read_bytes()
        sha1s.append(hashlib.sha1(data).hexdigest())
        for one in claims.files[name]["checksums"]:
            if hashlib.new(one["algorithm"], data).hexdigest() != one["checksumValue"]:
                yield f"{name} has another {one['algorithm']}"
    code = hashlib.sha1("".join(sorted(sha1s)).encode()).hexdigest()
    if claims.main.get("packageVerificationCode") != {"packageVerificationCodeValue": code}:
        yield "packageVerificationCode is of other files"
    contained = {other for one, kind, other in claims.relations
                 if (one, kind) == (claims.main["SPDXID"], "CONTAINS")}
    for name, file in claims.files.items():
        if file["SPDXID"] not in contained:
            yield f"{name} is contained by nothing"


def _libraries(claims, root, is_image, folder):
    programs = [name for name in claims.files
                if (root / name).is_file() and links.is_elf(root / name)]
    for name in programs:
        if is_image and not name.startswith("usr/bin/"):
            continue
        element = claims.files[name]["SPDXID"]
        reached = claims.reached(element)
        said = {word for word, _, _ in reached}
        loaded = links.loaded(root / name)
        debian.owners_of(loaded.values())
        for library, path in sorted(loaded.items()):
            package = debian.owner_of(path)
            known = (library, package, debian.facts_of(package)["version"]) if package else None
            if is_image and library not in said:
                # A library that a stand-in of ours replaces brings no others along.
                if not any((root / place / library).is_file() for place in (
                        "usr/lib", "usr/lib64", "usr/lib/x86_64-linux-gnu")) or \
                        library.startswith("libldap-"):
                    continue
            if known not in reached:
                yield f"{name} is linked with {library} of {known and known[1:]}, unsaid"
        for package in set(links.compiled_in(root / name, folder)) - \
                claims.related(element, "STATIC_LINK"):
            yield f"{name} has {package} compiled in, unsaid"


def _copies(claims):
    """Libraries in an image come from packages; only a stand-in does not."""
    for name, file in claims.files.items():
        if re.search(r"\.so(\.|$)", name) and "libldap-" not in name and \
                not claims.related(file["SPDXID"], "EXPANDED_FROM_ARCHIVE"):
            yield f"{name} comes from no package"


def check(document, root, deb_digest=None, is_image=False, folder=None):
    """All that is wrong, a line each. `root` has the files of the package or image."""
    wrong = list(structure(document))
    if wrong:
        return wrong
    claims = Claims(document)
    if claims.main is None:
        return ["the document does not say what it describes"]
    wrong += _files(claims, root)
    wrong += _libraries(claims, root, is_image, folder)
    if is_image:
        wrong += _copies(claims)
    if deb_digest and {"algorithm": "SHA256", "checksumValue": deb_digest} not in \
            claims.main.get("checksums", ()):
        wrong.append("the package has another SHA256")
    return wrong


def check_file(path, deb=None, root=None, folder=None):
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        return [f"no JSON: {error}"]
    if root is not None:
        wrong = check(document, root, is_image=True, folder=folder)
        if (root / IN_IMAGE).is_file() and (root / IN_IMAGE).read_bytes() != path.read_bytes():
            wrong.append(f"{IN_IMAGE} is another document")
        return wrong
    if deb is None:
        return list(structure(document))
    with tempfile.TemporaryDirectory() as place:
        debian.run("dpkg-deb", "--extract", deb, place)
        digest = hashlib.sha256(deb.read_bytes()).hexdigest()
        return check(document, pathlib.Path(place), digest, folder=folder)
