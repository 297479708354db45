"""Reads which libraries programs are linked with: the names that ELF files ask for, the files that
the loader finds for them, and libraries that were compiled in."""
import pathlib

import debian

# A text that a library which is compiled in leaves in a program, and the packages it comes from. A
# stripped program keeps all of them but Eigen's, whose names are those of functions only. CBC's
# archives are there if the build linked them (cmake/FindCBC.cmake).
COMPILED_IN = (
    (b"8CbcModel", ("coinor-libcbc-dev", "coinor-libcgl-dev", "coinor-libclp-dev",
                    "coinor-libosi-dev", "coinor-libcoinutils-dev", "liblapack-dev",
                    "libblas-dev"), "libCbc"),
    (b"[json.exception.", ("nlohmann-json3-dev",), None),
    (b"N3CLI", ("libcli11-dev",), None),
    (b"6spdlog", ("libspdlog-dev",), "libspdlog"),
    (b"5Eigen", ("libeigen3-dev",), None),
)


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def needed(path):
    """Names that an ELF file asks the loader for; its loader, if it names one, among them."""
    lines = debian.run("readelf", "--wide", "--dynamic", "--program-headers", path).splitlines()
    names = [line.partition("[")[2].rstrip("]") for line in lines if "(NEEDED)" in line]
    loaders = [line.partition("interpreter: ")[2].rstrip("]") for line in lines
               if "program interpreter: " in line]
    return sorted({*names, *(pathlib.PurePath(loader).name for loader in loaders)})


def loaded(path):
    """What the loader of this machine finds for a program: name -> path of the file."""
    found = {}
    for line in debian.run("ldd", path).splitlines():
        words = line.split()
        if words[1:2] == ["=>"] and words[2].startswith("/"):
            found[words[0]] = words[2]
        elif words[0].startswith("/"):
            found[pathlib.PurePath(words[0]).name] = words[0]
        elif "not found" in line:
            raise ValueError(f"{pathlib.Path(path).name} needs {words[0]}, which is not installed")
    return found


def compiled_in(path, folder=None):
    """Packages whose code is in a program or library itself. `folder` has the programs before they
    were stripped; libraries are in `lib` beside it."""
    path = pathlib.Path(path)
    data = path.read_bytes()
    for place in (folder, folder.parent / "lib") if folder else ():
        if (place / path.name).is_file():
            data += (place / path.name).read_bytes()
    names = needed(path)
    return sorted({package for mark, packages, shared in COMPILED_IN
                   if mark in data and not (shared and any(n.startswith(shared) for n in names))
                   for package in packages})
