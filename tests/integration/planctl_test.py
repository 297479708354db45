#!/usr/bin/python3
"""planctl as a user runs it: every command, every exit code, text and JSON.

    planctl_test.py --planctl PATH [--server-binary PATH] [--examples FOLDER]

What asks a server is skipped, with the reason, where --server-binary is no file.
"""
import argparse
import base64
import datetime
import json
import os
import pathlib
import re
import socket
import stat
import subprocess
import sys
import tempfile
import unittest

FLAGS = None
COMMANDS = (
    ["plan"], ["shape"], ["compare"], ["evaluate"], ["verify"], ["explain"], ["report"],
    ["export"], ["import"], ["import", "galvatron"], ["import", "hf"], ["profile"],
    ["profile", "upload"], ["profile", "list"], ["profile", "show"], ["hardware"],
    ["hardware", "list"], ["hardware", "show"], ["calibration"], ["calibration", "upload"],
    ["calibration", "list"], ["calibration", "show"], ["calibration", "activate"],
    ["accuracy"], ["calibrate"], ["keys"],
    ["keys", "generate"], ["keys", "list"], ["keys", "rotate"])
RUNS = pathlib.Path(__file__).parents[1] / "planctl" / "accuracy" / "data" / "published_runs.json"
OK, INTERNAL, BAD_INPUT, NOTHING_FITS, MISSING, NOT_VERIFIED, UNAVAILABLE, NOT_FOUND = range(8)


def planctl(*arguments, env=None):
    return subprocess.run([FLAGS.planctl, *map(str, arguments)], capture_output=True, text=True,
                          timeout=120, env={**os.environ, **(env or {})})


class PlanctlTest(unittest.TestCase):
    """A folder for each test, and the question of deploy/examples."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def example(self, name):
        return FLAGS.examples / name

    def question(self, nodes=1, **changed):
        files = {"model": self.example("llama2-7b.model.json"),
                 "cluster": self.example(f"a100-40g-{8 * nodes}.cluster.json"), **changed}
        return ["--model", files["model"], "--cluster", files["cluster"], "--batch", 64]

    def offline(self, nodes=1, profile=None, **changed):
        if profile is None:
            profile = self.example("llama2-7b-a100.profile.json" if nodes == 1 else
                                   "llama2-7b-a100-2-nodes.profile.json")
        return ["--offline", *self.question(nodes, **changed), "--profile", profile]

    def edited(self, example, change):
        """An example, changed by a function, in the folder of the test."""
        content = json.loads(self.example(example).read_text())
        change(content)
        path = self.folder / example
        path.write_text(json.dumps(content))
        return path

    def text(self, *arguments, code=OK, env=None):
        done = planctl(*arguments, env=env)
        self.assertEqual(done.returncode, code, f"{arguments}\n{done.stdout}\n{done.stderr}")
        return done

    def json(self, *arguments, code=OK, env=None):
        """The one object on standard output."""
        done = self.text("--format", "json", *arguments, code=code, env=env)
        answer = json.loads(done.stdout)
        self.assertIsInstance(answer, dict)
        if code not in (OK, NOT_VERIFIED):
            self.assertEqual(list(answer), ["error"], arguments)
            self.assertEqual(list(answer["error"]), ["code", "reason", "message", "metadata"])
            self.assertTrue(answer["error"]["message"])
        return answer


class Arguments(PlanctlTest):
    def test_every_command_has_help_with_an_example(self):
        for command in COMMANDS:
            done = self.text(*command, "--help")
            self.assertIn("Example:\n  planctl " + command[0], done.stdout)
        done = self.text("--help")
        for command in COMMANDS:
            self.assertIn(command[0], done.stdout)
        self.assertRegex(self.text("--version").stdout, r"^planctl \d+\.\d+\.\d+")

    def test_wrong_arguments_give_2_and_one_object(self):
        for arguments in ([], ["fly"], ["plan"], ["plan", "--unknown"], ["keys"], ["import"],
                          ["plan", *self.offline(), "--batch", "many"],
                          ["plan", *self.offline(), "--schedule", "zigzag"],
                          ["plan", *self.offline(), "--headroom", "2"],
                          ["plan", *self.offline(), "--job", "4711"],
                          ["plan", *self.offline(), "--risk", "0.6"],
                          ["plan", *self.offline(), "--space", "all,-abacus"],
                          ["plan", *self.offline(), "--target", "abacus"],
                          ["plan", *self.offline(), "--batch-step", "2"],
                          ["plan", *self.offline(), "--batch-from", "65"],
                          ["plan", *self.offline(), "--top", "0"],
                          ["plan", *self.question(), "--threads", "2"],
                          ["explain", "plan.json", "--sensitivities"],
                          ["explain", "plan.json", "--rival", "other.json"],
                          ["explain", "plan.json", "--why-not", "dp", "--cluster", "c.json"],
                          ["plan", *self.offline(), "--runtime", "abacus"],
                          ["plan", *self.question(), "--profile", "p.json"],
                          ["plan", *self.question(), "--calibration", "c.json"],
                          ["compare", *self.question(), "--calibration", "c.json"],
                          ["shape", *self.question(), "--calibration", "c.json"],
                          ["evaluate", "plan.json", *self.question(), "--schedule", "gpipe"],
                          ["accuracy"], ["calibrate"], ["calibrate", "--out", "c.json"],
                          ["import", "galvatron"], ["report", "plan.json"]):
            self.text(*arguments, code=BAD_INPUT)
            self.json(*arguments, code=BAD_INPUT)

    def test_quiet_says_nothing_but_the_answer(self):
        done = self.text("--quiet", "plan", *self.offline(), "--out", self.folder / "plan.json")
        self.assertEqual(done.stderr, "")
        self.assertIn("step time", done.stdout)


class Offline(PlanctlTest):
    def test_plan_is_the_same_in_text_json_file_and_page(self):
        plan, page = self.folder / "plan.json", self.folder / "plan.html"
        answer = self.json("plan", *self.offline(), "--compare", "--out", plan, "--report", page)
        self.assertEqual(list(answer), ["plan", "prediction", "search", "comparisons"])
        self.assertTrue(answer["prediction"]["fits"])
        self.assertEqual(self.json("explain", plan)["prediction"], answer["prediction"])
        self.assertEqual(self.json("evaluate", plan, *self.offline()[1:])["prediction"],
                         answer["prediction"])
        text = self.text("explain", plan).stdout
        for line in text.splitlines():
            self.assertLessEqual(len(line), 96, line)
        self.assertIn("stage 0", text)
        self.text("report", plan, "--out", self.folder / "again.html")
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()),
                         ["again.html", "plan.html", "plan.json"])

    def test_explain_says_why_a_plan_is_not_another(self):
        plan, rival = self.folder / "plan.json", self.folder / "rival.json"
        self.json("plan", *self.offline(), "--out", plan)
        self.json("plan", *self.offline(), "--planner", "deepspeed-3d", "--out", rival)
        arguments = ["explain", plan, "--rival", rival, "--why-not", "deepspeed-3d", "--why-not",
                     "dp", "--sensitivities", *self.offline()[1:]]
        answer = self.json(*arguments)
        self.assertEqual(list(answer), ["against", "why_not", "sensitivities"])
        self.assertEqual(answer["against"], answer["why_not"][0]["explanation"])
        for side in ("plan", "rival"):
            terms = answer["against"]["differences"]
            self.assertAlmostEqual(sum(term[f"{side}_seconds"] for term in terms),
                                   answer["against"][side]["step_seconds"], 9)
        self.assertFalse(answer["why_not"][1]["feasible"])
        self.assertLess(answer["why_not"][1]["smallest"]["bytes_left"], 0)
        self.assertEqual([entry["resource"] for entry in answer["sensitivities"]],
                         ["memory", "bandwidth inside nodes", "speed of devices"])
        text = self.text(*arguments).stdout
        for line in text.splitlines():
            self.assertLessEqual(len(line), 96, line)
        self.assertIn("against `deepspeed-3d`", text)
        self.assertIn("why not `dp`", text)
        self.assertIn("what more would buy", text)

    def test_any_number_of_threads_gives_the_same_plan(self):
        one, four = (self.json("plan", *self.offline(), "--threads", count)
                     for count in ("1", "4"))
        for answer in (one, four):
            for clock in ("cpu_seconds", "wall_seconds"):
                del answer["search"][clock]
        self.assertEqual(one, four)

    def test_a_report_is_one_file_without_script_or_request(self):
        page = self.folder / "plan.html"
        self.text("plan", *self.offline(2), "--compare", "--report", page)
        html = page.read_text()
        self.assertIn("<svg", html)
        self.assertNotIn("<script", html)
        for name in ("src", "href", "action", "data", "poster"):
            for target in re.findall(rf"\s{name}\s*=\s*[\"']([^\"']*)", html):
                self.assertTrue(target.startswith(("#", "data:")), f"{name}={target}")
        self.assertNotRegex(html, r"url\(\s*[\"']?(?!#)")
        self.assertNotIn("@import", html)

    def test_compare_has_a_row_for_every_planner(self):
        for nodes in (1, 2):
            rows = self.json("compare", *self.offline(nodes), "--time-limit", "2")["comparisons"]
            self.assertEqual(len({row["planner"] for row in rows}), len(rows))
            self.assertGreaterEqual(len(rows), 9)
            self.assertTrue(any(not row["feasible"] for row in rows))
        text = self.text("compare", *self.offline(2), "--time-limit", "2").stdout
        self.assertIn("no such plan", text)

    def test_nothing_fits_gives_3_and_the_memory_that_would(self):
        def shrink(cluster):
            cluster["node_groups"][0]["device_memory_bytes"] = 1 << 30
        cluster = self.edited("a100-40g-8.cluster.json", shrink)
        error = self.json("plan", *self.offline(cluster=cluster), code=NOTHING_FITS)["error"]
        self.assertEqual(error["reason"], "NO_FEASIBLE_PLAN")
        smallest = int(error["metadata"]["smallestDeviceMemoryBytes"])

        def grow(cluster):
            cluster["node_groups"][0]["device_memory_bytes"] = smallest
        cluster = self.edited("a100-40g-8.cluster.json", grow)
        self.json("plan", *self.offline(cluster=cluster))

    def test_missing_measurements_give_4_and_all_of_them(self):
        def strip(profile):
            profile["collective_timings"] = [timing for timing in profile["collective_timings"]
                                             if "SEND" not in timing["collective"]]
            del profile["overlap_slowdown"]
        profile = self.edited("llama2-7b-a100.profile.json", strip)
        error = self.json("plan", *self.offline(profile=profile), code=MISSING)["error"]
        self.assertEqual(error["reason"], "PROFILE_MISSING")
        self.assertIn("send-receive", error["message"])
        self.assertIn("overlap_slowdown", error["message"])
        count = int(error["metadata"]["count"])
        self.assertEqual(len([key for key in error["metadata"] if key.startswith("missing")]),
                         count)

    def test_nothing_measured_gives_an_estimate_of_known_devices(self):
        answer = self.json("plan", "--offline", *self.question())
        self.assertEqual(answer["prediction"]["confidence"], "estimated")
        self.assertTrue(answer["prediction"]["estimated_items"])
        self.assertEqual(answer["plan"]["profile_digest"], "")
        self.assertEqual(len(answer["plan"]["hardware_digest"]), 64)
        self.assertTrue(self.json("compare", "--offline", *self.question(), "--time-limit",
                                  "2")["comparisons"])

        def rename(cluster):
            cluster["node_groups"][0]["device_kind"] = "abacus"
        cluster = self.edited("a100-40g-8.cluster.json", rename)
        error = self.json("plan", "--offline", *self.question(cluster=cluster),
                          code=BAD_INPUT)["error"]
        self.assertEqual(error["metadata"]["field"], "--profile")
        self.assertIn("planctl hardware list", error["message"])

    def test_evaluate_names_the_flag_that_contradicts_the_plan(self):
        plan = self.folder / "plan.json"
        self.json("plan", *self.offline(), "--out", plan)
        files = self.offline()[1:]
        files = [files[i] for i in range(len(files)) if "--batch" not in files[max(i - 1, 0):i + 1]]
        self.json("evaluate", plan, *files)
        for flag in ("--batch", "--micro-batches"):
            for value in (1, 63, 128):
                error = self.json("evaluate", plan, *files, flag, value, code=BAD_INPUT)["error"]
                self.assertEqual(error["metadata"]["field"], flag)
                self.assertNotIn("report", error["message"])

    def test_evaluate_answers_for_plans_that_no_search_makes(self):
        plan = self.folder / "plan.json"
        self.json("plan", "--offline", *self.question(), "--out", plan)
        content = json.loads(plan.read_text())
        # Two virtual stages on each half of the node, and pairs of GPUs that share the
        # tokens of a sample.
        strategy = {"tensor_parallel_degree": 1, "data_parallel_degree": 2,
                    "context_parallel_degree": 2,
                    "rank_order": ["PARALLEL_AXIS_TENSOR", "PARALLEL_AXIS_DATA"]}
        layers = [[("embedding", 0, 1), ("decoder", 1, 8)], [("decoder", 9, 8)],
                  [("decoder", 17, 8)], [("decoder", 25, 8), ("head", 33, 1)]]
        content.update(schedule="SCHEDULE_INTERLEAVED", virtual_stage_count=2,
                       micro_batch_count=16, stages=[
                           {"first_rank": 4 * (stage % 2), "rank_count": 4, "layer_runs": [
                               {"layer_definition_id": kind, "first_layer_index": first,
                                "layer_count": count, "strategy": dict(
                                    strategy, recompute_level="RECOMPUTE_LEVEL_SELECTIVE"
                                    if kind == "decoder" else "RECOMPUTE_LEVEL_NONE")}
                               for kind, first, count in runs]}
                           for stage, runs in enumerate(layers)])
        content["prediction"]["stages"] *= 2
        plan.write_text(json.dumps(content))
        page = self.folder / "plan.html"
        answer = self.json("evaluate", plan, *self.question(), "--report", page)
        self.assertEqual(answer["plan"]["schedule"], "interleaved")
        self.assertEqual(answer["plan"]["virtual_stage_count"], 2)
        self.assertEqual(len(answer["plan"]["stages"]), 4)
        self.assertEqual(len(answer["prediction"]["stages"]), 2)
        self.assertEqual(answer["plan"]["stages"][1]["layer_runs"][0]["strategy"]["recompute"],
                         "selective")
        self.assertIn("The devices of a row have 2 stages each", page.read_text())

    def test_a_broken_file_gives_2_with_file_line_and_field(self):
        model = self.folder / "m.json"
        model.write_text('{\n  "model_id": "m",\n  "layer_run": []\n}\n')
        error = self.json("plan", *self.offline(model=model), code=BAD_INPUT)["error"]
        self.assertIn(f"{model}:3: layer_run: no such field", error["message"])
        self.assertIn("did you mean `layer_runs`?", error["message"])
        for path in (self.folder / "none.json", self.folder):
            self.assertIn(str(path),
                          self.text("plan", *self.offline(model=path), code=BAD_INPUT).stderr)

    def test_a_file_that_cant_be_written_is_named(self):
        path = self.folder / "none" / "plan.json"
        self.assertIn(str(path), self.text("plan", *self.offline(), "--out", path,
                                           code=BAD_INPUT).stderr)

    def test_a_full_disk_gives_1(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run([FLAGS.planctl, "plan", *map(str, self.offline())],
                                  stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(done.returncode, INTERNAL, done.stderr)

    def test_a_plan_goes_through_galvatrons_format_and_back(self):
        plan, strategy = self.folder / "plan.json", self.folder / "galvatron_config.json"
        made = self.json("plan", *self.offline(), "--planner", "deepspeed-3d", "--out", plan)
        model = self.example("llama2-7b.model.json")
        self.json("export", plan, "--model", model, "--to", "galvatron", "--out", strategy)
        self.assertEqual(self.json("export", plan, "--model", model),
                         json.loads(strategy.read_text()))
        again = self.json("evaluate", strategy, *self.offline()[1:])
        self.assertEqual(again["prediction"]["step_seconds"], made["prediction"]["step_seconds"])
        self.assertEqual(again["plan"]["gist"], made["plan"]["gist"])

    def test_what_the_other_format_cant_hold_is_refused(self):
        plan = self.folder / "plan.json"
        self.json("plan", *self.offline(), "--out", plan)
        content = json.loads(plan.read_text())
        content["stages"][0]["layer_runs"][0]["strategy"]["recompute_level"] = (
            "RECOMPUTE_LEVEL_FULL")
        plan.write_text(json.dumps(content))
        error = self.json("export", plan, "--model", self.example("llama2-7b.model.json"),
                          code=BAD_INPUT)["error"]
        self.assertIn("Galvatron's format can't hold that", error["message"])


class Measured(PlanctlTest):
    """What was measured and published, by an excerpt of the runs."""

    FIGURES = {"count", "time_count", "memory_count", "time_mape", "time_median", "time_bias",
               "time_in_range", "memory_mape", "memory_bias", "memory_under_rate", "oom_total",
               "oom_refused", "false_refusals"}

    def setUp(self):
        super().setUp()
        self.runs = json.loads(RUNS.read_text())["runs"]

    def test_accuracy_has_every_row_once_and_figures_of_every_source(self):
        page = self.folder / "accuracy.html"
        answer = self.json("accuracy", RUNS, "--html", page)
        self.assertEqual(set(answer["sources"]), {run["source"] for run in self.runs})
        for source, figures in answer["sources"].items():
            self.assertLessEqual(self.FIGURES | {"skipped", "unfitted", "groups"}, set(figures))
            self.assertLessEqual(self.FIGURES, set(figures["unfitted"]))
            rows = [run for run in self.runs if run["source"] == source]
            self.assertEqual(figures["count"] + figures["skipped"], len(rows), source)
            for name in ("time_mape", "memory_mape", "memory_under_rate", "false_refusals"):
                self.assertGreaterEqual(figures[name] or 0.0, 0.0)
            # Fractions, not percent.
            self.assertLess(figures["time_mape"] or 0.0, 5.0, source)
        told = [row["id"] for row in answer["rows"] + answer["skipped"]]
        self.assertEqual(sorted(told), sorted(run["id"] for run in self.runs))
        for row in answer["skipped"]:
            self.assertTrue(row["reason"], row["id"])
        for row in answer["rows"]:
            self.assertGreater(row["predicted_step_seconds"], 0.0)
            self.assertGreater(row["predicted_memory_bytes"], 0)
        self.assertIsInstance(answer["groups"], list)
        self.assertNotIn("<script", page.read_text())

        source = "megatron-sc21-table1"
        one = self.json("accuracy", RUNS, "--source", source)
        self.assertEqual(one["sources"], {source: answer["sources"][source]})
        text = self.text("accuracy", RUNS).stdout
        for name in answer["sources"]:
            self.assertIn(name, text)

    def calibrate(self, out, *flags, code=OK):
        return self.json("calibrate", "--runs", RUNS, "--time-slice", "vtrain-single: all",
                         "--memory-slice", "megatron-ci-golden: all", "--time",
                         "2026-01-01T00:00:00Z", "--out", out, *flags, code=code)

    def test_calibrate_writes_what_others_read(self):
        path = self.folder / "c.calibration.json"
        answer = self.calibrate(path)
        self.assertEqual(answer["calibration"], str(path))
        self.assertRegex(answer["digest"], "^[0-9a-f]{64}$")
        for coefficient in answer["coefficients"]:
            self.assertLessEqual(coefficient["lowest"], coefficient["value"])
            self.assertLessEqual(coefficient["value"], coefficient["highest"])
            if coefficient["evidence_count"] == 0:
                self.assertEqual(coefficient["value"], coefficient["before"])
        fitted = {row["source"]: row for row in answer["residuals"]}
        self.assertEqual(set(fitted), {"vtrain-single", "megatron-ci-golden"})
        self.assertEqual(fitted["vtrain-single"]["quantity"], "step")
        self.assertEqual(fitted["megatron-ci-golden"]["quantity"], "memory")
        for row in fitted.values():
            self.assertLessEqual(row["mape_after"], row["mape_before"] + 1e-9)
        self.assertIsInstance(answer["skipped"], list)

        sources = json.loads(path.read_text())["provenance"]["sources"]
        self.assertEqual({row["source"] for row in sources}, set(fitted))
        self.assertEqual(self.json("accuracy", RUNS, "--calibration", path)["calibration"],
                         answer["digest"])
        plan = self.json("plan", "--offline", *self.question(), "--calibration", path)
        self.assertEqual(plan["plan"]["calibration_digest"], answer["digest"])
        again = self.folder / "again.json"
        self.assertEqual(self.calibrate(again)["digest"], answer["digest"])
        self.assertEqual(again.read_bytes(), path.read_bytes())

    def test_calibrate_takes_declared_slices_only(self):
        path = self.folder / "c.calibration.json"
        slices = ["--time-slice", "none", "--memory-slice", "megatron-ci-golden: all"]
        self.text("calibrate", "--runs", RUNS, *slices, "--out", path)
        sources = json.loads(path.read_text())["provenance"]["sources"]
        self.assertEqual([row["source"] for row in sources], ["megatron-ci-golden"])
        for slices in (["--time-slice", "vtrain-single"],
                       ["--memory-slice", "megatron-ci-golden: sha256(id) % 1 == 0"]):
            error = self.json("calibrate", "--runs", RUNS, *slices, "--out", path,
                              code=BAD_INPUT)["error"]
            self.assertEqual(error["metadata"]["field"], slices[0])

    def test_a_file_that_is_bad_or_missing_is_named(self):
        broken = self.folder / "broken.json"
        broken.write_text('{"schema": "published_runs/1", "runs": {}}')
        none = self.folder / "none.json"
        out = self.folder / "out.json"
        for path in (broken, none):
            for arguments in (["accuracy", path], ["calibrate", "--runs", path, "--out", out],
                              ["accuracy", RUNS, "--calibration", path],
                              ["calibrate", "--executions", path, "--out", out],
                              ["calibrate", "--runs", RUNS, "--from", path, "--out", out],
                              ["plan", "--offline", *self.question(), "--calibration", path]):
                error = self.json(*arguments, code=BAD_INPUT)["error"]
                self.assertIn(path.name, error["message"], arguments)
        self.assertFalse(out.exists())
        error = self.json("accuracy", RUNS, "--source", "nobody", code=BAD_INPUT)["error"]
        self.assertIn("nobody", error["message"])
        self.json("accuracy", RUNS, "--html", self.folder / "none" / "page.html", code=BAD_INPUT)
        self.calibrate(self.folder / "none" / "c.json", code=BAD_INPUT)


class Import(PlanctlTest):
    def write(self, name, content):
        path = self.folder / name
        path.write_text(json.dumps(content))
        return path

    def test_hf_gives_a_model_that_planctl_reads(self):
        config = self.write("config.json", {
            "model_type": "llama", "hidden_size": 4096, "intermediate_size": 11008,
            "num_attention_heads": 32, "num_hidden_layers": 32, "vocab_size": 32000,
            "max_position_embeddings": 2048, "tie_word_embeddings": False})
        model = self.folder / "m.model.json"
        answer = self.json("import", "hf", config, "--out", model)
        self.assertEqual(answer["model"], str(model))
        self.assertIsInstance(answer["notes"], list)
        # It is the model of the examples, so its measurements are found.
        self.json("plan", *self.offline(model=model))

    def test_hf_refuses_what_is_no_configuration(self):
        config = self.write("config.json", {"model_type": "unheard-of"})
        error = self.json("import", "hf", config, "--out", self.folder / "m.json",
                          code=BAD_INPUT)["error"]
        self.assertIn("config.json", error["message"])
        self.assertFalse((self.folder / "m.json").exists())

    def test_galvatron_gives_files_that_planctl_plans_with(self):
        times = self.write("computation.json", {
            "layertype_0_bsz1_seq512": 4.0, "layertype_0_bsz8_seq512": 3.5,
            "layertype_other_bsz1_seq512": 2.0, "layertype_other_bsz8_seq512": 1.5})
        activation = {"1": 60, "2": 36, "4": 22, "8": 14, "checkpoint": 2}
        other = {"model_states": {"1": 400, "2": 200, "4": 100, "8": 50},
                 "activation": {"1": 20, "2": 10, "4": 5, "8": 3}}
        memory = self.write("memory.json", {
            "layertype_0_sp": {"512": {"parameter_size": 48,
                                       "tp_activation_per_bsz_dict": activation}},
            "other_memory_pp_off_sp": {"512": other},
            "other_memory_pp_on_first_sp": {"512": other},
            "other_memory_pp_on_last_sp": {"512": other}})
        bandwidth = {f"allreduce_size_{size}_consec_{consecutive}": 100.0 + size
                     for size, consecutive in ((8, 1), (4, 1), (4, 0), (2, 1), (2, 0))}
        reduce = self.write("allreduce_bandwidth_1nodes_8gpus_per_node.json", bandwidth)
        send = self.write("p2p_bandwidth_1nodes_8gpus_per_node.json",
                          {"pp_size_2": 100, "pp_size_4": 90, "pp_size_8": 80})
        overlap = self.write("overlap_coefficient.json", {"overlap_coe": 1.2})
        out = {kind: self.folder / f"{kind}.json" for kind in ("profile", "model", "cluster")}
        answer = self.json(
            "import", "galvatron", "--computation", times, "--memory", memory,
            "--allreduce", reduce, "--p2p", send, "--overlap", overlap,
            "--model-id", "tiny", "--layers", 8, "--sequence-length", 512, "--hidden-size", 1024,
            "--attention-heads", 16, "--feed-forward-size", 4096, "--vocabulary-size", 32000,
            "--layer-kind", "decoder", "--feed-forward-kind", "gelu",
            "--profile-out", out["profile"], "--model-out", out["model"],
            "--cluster-out", out["cluster"])
        self.assertEqual({key: answer[key] for key in out},
                         {key: str(path) for key, path in out.items()})
        plan = self.json("plan", "--offline", "--model", out["model"], "--cluster",
                         out["cluster"], "--profile", out["profile"], "--batch", 16,
                         "--allow-estimates")
        self.assertEqual(plan["plan"]["device_count"], 8)
        self.assertIn(plan["prediction"]["confidence"], ("mixed", "estimated"))


class Keys(PlanctlTest):
    def keys(self, command, **expected):
        return self.json("keys", command, "--data-dir", self.folder / "data", **expected)

    def test_hardware_is_known_without_a_server(self):
        listed = self.json("hardware", "list")
        self.assertIn("a100-sxm-80gb", self.text("hardware", "list").stdout)
        for device in listed["devices"][::8]:
            self.assertEqual(self.json("hardware", "show", device["aliases"][0].lower()), device)
        for fabric in listed["fabrics"][::8]:
            self.assertEqual(self.json("hardware", "show", fabric["aliases"][0]), fabric)
        self.json("hardware", "show", "no such device", code=NOT_FOUND)

    def test_keys_are_made_listed_and_rotated(self):
        self.assertEqual(self.keys("list", code=NOT_FOUND)["error"]["reason"],
                         "RESOURCE_NOT_FOUND")
        self.keys("rotate", code=NOT_FOUND)
        made = self.keys("generate")
        self.assertEqual([key["status"] for key in made["keys"]], ["active", "next"])
        self.assertEqual(made["key_id"], made["keys"][1]["key_id"])
        listed = self.keys("list")
        self.assertEqual(listed["keys"], made["keys"])
        rotated = self.keys("rotate")
        self.assertEqual(rotated["key_id"], made["key_id"])
        self.assertEqual([key["status"] for key in rotated["keys"]], ["active", "active"])
        self.assertLess(rotated["keys"][0]["not_after"], made["keys"][0]["not_after"])
        self.assertIn(made["key_id"], self.text("keys", "list", "--data-dir",
                                                self.folder / "data").stdout)

    def test_only_the_owner_can_read_private_keys(self):
        made = self.keys("generate")
        folder = self.folder / "data" / "keys"
        files = [path for path in folder.rglob("*") if path.is_file()]
        self.assertTrue(files)
        for path in [folder, *files]:
            self.assertEqual(stat.S_IMODE(path.stat().st_mode) & 0o077, 0, path)
        pem = [path for path in files if b"PRIVATE KEY" in path.read_bytes()]
        self.assertEqual(len(pem), 2)
        for path in pem:
            self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o600)
        bundle = json.loads(pathlib.Path(made["trust_bundle"]).read_text())
        self.assertEqual(len(bundle["keys"]), 2)
        for key in bundle["keys"]:
            self.assertNotIn("d", key)


class Away(PlanctlTest):
    def test_a_server_that_is_not_there_gives_6(self):
        with socket.socket() as bound:
            # Bound and not listening: nobody else can take the port meanwhile.
            bound.bind(("127.0.0.1", 0))
            server = ["--server", f"127.0.0.1:{bound.getsockname()[1]}", "--timeout", 3]
            profile = self.example("llama2-7b-a100.profile.json")
            for arguments in (["plan", *self.question()], ["shape", *self.question()],
                              ["compare", *self.question()],
                              ["profile", "list", "--cluster", "c"],
                              ["calibration", "list", "--cluster", "c"],
                              ["calibration", "show", "clusters/c/calibrations/k"],
                              ["calibration", "activate", "clusters/c/calibrations/k"],
                              ["profile", "show", "clusters/c/nodes/n/profiles/p"],
                              ["profile", "upload", profile, "--cluster", "c", "--node", "n"]):
                self.json(*arguments, *server, code=UNAVAILABLE)
            self.assertIn("is parplan-server running there?",
                          self.text("profile", "list", "--cluster", "c", *server,
                                    code=UNAVAILABLE).stderr)


class Server(PlanctlTest):
    """Against a server of this test alone, with the examples uploaded."""

    @classmethod
    def setUpClass(cls):
        if FLAGS.server_binary is None or not pathlib.Path(FLAGS.server_binary).is_file():
            raise unittest.SkipTest("no parplan-server is built: --server-binary is no file")
        import parplan_process
        cls.server_folder = tempfile.TemporaryDirectory()
        cls.server = parplan_process.Server(FLAGS.server_binary, cls.server_folder.name).start()
        cls.env = {"PARPLAN_SERVER": cls.server.address}
        cls.trust = pathlib.Path(cls.server_folder.name) / "data" / "trust-bundle.jwks.json"
        for nodes, name in ((1, "llama2-7b-a100"), (2, "llama2-7b-a100-2-nodes")):
            done = planctl("--format", "json", "profile", "upload",
                           FLAGS.examples / f"{name}.profile.json",
                           "--cluster", f"a100-40g-{8 * nodes}", "--node", "node-0", env=cls.env)
            assert done.returncode == OK, done.stderr
            if nodes == 1:
                cls.uploaded = json.loads(done.stdout)

    @classmethod
    def tearDownClass(cls):
        if hasattr(cls, "server"):
            cls.server.__exit__()
            cls.server_folder.cleanup()

    def ask(self, *arguments, code=OK):
        return self.json(*arguments, code=code, env=self.env)

    def signed(self, *flags):
        """A signed plan for job 4711, in a file."""
        path = self.folder / "plan.dsse.json"
        self.ask("plan", *self.question(), "--job", "4711", "--out", path, *flags)
        return path

    def verify(self, path, *flags, code=NOT_VERIFIED, trust=None):
        """The verdict, which text and JSON must agree about."""
        arguments = ["verify", path, "--trust", trust or self.trust, *flags]
        answer = self.json(*arguments, code=code)
        self.text(*arguments, code=code)
        self.assertEqual(answer["valid"], code == OK)
        return answer["verdict"]

    def test_profiles_are_uploaded_listed_and_shown(self):
        rows = self.ask("profile", "list", "--cluster", "a100-40g-8")["profiles"]
        self.assertEqual([row["name"] for row in rows], [self.uploaded["name"]])
        shown = self.ask("profile", "show", self.uploaded["name"])
        self.assertEqual(shown["device_kind"], "NVIDIA A100-SXM4-40GB")
        # What is shown can be uploaded and planned with again.
        path = self.folder / "shown.json"
        path.write_text(json.dumps(shown))
        self.json("plan", *self.offline(profile=path))
        again = self.ask("profile", "upload", path, "--cluster", "again", "--node", "n")
        self.assertEqual(again["digest"], self.uploaded["digest"])
        self.ask("profile", "show", self.uploaded["name"] + "0", code=NOT_FOUND)
        self.assertEqual(self.ask("profile", "list", "--cluster", "none")["profiles"], [])

    def calibration(self, matrix_efficiency):
        """A calibration file, by hand."""
        path = self.folder / "c.calibration.json"
        path.write_text(json.dumps({
            "provenance": {"agent": "by hand", "sources": [{"source": "lab", "row_count": 12}]},
            "coefficient_values": [{"coefficient": "matrix_efficiency",
                                    "value": matrix_efficiency, "fitted": True}]}))
        return path

    def test_calibrations_are_uploaded_listed_shown_and_activated(self):
        cluster = "a100-40g-16"
        question = [*self.question(2), "--job", "calibrated"]
        listed = self.ask("calibration", "list", "--cluster", cluster)
        self.assertEqual(listed, {"active_calibration": "", "calibrations": []})
        self.text("calibration", "list", "--cluster", cluster, env=self.env)
        path = self.calibration(0.5)
        first = self.ask("calibration", "upload", path, "--cluster", cluster)
        self.assertFalse(first["active"])
        self.assertEqual(self.ask("calibration", "upload", path, "--cluster", cluster), first)
        second = self.ask("calibration", "upload", self.calibration(0.6), "--cluster", cluster,
                          "--activate")
        self.assertTrue(second["active"])
        listed = self.ask("calibration", "list", "--cluster", cluster)
        self.assertEqual(listed, {"active_calibration": second["name"],
                                  "calibrations": [second, first]})
        text = self.text("calibration", "list", "--cluster", cluster, env=self.env).stdout
        self.assertIn(f"{second['name']}  active\n  from lab (12 runs)\n", text)

        # What is shown can be uploaded again: it is the same calibration.
        shown = self.ask("calibration", "show", first["name"])
        path.write_text(json.dumps(shown))
        self.assertEqual(self.ask("calibration", "upload", path, "--cluster", cluster), first)

        answer = self.ask("calibration", "activate", first["name"])
        self.assertEqual(answer, {"active_calibration": first["name"], "digest": first["digest"]})
        calibrated = self.ask("plan", *question)
        answer = self.ask("calibration", "activate", "--built-in", "--cluster", cluster)
        self.assertEqual(answer, {"active_calibration": "", "digest": ""})
        built_in = self.ask("plan", *question)
        self.assertNotEqual(built_in["plan"]["name"], calibrated["plan"]["name"])
        self.assertFalse(built_in["search"]["from_cache"])

        self.ask("calibration", "activate", first["name"] + "0", code=NOT_FOUND)
        self.ask("calibration", "show", first["name"] + "0", code=NOT_FOUND)
        for wrong in ([], ["--built-in"], [first["name"], "--cluster", "other"],
                      [first["name"], "--built-in", "--cluster", cluster]):
            self.ask("calibration", "activate", *wrong, code=BAD_INPUT)
        self.ask("calibration", "upload", self.calibration(-1), "--cluster", cluster,
                 code=BAD_INPUT)

    def test_a_plan_of_the_server_is_the_plan_made_offline(self):
        for nodes in (1, 2):
            mine = self.json("plan", *self.offline(nodes))
            theirs = self.ask("plan", *self.question(nodes))
            self.assertEqual(list(theirs), ["plan", "prediction", "search"])
            self.assertEqual(theirs["plan"]["gist"], mine["plan"]["gist"])
            self.assertEqual(theirs["prediction"], mine["prediction"])
            for digest in ("model_digest", "topology_digest", "profile_digest", "hardware_digest",
                           "calibration_digest", "runtime_id"):
                self.assertEqual(theirs["plan"][digest], mine["plan"][digest])
            again = self.ask("plan", *self.question(nodes))
            self.assertTrue(again["search"]["from_cache"])
            self.assertEqual(again["plan"], theirs["plan"])

    def test_a_comparison_of_the_server_is_the_one_made_offline(self):
        for nodes in (1, 2):
            mine = {row["planner"]: row
                    for row in self.json("compare", *self.offline(nodes), "--time-limit",
                                          "2")["comparisons"]}
            theirs = self.ask("compare", *self.question(nodes))["comparisons"]
            self.assertGreaterEqual(len(theirs), 8)
            for row in theirs:
                self.assertEqual(row, mine[row["planner"]])

    def test_shape_says_what_to_ask_for(self):
        answer = self.ask("shape", *self.question(), "--min-devices", 8)
        best = answer["options"][answer["recommended_option_index"]]
        self.assertTrue(best["feasible"])
        self.assertEqual(best["device_count"], 8)
        self.assertIn("what to ask for", self.text("shape", *self.question(), "--min-devices", 8,
                                                   env=self.env).stdout)

    def test_what_has_no_measurements_gives_4(self):
        def other_kind(cluster):
            cluster["node_groups"][0]["device_kind"] = "Unheard-of GPU"
        cluster = self.edited("a100-40g-8.cluster.json", other_kind)
        error = self.ask("plan", *self.question(cluster=cluster), code=MISSING)["error"]
        self.assertEqual(error["reason"], "PROFILE_MISSING")

    def test_a_signed_plan_is_valid_for_whom_it_is(self):
        path = self.signed()
        self.assertEqual(
            self.verify(path, "--cluster", "a100-40g-8", "--job", "4711", "--topology",
                        self.example("a100-40g-8.cluster.json"), code=OK), "valid")
        self.assertIn("signed by", self.text("explain", path).stdout)

    def test_each_refusal_has_its_own_reason(self):
        path = self.signed("--valid-hours", "1")
        envelope = json.loads(path.read_text())
        payload = bytearray(base64.b64decode(envelope["payload"]))
        payload[len(payload) // 2] ^= 1
        altered = self.folder / "altered.json"
        altered.write_text(json.dumps(
            {**envelope, "payload": base64.b64encode(payload).decode()}))
        self.assertEqual(self.verify(altered), "bad_signature")

        other = self.json("keys", "generate", "--data-dir", self.folder / "other")
        self.assertEqual(self.verify(path, trust=other["trust_bundle"]), "bad_signature")
        later = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=2)
        self.assertEqual(self.verify(path, "--at", later.strftime("%Y-%m-%dT%H:%M:%SZ")),
                         "expired")
        self.assertEqual(self.verify(path, "--job", "4712"), "wrong_audience")
        self.assertEqual(self.verify(path, "--cluster", "elsewhere"), "wrong_audience")
        self.assertEqual(
            self.verify(path, "--topology", self.example("a100-40g-16.cluster.json")),
            "wrong_topology")

    def test_the_server_is_not_asked_to_verify(self):
        path = self.signed()
        done = planctl("verify", path, "--trust", self.trust,
                       env={"PARPLAN_SERVER": "127.0.0.1:1"})
        self.assertEqual(done.returncode, OK, done.stderr)


def main():
    global FLAGS
    parser = argparse.ArgumentParser()
    parser.add_argument("--planctl", required=True)
    parser.add_argument("--server-binary")
    parser.add_argument("--examples", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parents[2] / "deploy/examples")
    FLAGS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
