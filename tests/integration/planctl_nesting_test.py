#!/usr/bin/python3
"""JSON nested 100,000 levels deep, in every place where planctl reads JSON: an error, no crash.

    planctl_nesting_test.py --planctl PATH [--examples FOLDER]
"""
import concurrent.futures
import os

from planctl_run import BAD_INPUT, NOT_VERIFIED, PlanctlTest, main, planctl

DEPTH = 100_000
ARRAY = "[" * DEPTH + "]" * DEPTH
OBJECT = '{"a":' * DEPTH + "1" + "}" * DEPTH
TEXTS = {
    "arrays": ARRAY,
    "objects": OBJECT,
    "arrays that do not end": "[" * DEPTH,
    "objects that do not end": '{"a":' * DEPTH,
    # Readers of files of others want an object.
    "an object of arrays": f'{{"a": {ARRAY}}}',
    "an object of objects": f'{{"a": {OBJECT}}}',
}
ENVELOPE = """{"payload": "AA==", "payloadType": "application/vnd.parplan.plan.v1+protobuf",
"signatures": [{"keyid": "a", "sig": "AA=="}]}"""
TRUST = '{"keys": []}'

# DEEP is the file; MODEL, CLUSTER, PROFILE, PLAN, ENVELOPE and TRUST are files that are right, as
# far as they are read before it.
QUESTION = "--model MODEL --cluster CLUSTER --profile PROFILE"
COMMANDS = [
    "plan --offline --batch 64 --model DEEP --cluster CLUSTER --profile PROFILE",
    "plan --offline --batch 64 --model MODEL --cluster DEEP --profile PROFILE",
    "plan --offline --batch 64 --model MODEL --cluster CLUSTER --profile DEEP",
    f"plan --offline --batch 64 {QUESTION} --calibration DEEP",
    f"plan --offline --batch 64 {QUESTION} --money --price 1 --tokens 1000000 --money-file DEEP",
    "shape --offline --batch 64 --model DEEP --cluster CLUSTER",
    "compare --offline --batch 64 --model DEEP --cluster CLUSTER --profile PROFILE",
    "recommend DEEP --cluster CLUSTER --model MODEL",
    f"evaluate DEEP {QUESTION}",
    "evaluate --megatron-args DEEP --cluster CLUSTER",
    "verify DEEP --trust TRUST",
    "verify ENVELOPE --trust DEEP",
    "explain DEEP",
    "explain PLAN --rival DEEP --model MODEL --cluster CLUSTER",
    "explain PLAN --parameters --model DEEP",
    "report DEEP --out OUT",
    "trace DEEP --out OUT",
    "export DEEP --model MODEL --to megatron",
    "export PLAN --model DEEP --to megatron",
    "ilp-graph --batch 64 --model DEEP --cluster CLUSTER --profile PROFILE",
    "import hf DEEP --out OUT",
    "import galvatron --computation DEEP --memory DEEP --model-config DEEP "
    "--profile-out OUT --model-out OUT.model",
    "import galvatron --allreduce DEEP --p2p DEEP --overlap DEEP --sp-time DEEP --node-count 1 "
    "--devices-per-node 8 --device-kind x --device-memory-bytes 1000000000 --cluster-out OUT",
    "import megatron DEEP --out OUT",
    "import torchtitan DEEP --out OUT",
    "import deepspeed DEEP --model MODEL --devices 8 --out OUT",
    "import accelerate DEEP --model MODEL --devices 8 --out OUT",
    "import torch DEEP --model MODEL --out OUT",
    "calibrate --runs DEEP --out OUT",
    "calibrate --executions DEEP --out OUT",
    "calibrate --executions DEEP --from DEEP --under DEEP --out OUT",
    "calibration upload DEEP --cluster lab --server 127.0.0.1:1",
    "profile upload DEEP --cluster lab --node n --server 127.0.0.1:1",
    "runs DEEP",
]


class Nesting(PlanctlTest):
    def test_every_reader_refuses_it(self):
        files = {"MODEL": self.example("llama2-7b.model.json"),
                 "CLUSTER": self.example("a100-40g-8.cluster.json"),
                 "PROFILE": self.example("llama2-7b-a100.profile.json"),
                 "PLAN": self.folder / "right.plan.json",
                 "ENVELOPE": self.folder / "right.dsse.json",
                 "TRUST": self.folder / "right.jwks.json"}
        self.text("plan", *self.offline(), "--out", files["PLAN"])
        files["ENVELOPE"].write_text(ENVELOPE)
        files["TRUST"].write_text(TRUST)
        runs = []
        for number, (name, text) in enumerate(TEXTS.items()):
            path = self.folder / f"nested-{number}.json"
            path.write_text(text)
            for command in COMMANDS:
                words = [str({**files, "DEEP": path}.get(
                    word, word.replace("OUT", str(self.folder / f"out-{len(runs)}"))))
                         for word in command.split()]
                runs.append((name, command, words))
        with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            for (name, command, _), done in zip(runs, pool.map(
                    lambda run: planctl("--quiet", *run[2]), runs)):
                with self.subTest(text=name, command=command):
                    self.assertIn(done.returncode, (BAD_INPUT, NOT_VERIFIED), done.stderr[-500:])
                    self.assertIn("planctl: ", done.stderr)
                    # The text itself is no explanation.
                    self.assertLess(len(done.stderr), 2000)


if __name__ == "__main__":
    main()
