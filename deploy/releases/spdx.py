"""Builds documents of SPDX 2.3 (https://spdx.github.io/spdx-spec/v2.3/) in JSON. The same contents
give the same bytes: lists are sorted, and the name space comes from the contents."""
import hashlib
import json
import re
import time
import uuid

import debian

NOT_SAID = "NOASSERTION"
AUTHORS = "Organization: The parplan authors"


def digest(data, algorithm):
    return hashlib.new(algorithm, data).hexdigest()


def identity(kind, name):
    """An SPDX id of a name: other characters than letters, digits and dots as `-` and their code."""
    return f"SPDXRef-{kind}-" + re.sub(r"[^A-Za-z0-9.]", lambda found: "-" if found[0] in "-/"
                                       else f"-{ord(found[0]):02x}", name)


def verification_code(sha1s):
    """SPDX's code of a package's files (7.9)."""
    return digest("".join(sorted(sha1s)).encode(), "sha1")


class Document:
    """A document about one package of ours, which `describe` names.

        document = Document("parplan-server_0.1.0-1_amd64", 1700000000, "0.1.0")
        document.describe("parplan-server", "0.1.0-1", purl, "INSTALL")
        file = document.add_file("usr/bin/parplan-server", data)
        library = document.add_debian("libssl3", "LIBRARY")
        document.relate(file, "DYNAMIC_LINK", library)
        document.use_library(library, "libssl.so.3")
        text = document.text()
    """

    def __init__(self, name, seconds, tool_version):
        self._name = name
        self._created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
        self._tool = f"Tool: parplan-make_sbom-{tool_version}"
        self._main = None
        self._packages, self._files, self._libraries = {}, {}, {}
        self._relations = set()
        self._licences = debian.Licences()

    def describe(self, name, version, purl, purpose, file_name=None, sha256=None):
        self._main = self._add_package({
            "SPDXID": identity("Package", name), "name": name, "versionInfo": version,
            "supplier": AUTHORS, "downloadLocation": NOT_SAID, "filesAnalyzed": True,
            "licenseConcluded": NOT_SAID, "licenseDeclared": "Apache-2.0",
            "copyrightText": NOT_SAID, "primaryPackagePurpose": purpose,
            "externalRefs": [_purl_reference(purl)],
            **({"packageFileName": file_name} if file_name else {}),
            **({"checksums": [_checksum("SHA256", sha256)]} if sha256 else {})})
        self.relate("SPDXRef-DOCUMENT", "DESCRIBES", self._main)
        return self._main

    def _add_package(self, package):
        known = self._packages.setdefault(package["SPDXID"], package)
        if known["name"] != package["name"]:
            raise ValueError(f"{known['name']} and {package['name']} have one SPDX id")
        return package["SPDXID"]

    def add_file(self, path, data):
        """A file of the package, and its SPDX id."""
        file = {"SPDXID": identity("File", path), "fileName": f"./{path}",
                "checksums": [_checksum("SHA1", digest(data, "sha1")),
                              _checksum("SHA256", digest(data, "sha256"))],
                "licenseConcluded": NOT_SAID, "copyrightText": NOT_SAID}
        if data[:4] == b"\x7fELF":
            file["fileTypes"] = ["BINARY"]
        if self._files.setdefault(file["SPDXID"], file) is not file:
            raise ValueError(f"two files have the SPDX id of {path}")
        self.relate(self._main, "CONTAINS", file["SPDXID"])
        return file["SPDXID"]

    def add_debian(self, name, purpose):
        """An installed package of the distribution, and its SPDX id."""
        facts = debian.facts_of(name)
        where = f"; see {facts['homepage']}" if facts["homepage"] else ""
        return self._add_package({
            "SPDXID": identity("Package", name), "name": name, "versionInfo": facts["version"],
            "supplier": f"Organization: {debian.distribution()[2]}",
            "sourceInfo": f"source package {facts['source']}, maintained by "
                          f"{facts['maintainer']}{where}",
            "downloadLocation": NOT_SAID, "filesAnalyzed": False, "licenseConcluded": NOT_SAID,
            "licenseDeclared": self._licences.declared(name, facts["source"]),
            "licenseComments": "the licences that Debian's copyright file names for the files of the "
                               "source package",
            "copyrightText": NOT_SAID, "primaryPackagePurpose": purpose,
            "externalRefs": [_purl_reference(debian.purl_of(facts))]})

    def add_declared(self, name, words):
        """A package that a package of ours asks for when it is installed, in whatever version."""
        key = identity("Package", name)
        if key in self._packages:
            return key
        ours = name.startswith(("parplan-", "libparplan-", "python3-parplan-"))
        vendor = "parplan" if ours else debian.distribution()[0]
        return self._add_package({
            "SPDXID": key, "name": name, "downloadLocation": NOT_SAID, "filesAnalyzed": False,
            "supplier": AUTHORS if ours else f"Organization: {debian.distribution()[2]}",
            "versionInfo": NOT_SAID, "comment": f"asked for as `{words}` when it is installed",
            "licenseConcluded": NOT_SAID, "licenseDeclared": "Apache-2.0" if ours else NOT_SAID,
            "copyrightText": NOT_SAID,
            "externalRefs": [_purl_reference(debian.purl(vendor, name))]})

    def use_library(self, package, library):
        """Says that a library of a package is used."""
        self._libraries.setdefault(package, set()).add(library)

    def relate(self, one, kind, other):
        self._relations.add((one, kind, other))

    def value(self):
        main = self._packages[self._main]
        main["packageVerificationCode"] = {"packageVerificationCodeValue": verification_code(
            file["checksums"][0]["checksumValue"] for file in self._files.values())}
        relations = [{"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}
                     for one, kind, other in sorted(self._relations)]
        for package, names in self._libraries.items():
            self._packages[package]["comment"] = f"libraries: {' '.join(sorted(names))}"
        value = {
            "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
            "name": self._name, "documentNamespace": "",
            "creationInfo": {"created": self._created, "creators": [AUTHORS, self._tool]},
            "packages": [self._packages[key] for key in sorted(self._packages)],
            "files": [self._files[key] for key in sorted(self._files)],
            "relationships": relations}
        if self._licences.texts:
            value["hasExtractedLicensingInfos"] = [
                {"licenseId": key, "name": name, "extractedText": text}
                for key, (name, text) in sorted(self._licences.texts.items())]
        contents = json.dumps(value, sort_keys=True).encode()
        value["documentNamespace"] = uuid.uuid5(uuid.NAMESPACE_OID,
                                                digest(contents, "sha256")).urn
        return value

    def text(self):
        return json.dumps(self.value(), indent=1, ensure_ascii=False) + "\n"


def _checksum(algorithm, value):
    return {"algorithm": algorithm, "checksumValue": value}


def _purl_reference(purl):
    return {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
            "referenceLocator": purl}
