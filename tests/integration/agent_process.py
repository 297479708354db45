"""parplan-agent as tests run it, and what they look at from outside."""
import json
import os
import pathlib
import re
import resource
import signal
import subprocess
import urllib.request

from machine import PATIENCE_SECONDS, wait_for

# Small enough for a machine that does much else.
# Ranks of tests that run side by side would all be bound to the first cores.
QUICK = ["--ranks", "2", "--even-if-busy", "--no-pin", "--budget", "120s", "--max-message-bytes", "16384",
         "--micro-batches", "1"]


class Agent:
    """A daemon; ends at the latest with the `with` block."""

    def __init__(self, binary, folder, server_address, *flags, node="n1", file_size_limit=None):
        self.binary = str(binary)
        self.node = node
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(exist_ok=True)
        self.state = self.folder / "agent-state"
        self.spool = self.folder / "spool"
        self.spool.mkdir(exist_ok=True)
        self.server_address = server_address
        self.flags = [str(flag) for flag in flags]
        self.file_size_limit = file_size_limit
        self.log_path = self.folder / "agent.log"
        self.process = None

    def __enter__(self):
        for name in ("agent-port", "agent-metrics-port"):
            (self.folder / name).unlink(missing_ok=True)

        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (self.file_size_limit, resource.RLIM_INFINITY))

        self.log_path.write_text("")
        read_end, write_end = os.pipe()
        with open(self.log_path, "ab") as log:
            # A log file would be limited too: it goes through a pipe.
            self.process = subprocess.Popen(
                [self.binary, "--server", self.server_address, "--cluster", "lab", "--node", self.node, "--host", "127.0.0.1",
                 "--state-dir", str(self.state), "--spool-dir", str(self.spool),
                 "--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0",
                 "--port-file", str(self.folder / "agent-port"),
                 "--metrics-port-file", str(self.folder / "agent-metrics-port"),
                 *QUICK, *self.flags],
                stdout=subprocess.DEVNULL, stderr=write_end,
                preexec_fn=limit if self.file_size_limit else None)
            os.close(write_end)
            self.copier = subprocess.Popen(["cat"], stdin=read_end, stdout=log)
            os.close(read_end)
        self.metrics_port = int(wait_for(
            "the agent's ports", lambda: self._read_port("agent-metrics-port")))
        self.port = int(self._read_port("agent-port"))
        return self

    def __exit__(self, *unused):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.copier.wait()

    def _read_port(self, name):
        if self.process.poll() is not None:
            raise AssertionError(f"the agent ended with {self.process.returncode}: {self.log()}")
        try:
            return (self.folder / name).read_text().strip()
        except OSError:
            return ""

    def log(self):
        return self.log_path.read_text(errors="replace")

    def events(self, name):
        # The last line may still be on its way; libraries write others.
        lines = self.log().split("\n")[:-1]
        events = [json.loads(line) for line in lines if line.startswith("{")]
        return [event for event in events if event["event"] == name]

    def wait_for_event(self, name, count=1):
        return wait_for(f"{count} x '{name}' in {self.log_path}",
                        lambda: (self.events(name) + [None] * count)[count - 1])

    def metric(self, series):
        """The value of a series as it is written, labels included."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics",
                                    timeout=PATIENCE_SECONDS) as page:
            text = page.read().decode()
        found = re.search(rf"^{re.escape(series)} (\S+)$", text, re.MULTILINE)
        if not found:
            raise AssertionError(f"no {series} in\n{text}")
        return float(found.group(1))

    def wait_for_metric(self, series, value):
        wait_for(f"{series} = {value}", lambda: self.metric(series) == value)

    def end(self):
        """The exit code after SIGTERM."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE_SECONDS)
