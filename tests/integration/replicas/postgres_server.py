"""A PostgreSQL of one test: Debian's, in a temporary folder, reached through a Unix socket
there, and with a certificate through a port of this machine, and nowhere else. Never as root, which
PostgreSQL refuses to be."""
import contextlib
import os
import pathlib
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time

PROGRAMS = pathlib.Path("/usr/lib/postgresql/15/bin")


class PostgresServer:
    """Runs within the `with` block. `certificates` is a folder with server.pem and server.key."""

    def __init__(self, certificates=None):
        # Short, as names of sockets must be, and where the user postgres may go.
        self.folder = tempfile.mkdtemp(prefix="parplan-postgres-", dir="/tmp")
        self.process = None
        self.as_user = []
        self.certificates = certificates
        self.port = 5432
        self.flags = ["-c", "listen_addresses="]
        if os.geteuid() == 0:
            user = pwd.getpwnam("postgres")
            os.chown(self.folder, user.pw_uid, user.pw_gid)
            # A signal at the death of the parent would not survive the change of user.
            self.as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups",
                            "--pdeathsig=SIGQUIT", "--"]

    def __enter__(self):
        subprocess.run([*self.as_user, PROGRAMS / "initdb", "-D", f"{self.folder}/data",
                        "-U", "parplan", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"],
                       cwd="/", check=True, stdout=subprocess.DEVNULL)
        if self.certificates is not None:
            self.use_tls()
        self.start()
        return self

    def __exit__(self, *unused):
        if self.process is not None:
            self.end(signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)

    def use_tls(self):
        owner = os.stat(f"{self.folder}/data")
        for name in ("server.pem", "server.key"):
            path = pathlib.Path(f"{self.folder}/data/{name}")
            path.write_bytes((pathlib.Path(self.certificates) / name).read_bytes())
            os.chown(path, owner.st_uid, owner.st_gid)
            os.chmod(path, 0o600)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.flags = ["-c", "listen_addresses=127.0.0.1", "-c", f"port={self.port}", "-c", "ssl=on",
                      "-c", "ssl_cert_file=server.pem", "-c", "ssl_key_file=server.key"]

    def uri(self):
        return f"postgres://parplan@/postgres?host={self.folder}&port={self.port}"

    def query(self, statement):
        """The first column of what `statement` gives, as texts."""
        result = subprocess.run([PROGRAMS / "psql", "-AtX", "-d", self.uri(), "-c", statement],
                                check=True, capture_output=True, text=True, cwd="/")
        return result.stdout.split("\n")[:-1]

    @contextlib.contextmanager
    def lock(self, table):
        """Lets nobody write to a table; who wants to waits."""
        holder = subprocess.Popen([PROGRAMS / "psql", "-qAtX", "-d", self.uri()], cwd="/",
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            holder.stdin.write(f"BEGIN; LOCK TABLE {table} IN EXCLUSIVE MODE; SELECT 'held';\n")
            holder.stdin.flush()
            assert holder.stdout.readline() == "held\n"
            yield
        finally:
            holder.stdin.close()
            holder.wait()
            holder.stdout.close()

    def is_somebody_waiting(self):
        """Whether a statement waits for a lock."""
        return self.query("SELECT count(*) FROM pg_locks WHERE NOT granted") != ["0"]

    def start(self):
        end = time.monotonic() + 180
        while True:
            if self.process is None or self.process.poll() is not None:
                # It ends by itself while processes of the one before are still there.
                with open(f"{self.folder}/server.log", "ab") as log:
                    self.process = subprocess.Popen(
                        [*self.as_user, PROGRAMS / "postgres", "-D", f"{self.folder}/data",
                         "-k", self.folder, *self.flags, "-c", "fsync=off",
                         "-c", "unix_socket_permissions=0777", "-c", "max_connections=120"],
                        cwd="/", stdout=log, stderr=log)
            try:
                self.query("SELECT 1")
                return
            except subprocess.CalledProcessError as error:
                if time.monotonic() > end:
                    log = pathlib.Path(f"{self.folder}/server.log").read_text(errors="replace")
                    raise AssertionError(f"PostgreSQL does not start: {log}") from error
                time.sleep(0.05)

    def end(self, number):
        self.process.send_signal(number)
        self.process.wait()
        self.process = None

    def kill(self):
        """Ends the server like a power cut, but for data that the kernel had still to write."""
        self.end(signal.SIGKILL)
