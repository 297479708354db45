#!/usr/bin/python3
"""planctl as a user runs it without a server: every command, every exit code, text and JSON.

    planctl_test.py --planctl PATH [--examples FOLDER]
"""
import json
import re
import subprocess
import xml.etree.ElementTree

from planctl_run import (
    FLAGS, INTERNAL, BAD_INPUT, NOTHING_FITS, MISSING, PlanctlTest, main)

COMMANDS = (
    ["plan"], ["shape"], ["compare"], ["evaluate"], ["verify"], ["explain"], ["report"],
    ["trace"],
    ["export"], ["import"], ["import", "galvatron"], ["import", "hf"],
    ["import", "megatron"], ["import", "torchtitan"], ["import", "deepspeed"],
    ["import", "accelerate"], ["import", "torch"], ["profile"],
    ["profile", "upload"], ["profile", "list"], ["profile", "show"], ["hardware"],
    ["hardware", "list"], ["hardware", "show"], ["calibration"], ["calibration", "upload"],
    ["calibration", "list"], ["calibration", "show"], ["calibration", "activate"],
    ["calibrate"], ["executions"], ["ilp-graph"], ["runs"], ["strategies"])


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
        for arguments in ([], ["fly"], ["plan"], ["plan", "--unknown"], ["import"],
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
                          ["profile", "list", "--cluster", "c", "--timeout", "inf"],
                          ["explain", "plan.json", "--sensitivities"],
                          ["explain", "plan.json", "--rival", "other.json"],
                          ["explain", "plan.json", "--why-not", "dp", "--cluster", "c.json"],
                          ["plan", *self.offline(), "--runtime", "abacus"],
                          ["plan", *self.question(), "--profile", "p.json"],
                          ["plan", *self.question(), "--calibration", "c.json"],
                          ["compare", *self.question(), "--calibration", "c.json"],
                          ["shape", *self.question(), "--calibration", "c.json"],
                          ["evaluate", "plan.json", *self.question(), "--schedule", "gpipe"],
                          ["evaluate", *self.question()],
                          ["evaluate", "p.json", "--megatron-args", "--bf16", *self.question()],
                          ["evaluate", "p.json", *self.question()[2:]],
                          ["evaluate", "p.json", *self.question(), "--vocabulary-size", "9"],
                          ["import", "megatron", "run.sh"],
                          ["import", "deepspeed", "ds_config.json", "--devices", "8"],
                          ["import", "accelerate", "a.yaml", "--recompute", "some"],
                          ["import", "torch", "none.json", "--model", "m.json"],
                          ["import", "megatron", "none.sh", "--out", "p.json"],
                          ["import", "torchtitan", "run.toml"],
                          ["import", "torchtitan", "none.toml", "--out", "p.json"],
                          ["export", "plan.json", "--model", "m.json", "--to", "abacus"],
                          ["calibrate"], ["calibrate", "--out", "c.json"],
                          ["import", "galvatron"], ["report", "plan.json"],
                          ["trace", "plan.json"]):
            self.text(*arguments, code=BAD_INPUT)
            self.json(*arguments, code=BAD_INPUT)

    def test_studies_say_where_they_went(self):
        for command, study in (("accuracy", "accuracy"), ("oracle", "oracle"),
                               ("parity-2022", "parity"), ("parity", "parity"),
                               ("ilp-table", "table2"), ("ilp", "table2")):
            for arguments in ([command], [command, "runs.json", "--html", "x"], [command, "--help"]):
                error = self.json(*arguments, code=BAD_INPUT)["error"]
                self.assertIn(f"`parplan-study {study}`", error["message"])
                self.assertIn(f"`parplan-study {study}`",
                              self.text(*arguments, code=BAD_INPUT).stderr)
        self.assertNotIn("accuracy", self.text("--help").stdout)

    def test_commands_for_a_server_s_data_say_where_they_went(self):
        for command in ("keys", "store"):
            for arguments in ([command], [command, "list", "--data-dir", "d"], [command, "--help"]):
                error = self.json(*arguments, code=BAD_INPUT)["error"]
                self.assertIn(f"`parplan-server {command}`", error["message"])
                self.assertIn(f"`parplan-server {command}`",
                              self.text(*arguments, code=BAD_INPUT).stderr)
            self.assertNotRegex(self.text("--help").stdout, rf"(?m)^  {command} ")

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

    def test_explain_adds_up_the_parameters_by_part(self):
        plan = self.folder / "plan.json"
        self.json("plan", *self.offline(), "--out", plan)
        arguments = ["explain", plan, "--parameters", *self.offline()[1:]]
        parts = self.json(*arguments)["parameters"]
        # Llama-2-7B: 32 layers of 4096, feed-forward 11008, 32000 words at both ends.
        self.assertEqual(parts, {"embedding": 32000 * 4096, "attention": 32 * 4 * 4096 * 4096,
                                 "feed_forward": 32 * 3 * 4096 * 11008, "experts": 0,
                                 "other": 32 * 2 * 4096, "head": 32000 * 4096 + 4096})
        self.assertIn(str(sum(parts.values())), self.text(*arguments).stdout)
        model = self.example("llama2-7b.model.json")
        self.assertEqual(self.json("explain", plan, "--parameters", "--model", model)["parameters"],
                         parts)
        # No plan is needed for them, but for all else.
        self.assertEqual(self.json("explain", "--parameters", "--model", model)["parameters"],
                         parts)
        for flags in ([], ["--parameters", "--why-not", "dp"]):
            self.assertIn("plan: is required", self.text("explain", *flags, *self.offline()[1:],
                                                         code=BAD_INPUT).stderr)
        # A strategy file of Galvatron is a plan as well, whether or not it names its devices.
        given, strategy = self.folder / "given.json", self.folder / "galvatron_config.json"
        self.json("plan", *self.offline(), "--planner", "deepspeed-3d", "--out", given)
        self.json("export", given, "--model", model, "--to", "galvatron", "--out", strategy)
        for text in (strategy.read_text(),
                     json.dumps(dict(json.loads(strategy.read_text()), world_size=None))):
            strategy.write_text(text)
            self.assertEqual(
                self.json("explain", strategy, "--parameters", "--model", model)["parameters"], parts)
        strategy.write_text('{"pp_deg": ')
        self.assertIn(str(strategy), self.text("explain", strategy, "--parameters", "--model", model,
                                               code=BAD_INPUT).stderr)
        self.assertIn("--model", self.text("explain", plan, "--parameters",
                                           code=BAD_INPUT).stderr)
        self.assertIn(str(model), self.text("explain", model, "--parameters", "--model", model,
                                            code=BAD_INPUT).stderr)

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

    def test_explain_bmw_shows_the_walk_of_a_plan_of_several_stages(self):
        plan = self.folder / "plan.json"
        self.json("plan", *self.offline(), "--planner", "pp", "--out", plan)
        walks = self.json("explain", plan, "--bmw", *self.offline()[1:])["bmw"]
        self.assertTrue(walks)
        for walk in walks:
            self.assertEqual(walk["steps"][0]["verdict"], "start")
        text = self.text("explain", plan, "--bmw", *self.offline()[1:]).stdout
        self.assertIn("from balanced memory to balanced time", text)
        self.assertIn("alpha_t", text)
        error = self.json("explain", plan, "--bmw", code=BAD_INPUT)["error"]
        self.assertIn("--model", error["message"])
        one_stage = self.folder / "one.json"
        self.json("plan", *self.offline(), "--planner", "sdp", "--out", one_stage)
        error = self.json("explain", one_stage, "--bmw", *self.offline()[1:],
                          code=BAD_INPUT)["error"]
        self.assertIn("--bmw", error["message"])

    def test_any_number_of_threads_gives_the_same_plan(self):
        one, four = (self.json("plan", *self.offline(), "--threads", count)
                     for count in ("1", "4"))
        for answer in (one, four):
            for clock in ("cpu_seconds", "wall_seconds"):
                del answer["search"][clock]
        self.assertEqual(one, four)

    def test_a_trace_has_the_predicted_step(self):
        plan, trace = self.folder / "plan.json", self.folder / "trace.json"
        answer = self.json("plan", *self.offline(), "--out", plan)
        self.assertEqual(self.json("trace", plan, "--out", trace)["trace"], str(trace))
        document = json.loads(trace.read_text())
        events = document["traceEvents"]
        rows = {event["tid"]: event["args"]["name"] for event in events
                if event["name"] == "thread_name"}
        spans = [event for event in events if event["ph"] == "X"]
        self.assertEqual({event["tid"] for event in spans}, set(rows))
        passes = [event["name"] for event in spans if event["cat"] in ("forward", "backward")]
        shape = answer["plan"]
        self.assertEqual(len(passes), len(set(passes)))
        self.assertEqual(len(passes),
                         2 * len(shape["stages"]) * shape["micro_batch_count"])
        self.assertIn("0F0", passes)
        step = answer["prediction"]["step_seconds"]
        self.assertAlmostEqual(
            next(event for event in spans if event["name"] == "step")["dur"], step * 1e6, 3)
        self.assertLessEqual(max(event["ts"] + event["dur"] for event in spans), step * 1e6 + 1)

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

    def test_strategies_of_powers_of_two_need_such_devices(self):
        error = self.json("strategies", "--devices", "12", "--powers-of-two",
                          code=BAD_INPUT)["error"]
        self.assertIn("--powers-of-two", error["message"])
        self.json("strategies", "--devices", "16", "--powers-of-two")

    def test_ilp_graph_has_the_redundancy_of_every_strategy_and_draws_it(self):
        rows = self.json("compare", *self.offline(), "--time-limit", "2")["comparisons"]
        if "min-memory-ilp" not in {row["planner"] for row in rows}:
            self.skipTest("a build without CBC")
        picture = self.folder / "graph.svg"
        graph = self.json("ilp-graph", *self.question(), "--svg", picture)
        self.assertTrue(graph["is_proved"])
        self.assertAlmostEqual(graph["redundant_bytes"],
                               graph["memory_bytes"] - graph["even_share_bytes"])
        devices = graph["device_count"]
        for operator in graph["operators"]:
            chosen = [row for row in operator["strategies"]
                      if row["strategy"] == operator["chosen"]]
            self.assertEqual(len(chosen), 1, operator["name"])
            for row in operator["strategies"]:
                self.assertAlmostEqual(row["redundant_bytes"],
                                       row["memory_bytes"] - operator["unique_bytes"] / devices,
                                       delta=1.0)
        root = xml.etree.ElementTree.parse(picture).getroot()
        boxes = root.findall("{http://www.w3.org/2000/svg}rect")
        self.assertEqual(len(boxes) - 1,
                         sum(len(operator["strategies"]) for operator in graph["operators"]))
        name = graph["operators"][1]["name"]
        one = self.text("ilp-graph", *self.question(), "--mesh", devices, "--operator", name,
                        "--svg", picture).stdout
        self.assertIn(f"{name} on a mesh of {devices}", one)
        self.assertIn(f"Strategies of {name}", picture.read_text())
        error = self.json("ilp-graph", *self.question(), "--mesh", "5", code=BAD_INPUT)["error"]
        self.assertIn("mesh: `5`", error["message"])

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
        for arguments in (["plan", *map(str, self.offline())], ["--help"], ["plan", "--help"],
                          ["--version"], ["--completion", "bash"]):
            with open("/dev/full", "w", encoding="utf-8") as full:
                done = subprocess.run([FLAGS.planctl, *arguments], stdout=full,
                                      stderr=subprocess.PIPE, text=True, check=False)
            self.assertEqual(done.returncode, INTERNAL, done.stderr)
            self.assertIn("cannot write standard output", done.stderr)

    def test_flags_of_strategy_files_are_refused_for_other_plans(self):
        plan = self.folder / "plan.json"
        self.json("plan", *self.offline(), "--out", plan)
        for given in ([plan, *self.offline()[1:]],
                      ["--megatron-args", "--bf16", *self.offline()[1:]]):
            for flag in (["--galvatron-micro-batches", "3"], ["--ulysses-as-data-parallel"]):
                error = self.json("evaluate", *given, *flag, code=BAD_INPUT)["error"]
                self.assertEqual(error["metadata"]["field"], flag[0])
        error = self.json("evaluate", plan, *self.offline()[1:], "--galvatron-micro-batches", "-3",
                          code=BAD_INPUT)["error"]
        self.assertIn("--galvatron-micro-batches", error["message"])

    def test_a_plan_file_cannot_steer_the_terminal(self):
        plan = self.folder / "plan.json"
        self.json("plan", *self.offline(), "--out", plan)
        content = json.loads(plan.read_text())
        content["planner"] = "exact\x1b[2J"
        plan.write_text(json.dumps(content))
        done = self.text("explain", plan)
        self.assertIn("exact\\u001b[2J", done.stdout)
        self.assertNotIn("\x1b", done.stdout)


if __name__ == "__main__":
    main()
