"""Runs commands of root's tests as a common user, who is made for them and leaves nothing: accounts
and ranges of ids are files of a mount namespace, so that those of the machine are not touched."""
import grp
import os
import pathlib
import pwd
import shutil
import stat
import subprocess
import tempfile

# The number of ids that distributions give a user.
ID_COUNT = 65536

# $1 folder of the account, $2 number of the user; then pairs of folders, the second shown where
# the first is, until --; then the command.
AS_USER = """
for name in passwd group subuid subgid; do mount --bind "$1/$name" "/etc/$name"; done
user=$2
shift 2
while [ "$1" != -- ]; do mount --bind "$2" "$1"; shift 2; done
shift
exec setpriv --reuid="$user" --regid="$user" --clear-groups "$@"
"""


def reachable_folder():
    """A folder for temporary files to which everybody has the way."""
    for name in (tempfile.gettempdir(), "/var/tmp"):
        path = pathlib.Path(name).resolve()
        if all(part.stat().st_mode & stat.S_IXOTH for part in (path, *path.parents)):
            return path
    raise AssertionError(f"others can enter neither {tempfile.gettempdir()} nor /var/tmp")


def set_environment(folder):
    """All that buildah keeps beside its storage goes below `folder`."""
    for name, place in (("TMPDIR", "tmp"), ("XDG_RUNTIME_DIR", "runtime"),
                        ("XDG_DATA_HOME", "data"), ("XDG_CACHE_HOME", "cache")):
        path = pathlib.Path(folder) / place
        path.mkdir(mode=0o700, exist_ok=True)
        os.environ[name] = str(path)


def is_mapped(number):
    """Whether a process may be of that user here."""
    for line in pathlib.Path("/proc/self/uid_map").read_text().splitlines():
        first, _, count = map(int, line.split())
        if first <= number < first + count:
            return True
    return False


class CommonUser:
    """A user without rights and with ID_COUNT subordinate ids; root makes one.

    `folder` must be new in one that everybody can reach, and becomes the user's. `shown` are
    folders of the machine that the user sees in it, by name, wherever they are.
    """

    def __init__(self, folder, shown):
        folder.mkdir()
        self.home = folder / "home"
        self._account = folder / "account"
        for path in (self.home, self._account):
            path.mkdir()
        taken = {entry.pw_uid for entry in pwd.getpwall()} | {e.gr_gid for e in grp.getgrall()}
        self.number = next(number for number in range(20000, 60000) if number not in taken)
        os.chown(self.home, self.number, self.number)
        self._copy("passwd", f"builder:x:{self.number}:{self.number}::{self.home}:/bin/sh")
        self._copy("group", f"builder:x:{self.number}:")
        first = self._first_free_id()
        for name in ("subuid", "subgid"):
            (self._account / name).write_text(f"builder:{first}:{ID_COUNT}\n")
        self.places, self._shown = {}, []
        for name, path in shown.items():
            self.places[name] = folder / name
            self.places[name].mkdir()
            self._shown += [str(self.places[name]), str(path)]

    def _copy(self, name, line):
        shutil.copy(f"/etc/{name}", self._account / name)
        with open(self._account / name, "a", encoding="utf-8") as file:
            file.write(line + "\n")

    @staticmethod
    def _first_free_id():
        """After all that anybody has."""
        first = 100_000
        for path in map(pathlib.Path, ("/etc/subuid", "/etc/subgid")):
            for line in path.read_text().splitlines() if path.exists() else ():
                _, start, count = line.split(":")
                first = max(first, int(start) + int(count))
        return first

    def run(self, *command, **options):
        """subprocess.run. What the command leaves running ends with it."""
        return subprocess.run(
            ["unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child",
             "--mount-proc", "sh", "-euc", AS_USER, "sh", str(self._account), str(self.number),
             *self._shown, "--", "env", "-i", f"HOME={self.home}", f"TMPDIR={self.home}",
             f"XDG_RUNTIME_DIR={self.home}", "PATH=/usr/bin:/bin:/usr/sbin:/sbin",
             "LC_ALL=C.UTF-8", *map(str, command)],
            cwd="/", check=False, **options)

    def forget(self):
        """Removes what processes in containers leave, to whom nobody tells another folder."""
        for name in ("containers-user", "podman-run"):
            shutil.rmtree(f"/tmp/{name}-{self.number}", ignore_errors=True)

    def why_not(self):
        """Why such a user can't have user namespaces on this machine; nothing where one can."""
        done = self.run("buildah", "unshare", "cat", "/proc/self/uid_map", capture_output=True,
                        text=True, timeout=600)
        if done.returncode != 0:
            return done.stderr.strip()
        counts = [int(line.split()[2]) for line in done.stdout.splitlines()]
        return None if sum(counts) > ID_COUNT else f"ids were not mapped: {done.stderr.strip()}"
