#!/usr/bin/python3
"""Writes bills of materials (SPDX 2.3 JSON) of Debian packages and of images, and checks them.

    make_sbom.py packages FOLDER [--bin BIN] [--build-package NAME...]
        writes FOLDER/NAME.spdx.json for each FOLDER/NAME.deb
    make_sbom.py image ROOT NAME VERSION OUT [--bin BIN] [--stand-in PATTERN]
        writes OUT for the image whose root is the folder ROOT
    make_sbom.py check DOCUMENT [--deb FILE | --root FOLDER] [--bin BIN]
        looks whether a document is whole and says what is there

Takes versions, suppliers and licences of libraries from the packages that are installed here, so run
it where the programs were built. BIN has the programs before they were stripped. SOURCE_DATE_EPOCH is
the time that documents bear (0 without it); nothing else in them depends on time or place.
"""
import argparse
import fnmatch
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import check_sbom
import debian
import links
import spdx

# Folders in which the loader finds libraries of an image.
LIBRARY_FOLDERS = ("usr/lib", "usr/lib64")


def version():
    text = (pathlib.Path(__file__).resolve().parents[2] / "CMakeLists.txt").read_text()
    return re.search(r"^project\(parplan VERSION ([\d.]+)", text, re.MULTILINE)[1]


def source_date():
    return int(os.environ.get("SOURCE_DATE_EPOCH", "0"))


def files_of(root):
    """Regular files below a folder, by path, in order."""
    return sorted((path for path in root.rglob("*") if path.is_file() and not path.is_symlink()),
                  key=lambda path: str(path.relative_to(root)))


class Graph:
    """Relations of programs and libraries, followed from the names that ELF files ask for."""

    def __init__(self, document, resolve, package_of):
        self._document, self._resolve, self._package_of = document, resolve, package_of
        self._seen = set()

    def follow(self, path, element, kind):
        """Relates an element to the packages of the libraries that a file asks for, and goes on with
        those."""
        for name in links.needed(path):
            library = self._resolve(path, name)
            package = self._package_of(library)
            if package is None:  # One of our own.
                continue
            if element != package:
                self._document.relate(element, kind, package)
            self._document.use_library(package, name)
            if name not in self._seen:
                self._seen.add(name)
                self.follow(library, package, "DEPENDS_ON")


def add_programs(document, graph, elements, folder):
    """`elements`: (path, SPDX id) of every ELF file that we built."""
    for path, element in elements:
        graph.follow(path, element, "DYNAMIC_LINK")
        for package in links.compiled_in(path, folder):
            document.relate(element, "STATIC_LINK", document.add_debian(package, "LIBRARY"))


def fields_of(deb):
    lines = debian.run("dpkg-deb", "--field", deb, "Package", "Version", "Architecture",
                       "Depends").splitlines()
    return dict(line.split(": ", 1) for line in lines if ": " in line)


def document_of_package(deb, folder, build_packages):
    fields = fields_of(deb)
    name = fields["Package"]
    document = spdx.Document(deb.stem, source_date(), version())
    main = document.describe(
        name, fields["Version"],
        debian.purl("parplan", name, fields["Version"], fields["Architecture"]), "INSTALL",
        deb.name, spdx.digest(deb.read_bytes(), "sha256"))
    with tempfile.TemporaryDirectory() as place:
        root = pathlib.Path(place)
        debian.run("dpkg-deb", "--extract", deb, root)
        elements = []
        for path in files_of(root):
            element = document.add_file(str(path.relative_to(root)), path.read_bytes())
            if links.is_elf(path):
                elements.append((path, element))
        loaded = {}

        def resolve(path, library):
            # The loader also finds for the program what its libraries ask for.
            if path in {one for one, _ in elements}:
                loaded.update(links.loaded(path))
                debian.owners_of(loaded.values())
            return loaded[library]

        def package_of(library):
            owner = debian.owner_of(library)
            if owner is None:
                raise ValueError(f"{library} is in no package of the system; install it from one")
            return document.add_debian(owner, "LIBRARY")

        add_programs(document, Graph(document, resolve, package_of), elements, folder)
    for package in build_packages:
        document.relate(document.add_debian(package, "OTHER"), "BUILD_DEPENDENCY_OF", main)
    for words in filter(None, fields.get("Depends", "").split(", ")):
        asked = re.match(r"[a-z0-9+.-]+", words)[0]
        document.relate(main, "DEPENDS_ON", document.add_declared(asked, words))
    return document


def installed_twin(root, path):
    """The file of a Debian package that a file of an image is a copy of, and the package."""
    installed = pathlib.Path(f"/{path.relative_to(root)}")
    return (installed, debian.owner_of(installed)) if installed.exists() else (None, None)


def document_of_image(root, name, tag, folder, stand_ins):
    document = spdx.Document(f"{name}-{tag}", source_date(), version())
    main = document.describe(name, tag, f"pkg:oci/{name}?tag={tag}", "CONTAINER")
    elements, packages, by_name = [], {}, {}
    debian.owners_of([f"/{path.relative_to(root)}" for path in files_of(root)
                      if links.is_elf(path)])
    for path in files_of(root):
        data = path.read_bytes()
        element = document.add_file(str(path.relative_to(root)), data)
        if path.name == "ca-certificates.crt" and data:
            package = document.add_debian("ca-certificates", "OTHER")
            document.relate(main, "CONTAINS", package)
            document.relate(element, "GENERATED_FROM", package)
        if not links.is_elf(path):
            continue
        if path.parent == root / "usr/bin":
            elements.append((path, element))
            continue
        by_name[path.name] = path
        if any(fnmatch.fnmatch(path.name, pattern) for pattern in stand_ins):
            packages[path] = None
            continue
        twin, package = installed_twin(root, path)
        if package is None or twin.read_bytes() != data:
            raise ValueError(f"{path.relative_to(root)} is no copy of a file of a Debian package")
        packages[path] = document.add_debian(package, "LIBRARY")
        document.relate(main, "CONTAINS", packages[path])
        document.relate(element, "EXPANDED_FROM_ARCHIVE", packages[path])

    def resolve(path, library):
        if library not in by_name:
            raise ValueError(f"{path.relative_to(root)} needs {library}, which the image lacks")
        return by_name[library]

    graph = Graph(document, resolve, packages.__getitem__)
    add_programs(document, graph, elements, folder)
    return document


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    packages = commands.add_parser("packages", help="write documents of all packages of a folder")
    packages.add_argument("folder", type=pathlib.Path)
    packages.add_argument("--build-package", nargs="*", default=[])
    image = commands.add_parser("image", help="write the document of an image")
    image.add_argument("root", type=pathlib.Path)
    image.add_argument("name")
    image.add_argument("version")
    image.add_argument("out", type=pathlib.Path)
    image.add_argument("--stand-in", action="append", default=[])
    check = commands.add_parser("check", help="check a document")
    check.add_argument("document", type=pathlib.Path)
    check.add_argument("--deb", type=pathlib.Path)
    check.add_argument("--root", type=pathlib.Path)
    for command in (packages, image, check):
        command.add_argument("--bin", type=pathlib.Path)
    flags = parser.parse_args()
    try:
        if flags.command == "packages":
            debs = sorted(flags.folder.glob("*.deb"))
            if not debs:
                raise ValueError(f"{flags.folder} has no package")
            for deb in debs:
                document = document_of_package(deb, flags.bin, flags.build_package)
                deb.with_suffix(".spdx.json").write_text(document.text(), encoding="utf-8")
        elif flags.command == "image":
            document = document_of_image(flags.root, flags.name, flags.version, flags.bin,
                                         flags.stand_in)
            flags.out.write_text(document.text(), encoding="utf-8")
        else:
            wrong = check_sbom.check_file(flags.document, flags.deb, flags.root, flags.bin)
            for line in wrong:
                print(f"{flags.document.name}: {line}", file=sys.stderr)
            return 1 if wrong else 0
    except (ValueError, OSError, subprocess.SubprocessError) as error:
        print(f"make_sbom.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
