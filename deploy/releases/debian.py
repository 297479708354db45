"""Looks up Debian's packages on the machine that builds: which package a file is of, its version,
who supplies it, and what licences its copyright file declares."""
import functools
import pathlib
import re
import subprocess
import urllib.parse

DOC = pathlib.Path("/usr/share/doc")
_OWNERS = {}
# Debian's short names of licences that have another name on SPDX's list. Compared in lower case.
SPDX_NAMES = {
    "apache-2": "Apache-2.0", "apache-2.0": "Apache-2.0", "artistic": "Artistic-1.0-Perl",
    "bsd-2-clause": "BSD-2-Clause", "bsd-3-clause": "BSD-3-Clause",
    "bsd-4-clause": "BSD-4-Clause", "bsd-4-clause-uc": "BSD-4-Clause-UC", "cc0-1.0": "CC0-1.0",
    "curl": "curl", "epl-1": "EPL-1.0", "epl-1.0": "EPL-1.0", "expat": "MIT", "isc": "ISC",
    "mit": "MIT", "mpl-1.1": "MPL-1.1", "mpl-2": "MPL-2.0", "mpl-2.0": "MPL-2.0",
    "postgresql": "PostgreSQL", "x11": "X11", "zlib": "Zlib",
    "apache-2.0 with llvm exception": "Apache-2.0 WITH LLVM-exception",
}
for family, versions in (("gpl", ("1", "2", "3")), ("lgpl", ("2", "2.1", "3"))):
    for version in versions:
        full = f"{family.upper()}-{version}{'' if '.' in version else '.0'}"
        SPDX_NAMES[f"{family}-{version}"] = f"{full}-only"
        SPDX_NAMES[f"{family}-{version}+"] = f"{full}-or-later"


def run(*arguments):
    done = subprocess.run([str(part) for part in arguments], capture_output=True, text=True,
                          check=False, env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"})
    if done.returncode != 0:
        raise ValueError(f"{arguments[0]}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def twins(path):
    """The paths by which a package may list a file: /lib is a link to /usr/lib since Debian 12."""
    path = str(path)
    if path.startswith("/usr/"):
        return path, path[len("/usr"):]
    return path, f"/usr{path}"


def owners_of(paths):
    """The package that each installed file is of, by path; one look-up for all, since each takes a
    tenth of a second. Files of no package are left out."""
    unknown = [str(path) for path in paths if str(path) not in _OWNERS]
    if unknown:
        done = subprocess.run(["dpkg-query", "-S", *(twin for path in unknown
                                                     for twin in twins(path))],
                              capture_output=True, text=True, check=False,
                              env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"})
        listed = {}
        for line in done.stdout.splitlines():
            packages, _, name = line.rpartition(": ")
            if not line.startswith("diversion "):
                listed.setdefault(name, packages.split(", ")[0].partition(":")[0])
        for path in unknown:
            one, other = twins(path)
            _OWNERS[path] = listed.get(one) or listed.get(other)
    return {str(path): _OWNERS[str(path)] for path in paths if _OWNERS[str(path)]}


def owner_of(path):
    """The name of the package that an installed file is of, or None."""
    return owners_of([path]).get(str(path))


@functools.lru_cache(maxsize=None)
def facts_of(package):
    """Version, architecture, source and maintainer of an installed package."""
    fields = ("Package", "Version", "Architecture", "source:Package", "Maintainer", "Homepage")
    text = run("dpkg-query", "-W", "-f", "\\t".join(f"${{{field}}}" for field in fields) + "\\n",
               package)
    values = text.splitlines()[0].split("\t")
    return dict(zip(("name", "version", "architecture", "source", "maintainer", "homepage"), values,
                    strict=True))


@functools.lru_cache(maxsize=None)
def distribution():
    """Id, version and name of the distribution, such as `debian`, `12` and `Debian`."""
    pairs = re.findall(r'^(\w+)="?([^"\n]*)"?$', pathlib.Path("/etc/os-release").read_text(),
                       re.MULTILINE)
    release = dict(pairs)
    identity = release.get("ID", "debian")
    return identity, release.get("VERSION_ID", ""), release.get("NAME", identity).split()[0]


def purl(namespace, name, version="", architecture="", distro=""):
    """The URL of a package: https://github.com/package-url/purl-spec, type `deb`."""
    quote = functools.partial(urllib.parse.quote, safe=".-_~:")
    text = f"pkg:deb/{quote(namespace)}/{quote(name)}"
    if version:
        text += f"@{quote(version)}"
    qualifiers = [f"{key}={quote(value)}" for key, value in (("arch", architecture),
                                                            ("distro", distro)) if value]
    return text + (f"?{'&'.join(qualifiers)}" if qualifiers else "")


def purl_of(facts):
    identity, version, _ = distribution()
    return purl(identity, facts["name"], facts["version"], facts["architecture"],
                f"{identity}-{version}" if version else "")


def _paragraphs(text):
    """Paragraphs of a copyright file, each a list of (field, lines)."""
    paragraphs = [[]]
    for line in text.splitlines():
        if not line.strip():
            paragraphs.append([])
        elif line[0] in " \t" and paragraphs[-1]:
            paragraphs[-1][-1][1].append(line.strip())
        elif match := re.match(r"([A-Za-z-]+):\s*(.*)", line):
            paragraphs[-1].append((match[1].lower(), [match[2].strip()]))
    return [paragraph for paragraph in paragraphs if paragraph]


def _declared(text):
    """Names of licences of a machine-readable copyright file in order, with their texts. Leaves out
    what is only for Debian's own files of the source package."""
    names, texts = [], {}
    for paragraph in _paragraphs(text):
        fields = {field: lines for field, lines in reversed(paragraph)}
        if "license" not in fields:
            continue
        name, *body = fields["license"]
        if body:
            texts.setdefault(name, "\n".join("" if line == "." else line for line in body))
        files = " ".join(fields.get("files", ())).split()
        if files and not all(pattern.startswith("debian/") for pattern in files) and name:
            names.append(name)
    return list(dict.fromkeys(names)), texts


class Licences:
    """Turns names of licences into expressions of SPDX; collects the texts of those that are not on
    SPDX's list, for the document's hasExtractedLicensingInfos."""

    def __init__(self):
        self.texts = {}

    def _reference(self, package, name, text):
        stem = "LicenseRef-" + re.sub(r"[^A-Za-z0-9.]+", "-", f"{package}-{name}").strip("-")
        for identity in (stem, *(f"{stem}.{number}" for number in range(2, 100))):
            if self.texts.setdefault(identity, (name, text)) == (name, text):
                return identity
        raise ValueError(f"{package} has too many licences called {name}")

    def _expression(self, package, name, texts, whole):
        if name.lower() in SPDX_NAMES:
            return SPDX_NAMES[name.lower()]
        for word in (" or ", " and "):
            if word in name and "," not in name:
                parts = [self._expression(package, part, texts, whole)
                         for part in name.split(word)]
                return f"({word.upper().join(parts)})"
        return self._reference(package, name, texts.get(name) or whole)

    def declared(self, package, source):
        """The expression for a package: all licences that its copyright file names, or, if that is
        not machine-readable, a reference to the whole of it."""
        whole = (DOC / package / "copyright").read_text(encoding="utf-8", errors="replace")
        names, texts = _declared(whole) if re.match(r"Format(-Specification)?:", whole) \
            else ([], {})
        if not names:
            return self._reference(source, "copyright", whole)
        return " AND ".join(dict.fromkeys(self._expression(source, name, texts, whole)
                                          for name in names))
