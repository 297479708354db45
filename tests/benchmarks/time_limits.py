#!/usr/bin/env python3
"""Prints how long planctl takes to answer under a limit of time, for every planner and option.

    time_limits.py --planctl PLANCTL [--server PARPLAN_SERVER] [--limits 0.5,2,5] [--only TEXT]

The question is hard for its size: 16,384 devices and 1,000 layers that all differ, so nothing ends
a search but its limit. With --server the questions of `plan` and `shape` are asked of a server that
this program starts, otherwise all of them are answered in planctl's process. Each line has, for
each limit, the seconds from start to end of planctl, which reads the files and prints the answer
too, and the seconds of its processor after the limit, which do not depend on what else the machine
does; and its exit code where that is not 0 (6: no plan before the limit; 3: none fits). The first
line is `planctl evaluate`, which has no limit: what reading, one prediction and printing take.
"""

import argparse
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

LAYERS = 998  # Between an embedding and a head.
NODES = 2048
PLANNERS = ("exact", "galvatron", "galvatron-base", "galvatron-bmw", "min-memory-ilp", "alpa-like",
            "colossal-auto-like", "dp", "sdp", "tp", "pp", "megatron", "fsdp-best",
            "deepspeed-3d", "dp+tp", "dp+pp")
OPTIONS = {
    "--top 100": ["--top", "100"],
    "--front": ["--front"],
    "--top 100 --front": ["--top", "100", "--front"],
    "--robust": ["--robust"],
    "--top 100 --robust": ["--top", "100", "--robust"],
    "--compare": ["--compare"],
    "--gap 0": ["--gap", "0"],
    "--batch-from 256": ["--batch-from", "256", "--batch-step", "256"],
    "--batch-from 256 --top 100": ["--batch-from", "256", "--batch-step", "256", "--top", "100"],
    "--money": ["--money", "--price", "2.5", "--steps", "1000", "--min-nodes", "2040"],
}


def write_question(folder):
    """Writes the model and the cluster; their files."""
    common = {"hidden_size": 2048, "sequence_length": 4096}
    definitions = [{"layer_definition_id": "embedding", "kind": "LAYER_KIND_EMBEDDING",
                    "vocabulary_size": 32000, **common}]
    for layer in range(LAYERS):
        # Sizes go up and down, so that neighbours differ.
        definitions.append({"layer_definition_id": f"decoder-{layer}",
                            "kind": "LAYER_KIND_DECODER", "attention_head_count": 16,
                            "feed_forward_size": 8192 + layer * 389 % LAYERS * 8,
                            "feed_forward_kind": "FEED_FORWARD_KIND_SWIGLU", **common})
    definitions.append({"layer_definition_id": "head", "kind": "LAYER_KIND_HEAD",
                        "vocabulary_size": 32000, **common})
    model = {"model_id": "different-layers", "layer_definitions": definitions,
             "layer_runs": [{"layer_definition_id": definition["layer_definition_id"],
                             "layer_count": 1} for definition in definitions],
             "precision": "PRECISION_BF16", "optimizer": "OPTIMIZER_ADAM"}
    cluster = {"cluster": "lab",
               "node_groups": [{"node_group_id": "nodes", "device_kind": "NVIDIA H100 80GB HBM3",
                                "node_count": NODES, "devices_per_node": 8,
                                "device_memory_bytes": str(80 << 30)}],
               "link_tiers": [{"tier_id": "nvlink", "reach_device_count": 8},
                              {"tier_id": "fabric", "reach_device_count": 8 * NODES}]}
    files = folder / "model.json", folder / "cluster.json"
    for file, content in zip(files, (model, cluster)):
        file.write_text(json.dumps(content))
    return files


def cpu_of_children():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def cpu_of(process):
    """Seconds of a running process."""
    try:
        fields = pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Asker:
    def __init__(self, planctl, folder, threads):
        self.planctl = planctl
        self.folder = folder
        self.threads = threads
        model, cluster = write_question(folder)
        self.question = ["--model", str(model), "--cluster", str(cluster), "--batch", "4096",
                         "--allow-estimates"]
        self.limit = None
        self.where = ["--offline", "--threads", str(threads)]

    def run(self, *arguments):
        """Seconds until planctl ends, those of its processor, and its exit code."""
        cpu = cpu_of_children()
        start = time.monotonic()
        with open(self.folder / "error", "w+", encoding="utf-8") as error:
            process = subprocess.Popen([self.planctl, *arguments, "--quiet", "--format", "json"],
                                       stdout=subprocess.DEVNULL, stderr=error)
            # Readings of the processor while it runs, to know how much it had used at the limit.
            self.late_from = None
            while process.poll() is None:
                time.sleep(0.005)
                if self.limit is not None and self.late_from is None:
                    if time.monotonic() - start >= self.limit:
                        self.late_from = cpu_of(process.pid)
            took = time.monotonic() - start
            error.seek(0)
            self.error = error.read()
        cpu = cpu_of_children() - cpu
        self.late = max(0.0, cpu - self.late_from) if self.late_from is not None else 0.0
        return took, cpu, process.returncode

    def line(self, name, limits, ask):
        cells = []
        for limit in limits:
            self.limit = limit
            took, _, code = ask(limit)
            cells.append(f"{took:.2f}, {self.late:.2f}" + (f" ({code})" if code else ""))
            if code not in (0, 3, 6):
                cells[-1] += " " + self.error.strip().splitlines()[0][:100]
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)

    def plan(self, *flags):
        return lambda limit: self.run("plan", *self.where, *self.question, "--time-limit",
                                      str(limit), *flags)


def explain_lines(asker):
    """Commands that take a plan, which have no search or one under the limit."""
    plan, rival = asker.folder / "plan.json", asker.folder / "rival.json"
    for file, schedule in ((plan, "1f1b"), (rival, "gpipe")):
        _, _, code = asker.run("plan", "--offline", *asker.question, "--schedule", schedule,
                               "--time-limit", "10", "--out", str(file))
        if code != 0:
            raise SystemExit(f"no plan to explain: exit {code}: {asker.error}")
    at_limit = asker.question + ["--time-limit"]
    yield "evaluate", lambda limit: asker.run("evaluate", str(plan), *asker.question)
    yield "explain --rival", lambda limit: asker.run("explain", str(plan), "--rival", str(rival),
                                                     *at_limit, str(limit))
    yield "explain --why-not megatron", lambda limit: asker.run(
        "explain", str(plan), "--why-not", "megatron", *at_limit, str(limit))
    yield "explain --why-not galvatron-bmw", lambda limit: asker.run(
        "explain", str(plan), "--why-not", "galvatron-bmw", *at_limit, str(limit))
    yield "explain --sensitivities", lambda limit: asker.run(
        "explain", str(plan), "--sensitivities", *at_limit, str(limit))
    yield "explain --measure-next", lambda limit: asker.run(
        "explain", str(plan), "--measure-next", *at_limit, str(limit))
    yield "explain --bmw", lambda limit: asker.run("explain", str(plan), "--bmw", *at_limit,
                                                   str(limit))


def questions(asker, offline):
    if offline:
        yield from explain_lines(asker)
    for planner in PLANNERS:
        yield f"plan --planner {planner}", asker.plan("--planner", planner)
    for name, flags in OPTIONS.items():
        yield f"plan {name}", asker.plan(*flags)
    yield "plan --planner min-memory-ilp --top 100", asker.plan("--planner", "min-memory-ilp",
                                                                "--top", "100")
    shape = ["--min-devices", str(8 * (NODES - 8))]
    yield "shape", lambda limit: asker.run("shape", *asker.where, *asker.question, *shape,
                                           "--time-limit", str(limit))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--planctl", required=True)
    parser.add_argument("--server", help="parplan-server, to ask instead of planctl --offline")
    parser.add_argument("--limits", default="0.5,2,5", help="seconds, divided by commas")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--keep", help="folder for the question, which stays")
    parser.add_argument("--only", default="", help="only lines with this text")
    flags = parser.parse_args()
    limits = [float(limit) for limit in flags.limits.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(flags.keep or folder)
        folder.mkdir(exist_ok=True)
        asker = Asker(flags.planctl, folder, flags.threads)
        server = None
        if flags.server:
            port = folder / "port"
            server = subprocess.Popen(
                [flags.server, "--listen", "127.0.0.1:0", "--data-dir", str(folder / "data"),
                 "--port-file", str(port)], stderr=open(folder / "log", "wb"))
            while not port.exists():
                if server.poll() is not None:
                    raise SystemExit((folder / "log").read_text())
                time.sleep(0.05)
            asker.where = ["--server", f"127.0.0.1:{port.read_text().strip()}", "--timeout", "120"]
        try:
            print("| question | " + " | ".join(f"{limit:g} s" for limit in limits) + " |")
            print("|---" * (1 + len(limits)) + "|")
            for name, ask in questions(asker, flags.server is None):
                if flags.only in name:
                    asker.line(name, limits, ask)
        finally:
            if server is not None:
                server.terminate()
                server.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
