"""A Prometheus of its own process, on a free port, and what is asked of it."""
import json
import math
import pathlib
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

# Nothing that must happen waits for less.
PATIENCE_SECONDS = 300
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def fetch(url):
    with OPENER.open(url, timeout=PATIENCE_SECONDS) as page:
        return page.read().decode()


def listening_port(pid):
    """The port a process listens on, or None."""
    sockets = set()
    try:
        for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir():
            target = str(entry.readlink())
            if target.startswith("socket:["):
                sockets.add(target[8:-1])
    except OSError:
        return None
    for table in ("tcp", "tcp6"):
        lines = pathlib.Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]
        for fields in map(str.split, lines):
            if fields[3] == "0A" and fields[9] in sockets:
                return int(fields[1].rsplit(":", 1)[1], 16)
    return None


class Prometheus:
    """Ends at the latest with the `with` block. `config` is a path."""

    def __init__(self, binary, folder, config):
        self.folder = pathlib.Path(folder)
        self.command = [binary, f"--config.file={config}",
                        f"--storage.tsdb.path={self.folder / 'prometheus-data'}",
                        "--web.listen-address=127.0.0.1:0"]
        self.log_path = self.folder / "prometheus.log"
        self.process = None

    def __enter__(self):
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log)
        end = time.monotonic() + PATIENCE_SECONDS
        while True:
            if self.process.poll() is not None or time.monotonic() > end:
                self.__exit__()
                raise AssertionError(f"Prometheus did not start: {self.log_path.read_text()}")
            port = listening_port(self.process.pid)
            if port is not None:
                self.address = f"http://127.0.0.1:{port}"
                try:
                    fetch(f"{self.address}/-/ready")
                    return self
                except (OSError, urllib.error.URLError):
                    pass
            time.sleep(0.05)

    def __exit__(self, *unused):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def api(self, path, **arguments):
        """The data of an answer; AssertionError with the message of a refusal."""
        url = f"{self.address}/api/v1/{path}?{urllib.parse.urlencode(arguments, doseq=True)}"
        try:
            return json.loads(fetch(url))["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{arguments}: {json.load(error).get('error')}") from error

    def value(self, expression):
        """The first value of a query now; 0 where there is none."""
        result = self.api("query", query=expression)["result"]
        return float(result[0]["value"][1]) if result else 0.0

    def samples(self, expression, start, step=1):
        """All values of a query from then to now, and how many series they are of."""
        result = self.api("query_range", query=expression, start=start, end=time.time(),
                          step=step)["result"]
        return len(result), [float(value) for series in result for _, value in series["values"]]

    def series_labels(self, selector, label, start):
        """The values a label has among the series that match."""
        found = self.api("series", **{"match[]": selector, "start": start, "end": time.time()})
        return {series[label] for series in found if label in series}


# Seconds may be a little below 0 where clocks are compared; shares are shares.
LEAST = {"s": -5.0}
MOST = {"percentunit": 1.0 + 1e-9}


def query_fault(prometheus, expression, start, unit="none"):
    """Returns the fault of the answer to an expression; None where it is finite somewhere, infinite
    nowhere, and within what the unit allows. Not-a-number stands where nothing happened for a
    while."""
    try:
        count, values = prometheus.samples(expression, start)
    except AssertionError as error:
        return str(error)
    if any(math.isinf(value) for value in values):
        return f"an infinite value: {expression}"
    if not any(math.isfinite(value) for value in values):
        return f"{count} series and no value: {expression}"
    for value in values:
        if value < LEAST.get(unit, 0.0) or value > MOST.get(unit, math.inf):
            return f"{value} {unit}: {expression}"
    return None
