#!/usr/bin/env python3
"""Compares what two builds of planctl answer, byte by byte.

Runs `planctl plan`, `evaluate` and `explain` with --format json over the committed examples and,
where they are given, over the cases of the public Galvatron engine, with both programs, and
compares what they print. Run it around a change that must not change any answer:

  tests/integration/same_answers.py --before OLD/planctl --after NEW/planctl \\
      [--cases FOLDER] [--study-before OLD/planctl --study-after NEW/parplan-study]

Only what a clock says is taken out before texts are compared: the wall time of a search and the
moment a plan was made. Exits with 1 and the first difference of every question that differs.
"""

import argparse
import difflib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

# Members of the JSON that hold readings of a clock.
CLOCK = re.compile(r'^\s*"(search_time_s|search_seconds|wall_time_s|wall_seconds|cpu_seconds|'
                   r'search_time|search_duration|created|create_time|planned_at|elapsed_s|search_cpu_s|'
                   r'duration|speedup|ours_s|search_s)": .*$', re.M)
PLANNERS = ["exact", "galvatron-bmw", "galvatron", "galvatron-base", "megatron", "dp", "sdp", "tp",
            "pp", "dp+tp", "dp+pp", "deepspeed-3d", "fsdp-best", "min-memory-ilp", "alpa-like",
            "colossal-auto-like"]


def run(program, arguments, folder):
    """The exit status and standard output, without readings of a clock."""
    done = subprocess.run([program, *arguments], cwd=folder, capture_output=True, text=True,
                          timeout=600)
    return f"exit {done.returncode}\n{CLOCK.sub('', done.stdout)}"


def questions_of_examples(examples):
    """Flags of `plan --offline`, by name."""
    model = ["--model", f"{examples}/llama2-7b.model.json"]
    one, two = f"{examples}/a100-40g-8.cluster.json", f"{examples}/a100-40g-16.cluster.json"
    profile = ["--profile", f"{examples}/llama2-7b-a100.profile.json"]
    profile_two = ["--profile", f"{examples}/llama2-7b-a100-2-nodes.profile.json"]
    for planner in PLANNERS:
        yield f"llama-8-{planner}", [*model, "--cluster", one, *profile, "--batch", "64",
                                     "--planner", planner]
        yield f"llama-16-{planner}", [*model, "--cluster", two, *profile_two, "--batch", "128",
                                      "--planner", planner]
    yield "llama-8-estimated", [*model, "--cluster", one, "--batch", "64"]
    yield "llama-16-estimated", [*model, "--cluster", two, "--batch", "64"]
    yield "llama-8-compare", [*model, "--cluster", one, *profile, "--batch", "64", "--compare"]
    yield "llama-8-top", [*model, "--cluster", one, *profile, "--batch", "64", "--top", "5"]
    yield "llama-8-batches", [*model, "--cluster", one, *profile, "--batch", "8..64"]
    yield "llama-8-nothing-fits", [*model, "--cluster", one, *profile, "--batch", "64",
                                   "--headroom", "0.02"]
    yield "llama-8-front", [*model, "--cluster", one, *profile, "--batch", "64", "--front"]
    yield "llama-8-robust", [*model, "--cluster", one, *profile, "--batch", "64", "--robust"]
    yield "gpt-7.5b-8", ["--model", f"{examples}/gpt-7.5b.model.json", "--cluster",
                         f"{examples}/a100-80g-8.cluster.json", "--batch", "64",
                         "--allow-estimates"]
    for small in ("small-gpt", "small-gpt-bf16"):
        yield f"{small}-8", ["--model", f"{examples}/{small}.model.json", "--cluster", one,
                             "--batch", "32", "--allow-estimates"]


def questions_of_case(planctl, case_file, folder, out):
    """Imports the inputs of one case with the program before the change; its questions."""
    case = json.loads(case_file.read_text())
    given = case["input"]
    name = case["id"]
    nodes = given["hardware"]["num_nodes"]
    devices = given["hardware"]["gpus_per_node"]
    layers = given["model"]["layers"]
    config = {"hidden_size": layers[0]["hidden_size"], "seq_length": layers[0]["seq_len"],
              "num_hidden_layers": sum(part["layer_num"] for part in layers),
              "num_attention_heads": max(1, layers[0]["hidden_size"] // 128), "vocab_size": 32000,
              "model_type": "llama", "intermediate_size": 4 * layers[0]["hidden_size"]}
    config_path = out / f"{name}.config.json"
    config_path.write_text(json.dumps(config))
    paths = {part: out / f"{name}.{part}.json" for part in ("profile", "model", "cluster")}
    arguments = ["import", "galvatron", "--computation", given["profiles"]["time"], "--memory",
                 given["profiles"]["memory"], "--model-config", str(config_path),
                 "--node-count", str(nodes), "--devices-per-node", str(devices),
                 "--device-memory-bytes", str(int(given["memory_gb"] * 2**30)),
                 "--cluster", "case"]
    for flag, key in (("--allreduce", "allreduce"), ("--p2p", "p2p"), ("--overlap", "overlap"),
                      ("--sp-time", "sp_time")):
        if given["hardware"].get(key):
            arguments += [flag, given["hardware"][key]]
    for part, path in paths.items():
        arguments += [f"--{part}-out", str(path)]
    done = subprocess.run([planctl, *arguments], cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        return None, done.stderr.strip()
    batch = str(given["batch"].get("settle_bsz") or given["batch"].get("max_bsz") or 64)
    return ["--model", str(paths["model"]), "--cluster", str(paths["cluster"]), "--profile",
            str(paths["profile"]), "--batch", batch, "--allow-estimates"], None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--before", required=True, help="planctl before the change")
    parser.add_argument("--after", required=True, help="planctl after it")
    parser.add_argument("--cases", help="folder of the engine's cases, with cases/ and inputs/")
    parser.add_argument("--study-before", help="the program with the command `oracle`, before")
    parser.add_argument("--study-after", help="the same after")
    flags = parser.parse_args()
    source = pathlib.Path(__file__).resolve().parents[2]
    before, after = (os.path.abspath(path) for path in (flags.before, flags.after))
    asked = different = refused = planned = 0

    with tempfile.TemporaryDirectory() as made:
        made = pathlib.Path(made)
        questions = dict(questions_of_examples(source / "deploy" / "examples"))
        if flags.cases:
            cases = pathlib.Path(flags.cases).resolve()
            for case_file in sorted((cases / "cases").glob("*.json")):
                question, why = questions_of_case(before, case_file, cases, made)
                if question is None:
                    refused += 1
                    print(f"{case_file.stem}: not imported: {why}")
                else:
                    questions[case_file.stem] = question
                    questions[f"{case_file.stem}-bmw"] = [*question, "--planner", "galvatron-bmw"]

        def compare(name, old, new):
            nonlocal asked, different
            asked += 1
            if old == new:
                return
            different += 1
            print(f"DIFFERENT: {name}")
            for line in list(difflib.unified_diff(old.splitlines(), new.splitlines(),
                                                  "before", "after", lineterm="", n=1))[:16]:
                print("   ", line)

        for name, question in questions.items():
            plan = made / f"{name}.plan.json"
            commands = [["plan", "--offline", *question, "--format", "json"]]
            saved = subprocess.run([before, "plan", "--offline", *question, "--out", str(plan)],
                                   cwd=made, capture_output=True, text=True)
            if saved.returncode == 0 and plan.exists():
                planned += 1
                for_plan = [flag for flag in question if flag not in ("--compare",)]
                for flag in ("--planner", "--top"):
                    if flag in for_plan:
                        at = for_plan.index(flag)
                        del for_plan[at:at + 2]
                commands.append(["evaluate", str(plan), *for_plan, "--format", "json"])
                commands.append(["explain", str(plan), "--format", "json"])
            for command in commands:
                compare(f"{name}: {command[0]}", run(before, command, made),
                        run(after, command, made))
        if flags.study_before and flags.study_after and flags.cases:
            for case_file in sorted((cases / "cases").glob("*.json")):
                arguments = ["oracle", str(case_file), "--format", "json"]
                compare(f"{case_file.stem}: oracle",
                        run(os.path.abspath(flags.study_before), arguments, made),
                        run(os.path.abspath(flags.study_after), arguments, made))

    print(f"{asked} answers compared, of {len(questions)} questions ({planned} with a plan, "
          f"{refused} cases not imported): {different} differ")
    return 1 if different or planned == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
