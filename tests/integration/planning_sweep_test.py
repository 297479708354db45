#!/usr/bin/python3
"""Imports every published profile set and plans it offline on 8 to 1,024 devices.

Each run of planctl must end with a plan, with the smallest memory that would fit, or
with the list of measurements that are missing; never with anything else. Of the
plans that do not fit, the first of every set is tried again with the memory named.

    planning_sweep_test.py --planctl PATH --data FOLDER [--verbose]

PARPLAN_SHARED_DATA names another FOLDER. Ends with code 77 (skipped) when FOLDER does
not exist.
"""

import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile

OK, BAD_INPUT, NOTHING_FITS, MISSING = 0, 2, 3, 4
NODE_COUNTS = (1, 2, 4, 16, 64, 128)


class Planctl:
    def __init__(self, path):
        self.path = path
        self.runs = 0

    def __call__(self, *arguments):
        """The exit code and the object on standard output."""
        self.runs += 1
        done = subprocess.run([self.path, "--format", "json", "--quiet", *map(str, arguments)],
                              capture_output=True, text=True, timeout=120)
        try:
            return done.returncode, json.loads(done.stdout)
        except json.JSONDecodeError:
            sys.exit(f"FAILED: planctl {' '.join(map(str, arguments))}\n"
                     f"exit {done.returncode}, no JSON\n{done.stdout}{done.stderr}")


def profile_sets(data):
    """Pairs of computation and memory files, with configs to try in turn."""
    root = data / "galvatron_profiles"
    for times in sorted(root.rglob("*profiling*.json")):
        if "computation" not in times.name and "forward_profiling" not in times.name:
            continue
        memory = times.with_name(times.name.replace("computation", "memory"))
        family = times.parent.parent.name
        configs = sorted(root.glob(f"*/galvatron/models/{family}/meta_configs/*.json"))
        configs += sorted(root.glob(f"*/galvatron/models/*/meta_configs/*{family[:4]}*.json"))
        configs += sorted(root.glob(f"*/galvatron/models/{family}/hf_configs/*/config.json"))
        configs += sorted(root.glob("*/galvatron/models/*/meta_configs/llama-7b.json"))
        yield times, memory if memory != times and memory.exists() else None, configs
    for folder in sorted((data / "galvatron_oracle" / "inputs").iterdir()):
        if (folder / "time.json").exists() and (folder / "memory.json").exists():
            name = folder.name.split("-")[0]
            configs = sorted(root.glob(f"*/galvatron/models/*/meta_configs/*{folder.name}*.json"))
            configs += sorted(root.glob(f"*/galvatron/models/*/meta_configs/*{name}*.json"))
            yield folder / "time.json", folder / "memory.json", configs


def hardware(data, node_count):
    folder = data / "galvatron_profiles/main-cea12ff/galvatron/profile_hardware/hardware_configs"
    nodes = 1 if node_count == 1 else 2
    return ["--allreduce", folder / f"allreduce_bandwidth_{nodes}nodes_8gpus_per_node.json",
            "--p2p", folder / f"p2p_bandwidth_{nodes}nodes_8gpus_per_node.json",
            "--overlap", folder / "overlap_coefficient.json",
            "--sp-time", folder / "sp_time_1nodes_8gpus_per_node.json",
            "--node-count", nodes, "--devices-per-node", 8]


def import_set(planctl, data, times, memory, configs, node_count, out):
    """The flags that plan with what was imported, or the last refusal."""
    files = {kind: out / f"{kind}.json" for kind in ("profile", "model", "cluster")}
    refusal = None
    for config in [None, *configs]:
        arguments = ["import", "galvatron", "--computation", times]
        if memory:
            arguments += ["--memory", memory]
        if config:
            arguments += ["--model-config", config]
        arguments += hardware(data, node_count)
        for kind, path in files.items():
            arguments += [f"--{kind}-out", path]
        code, answer = planctl(*arguments)
        if code == OK:
            return files, None
        if code != BAD_INPUT or not answer["error"]["message"]:
            sys.exit(f"FAILED: import of {times}: exit {code}: {answer}")
        refusal = answer["error"]["message"]
    return None, refusal


def plan(planctl, files, node_count):
    return planctl("plan", "--offline", "--model", files["model"], "--cluster", files["cluster"],
                   "--profile", files["profile"], "--batch", max(64, 8 * node_count),
                   "--nodes", node_count, "--allow-estimates")


def check(code, answer, what):
    if code == OK:
        ok = answer["prediction"]["fits"] and answer["prediction"]["step_seconds"] > 0
    elif code == NOTHING_FITS:
        ok = int(answer["error"]["metadata"]["smallestDeviceMemoryBytes"]) > 0
    elif code == MISSING:
        ok = int(answer["error"]["metadata"]["count"]) > 0
    else:
        ok = False
    if not ok:
        sys.exit(f"FAILED: {what}: exit {code}: {json.dumps(answer)[:2000]}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--planctl", required=True)
    parser.add_argument("--data", required=True, type=pathlib.Path)
    parser.add_argument("--verbose", action="store_true")
    flags = parser.parse_args()
    if os.environ.get("PARPLAN_SHARED_DATA"):
        flags.data = pathlib.Path(os.environ["PARPLAN_SHARED_DATA"])
    if not (flags.data / "galvatron_profiles").is_dir():
        print(f"skipped: {flags.data} with the published profiles is not here")
        return 77
    planctl = Planctl(flags.planctl)
    outcomes = collections.Counter()
    names = {OK: "plan", NOTHING_FITS: "nothing fits", MISSING: "measurements missing"}
    sets = retried = 0
    for times, memory, configs in profile_sets(flags.data):
        sets += 1
        tried_again = False
        name = times.relative_to(flags.data)
        for node_count in NODE_COUNTS:
            with tempfile.TemporaryDirectory() as folder:
                files, refusal = import_set(planctl, flags.data, times, memory, configs,
                                            node_count, pathlib.Path(folder))
                if files is None:
                    outcomes["import refused"] += 1
                    if flags.verbose:
                        print(f"{name}: import refused: {refusal[:160]}")
                    break
                code, answer = plan(planctl, files, node_count)
                check(code, answer, f"{name} on {8 * node_count} devices")
                outcomes[names[code]] += 1
                if flags.verbose:
                    text = answer["plan"]["gist"] if code == OK else answer["error"]["message"]
                    print(f"{name} on {8 * node_count}: {names[code]}: {text[:120]}")
                if code == MISSING:
                    break
                if code == NOTHING_FITS and not tried_again:
                    tried_again = True
                    retried += 1
                    cluster = json.loads(files["cluster"].read_text())
                    smallest = answer["error"]["metadata"]["smallestDeviceMemoryBytes"]
                    cluster["node_groups"][0]["device_memory_bytes"] = smallest
                    files["cluster"].write_text(json.dumps(cluster))
                    code, answer = plan(planctl, files, node_count)
                    if code != OK:
                        sys.exit(f"FAILED: {name} on {8 * node_count} devices does not fit in "
                                 f"the {smallest} bytes named: {json.dumps(answer)[:2000]}")
    print(f"{sets} sets, {planctl.runs} runs of planctl: "
          + ", ".join(f"{count} {what}" for what, count in sorted(outcomes.items()))
          + f"; {retried} fit in the memory named")
    if outcomes["plan"] < sets:
        sys.exit("FAILED: fewer plans than sets: the sweep tests less than it should")
    return 0


if __name__ == "__main__":
    sys.exit(main())
