#!/usr/bin/python3
"""Files that planctl reads and writes: measured runs and imports; and a server that is away.

    planctl_files_test.py --planctl PATH --study PATH [--examples FOLDER]
"""
import json
import pathlib
import socket
import threading

from planctl_run import (OK, BAD_INPUT, UNAVAILABLE, NOT_FOUND, PlanctlTest, main)

RUNS = pathlib.Path(__file__).parents[1] / "studies" / "accuracy" / "data" / "published_runs.json"


class Measured(PlanctlTest):
    """Measured and published figures, by an excerpt of the runs."""

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
        study = self.json("accuracy", RUNS, "--calibration", path, program="study")
        self.assertEqual(study["calibration"], answer["digest"])
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
            for arguments in (["calibrate", "--runs", path, "--out", out],
                              ["calibrate", "--executions", path, "--out", out],
                              ["calibrate", "--runs", RUNS, "--from", path, "--out", out],
                              ["plan", "--offline", *self.question(), "--calibration", path]):
                error = self.json(*arguments, code=BAD_INPUT)["error"]
                self.assertIn(path.name, error["message"], arguments)
        self.assertFalse(out.exists())
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

    def test_a_run_of_megatron_goes_through_every_command(self):
        script, folder = self.folder / "run.sh", self.folder / "launch"
        script.write_text(
            "TP=2\nARGS=(--num-layers 32 --hidden-size 4096 --num-attention-heads 32\n"
            "  --ffn-hidden-size 11008 --swiglu --normalization RMSNorm --disable-bias-linear\n"
            "  --position-embedding-type rope --untie-embeddings-and-output-weights\n"
            "  --seq-length 2048 --vocab-size 32000 --bf16 --lr $LR)\n"
            "torchrun --nproc_per_node 8 pretrain_gpt.py ${ARGS[@]} --micro-batch-size 1 \\\n"
            "  --global-batch-size 64 --tensor-model-parallel-size $TP --sequence-parallel \\\n"
            "  --use-distributed-optimizer --pipeline-model-parallel-size 2\n")
        model, today = self.folder / "m.model.json", self.folder / "today.plan.json"
        answer = self.json("import", "megatron", script, "--model-out", model, "--out", today)
        self.assertEqual((answer["model"], answer["plan"]), (str(model), str(today)))
        self.assertTrue(any("--lr" in note for note in answer["notes"]), answer["notes"])
        self.assertNotIn("prediction", json.loads(today.read_text()))
        question = ["--model", model, *self.question()[2:4]]
        self.assertEqual(question[2], "--cluster")
        by_file = self.json("evaluate", today, *question)
        by_script = self.json("evaluate", "--megatron-args", script, *question[2:])
        self.assertEqual(by_file["prediction"], by_script["prediction"])
        self.assertEqual(by_file["plan"]["runtime_id"], "megatron-core")
        self.assertEqual(by_file["plan"]["pipeline_parallel_degree"], 2)
        # Nothing that Megatron-LM runs is predicted to be faster than the best plan for it.
        best = self.folder / "best.plan.json"
        planned = self.json("plan", "--offline", *question, "--batch", "64", "--target", "megatron",
                            "--runtime", "megatron-core", "--out", best)
        self.assertLessEqual(planned["prediction"]["step_seconds"],
                             by_file["prediction"]["step_seconds"] * (1 + 1e-9))
        done = self.text("explain", best, "--rival", today, *question)
        self.assertIn("against the rival", done.stdout)
        self.assertIn("together", done.stdout)
        self.assertNotIn("the rival is for", done.stderr)
        # A rival of another runtime is predicted under that of the plan, which a note says.
        content = json.loads(today.read_text())
        self.assertEqual(content["runtime_id"], "megatron-core")
        other = self.folder / "other.plan.json"
        other.write_text(json.dumps(dict(content, runtime_id="megatron-2022")))
        noted = self.text("explain", best, "--rival", other, *question)
        self.assertIn("the rival is for the runtime `megatron-2022`", noted.stderr)
        self.assertEqual(noted.stdout, done.stdout)
        chosen = self.text("explain", best, "--rival", other, *question,
                           "--runtime", "megatron-core")
        self.assertNotIn("the rival is for", chosen.stderr)
        # Exported and read again, today's plan is the same.
        self.json("export", today, "--model", model, "--to", "megatron", "--out", folder)
        again = self.json("evaluate", "--megatron-args", folder / "megatron.args", *question)
        self.assertEqual(again["prediction"], by_file["prediction"])
        text = " ".join((folder / "megatron.args").read_text().split("\n"))
        again = self.json("evaluate", "--megatron-args", text, *question)
        self.assertEqual(again["prediction"], by_file["prediction"])

    def test_flags_complete_a_run_of_megatron_that_is_evaluated(self):
        script = self.folder / "run.sh"
        script.write_text(
            "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 32 --hidden-size 4096 \\\n"
            "  --num-attention-heads 32 --ffn-hidden-size 11008 --swiglu --seq-length 2048 \\\n"
            "  --untie-embeddings-and-output-weights --bf16 --micro-batch-size 1 \\\n"
            "  --tokenizer-type HuggingFaceTokenizer --tokenizer-model /models/llama \\\n"
            "  --global-batch-size 64 --tensor-model-parallel-size 2 --use-distributed-optimizer\n")
        asked = ["evaluate", "--megatron-args", script, *self.question()[2:4]]
        self.assertEqual(asked[3], "--cluster")
        error = self.json(*asked, code=BAD_INPUT)["error"]
        self.assertIn("vocabulary_size (--vocab-size, or the flag --vocabulary-size)", error["message"])
        with_flag = self.json(*asked, "--vocabulary-size", "32000")
        script.write_text(script.read_text().replace("--bf16", "--bf16 --vocab-size 32000"))
        self.assertEqual(self.json(*asked)["prediction"], with_flag["prediction"])
        model = self.folder / "m.model.json"
        self.json("import", "megatron", script, "--model-out", model)
        error = self.json(*asked, "--model", model, "--vocabulary-size", "32000",
                          code=BAD_INPUT)["error"]
        self.assertEqual(error["metadata"]["field"], "--vocabulary-size")

    def test_a_layout_with_empty_stages_goes_through_every_command(self):
        script, folder = self.folder / "run.sh", self.folder / "launch"
        script.write_text(
            "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 32 --hidden-size 4096 \\\n"
            "  --num-attention-heads 32 --ffn-hidden-size 11008 --swiglu --seq-length 2048 \\\n"
            "  --untie-embeddings-and-output-weights --vocab-size 32000 --bf16 \\\n"
            "  --micro-batch-size 1 --global-batch-size 64 --tensor-model-parallel-size 2 \\\n"
            "  --sequence-parallel --use-distributed-optimizer \\\n"
            "  --pipeline-model-parallel-size 2 \\\n"
            "  --pipeline-model-parallel-layout 'Et*16|||t*16L'\n")
        model, today = self.folder / "m.model.json", self.folder / "today.plan.json"
        self.json("import", "megatron", script, "--model-out", model, "--out", today)
        question = ["--model", model, *self.question()[2:4]]
        ours = self.json("evaluate", today, *question)
        self.assertIn(" | empty | empty | ", ours["plan"]["gist"])
        self.assertEqual([len(stage["layer_runs"]) > 0 for stage in ours["plan"]["stages"]],
                         [True, False, False, True])
        text = self.text("evaluate", today, *question).stdout
        self.assertEqual(text.count("no layers: hands on what it receives"), 2)
        self.json("export", today, "--model", model, "--to", "megatron", "--out", folder)
        self.assertIn("--pipeline-model-parallel-layout=Et*16|||t*16L\n",
                      (folder / "megatron.args").read_text())
        again = self.json("evaluate", "--megatron-args", folder / "megatron.args", *question)
        self.assertEqual(again["prediction"], ours["prediction"])
        error = self.json("export", today, "--model", model, "--to", "torchtitan", "--out", folder,
                          code=BAD_INPUT)["error"]
        self.assertIn("stages[1]", error["message"])
        self.assertIn("`planctl plan --target torchtitan` finds plans that it runs",
                      error["message"])
        error = self.json("evaluate", today, *question, "--runtime", "torch",
                          code=BAD_INPUT)["error"]
        self.assertIn("stage 1 has no layers, which the runtime torch does not run",
                      error["message"])

    def test_a_run_of_megatron_that_cannot_be_read_is_named(self):
        path = self.folder / "run.args"
        shape = ("--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 16 "
                 "--vocab-size 100 --micro-batch-size 1 ")
        for text, flags, words in (
                (shape, [], "--devices: is needed"),
                (shape + "--tensor-model-parallel-size 3", ["--devices", "8"], "does not divide 8"),
                (shape + "--new-thing", ["--devices", "8"], "--new-thing"),
                ("torchrun x.py --micro-batch-size $MBS", ["--devices", "8"], "$MBS"),
                ("", ["--devices", "8"], "no command that starts")):
            path.write_text(text)
            error = self.json("import", "megatron", path, *flags, "--out", self.folder / "p.json",
                              code=BAD_INPUT)["error"]
            self.assertIn(words, error["message"])
        self.assertFalse((self.folder / "p.json").exists())

    def test_a_run_of_torchtitan_goes_through_every_command(self):
        config, folder = self.folder / "run.toml", self.folder / "launch"
        model, today = self.example("llama2-7b.model.json"), self.folder / "today.plan.json"
        config.write_text(
            "[training]\nlocal_batch_size = 8\nglobal_batch_size = 32\nseq_len = 2048\n"
            "[parallelism]\npipeline_parallel_degree = 2\ndata_parallel_shard_degree = -1\n"
            "pipeline_parallel_schedule = 'Interleaved1F1B'\n"
            "pipeline_parallel_last_stage_less_layers = 2\n"
            "[activation_checkpoint]\nmode = 'full'\n[surprise]\nx = 1\n")
        answer = self.json("import", "torchtitan", config, "--model", model, "--devices", "8",
                           "--out", today)
        self.assertEqual(answer["plan"], str(today))
        self.assertTrue(any("surprise" in note for note in answer["notes"]), answer["notes"])
        question = ["--model", model, *self.question()[2:4]]
        ours = self.json("evaluate", today, *question)
        self.assertEqual(ours["plan"]["runtime_id"], "torchtitan")
        self.assertEqual(ours["plan"]["virtual_stage_count"], 2)
        # Exported and read again, the plan and its prediction are the same.
        self.json("export", today, "--model", model, "--to", "torchtitan", "--out", folder)
        again = self.folder / "again.plan.json"
        self.json("import", "torchtitan", folder / "parplan_config.py", "--schedule",
                  folder / "schedule.csv", "--model", model, "--devices", "8", "--out", again)
        theirs = self.json("evaluate", again, *question)
        self.assertEqual(theirs["prediction"], ours["prediction"])
        self.assertEqual(theirs["plan"]["gist"], ours["plan"]["gist"])
        for target in ("fsdp2", "torch-pipelining"):
            made = self.json("export", today, "--model", model, "--to", target, "--out",
                             self.folder / target)
            self.assertEqual(len(made["files"]), 4)
        document = {"fsdp2": "fsdp2.json", "torch-pipelining": "stages.json"}
        # Targets of PyTorch alone imply another runtime than torchtitan does.
        ours = self.json("evaluate", today, *question, "--runtime", "torch")
        for target, name in document.items():
            with self.subTest(target=target):
                exported = self.folder / target
                back = self.folder / f"{target}.plan.json"
                self.json("import", "torch", exported / name, "--schedule",
                          exported / "schedule.csv", "--model", model, "--out", back)
                read = self.json("evaluate", back, *question)
                self.assertEqual(read["prediction"], ours["prediction"])
                self.assertEqual(read["plan"]["gist"], ours["plan"]["gist"])
        error = self.json("import", "torch", self.folder / "fsdp2" / "fsdp2.json", "--model", model,
                          "--out", self.folder / "p.json", code=BAD_INPUT)["error"]
        self.assertIn("table of passes", error["message"])
        error = self.json("import", "torchtitan", config, "--model", model, "--devices", "7",
                          "--out", self.folder / "p.json", code=BAD_INPUT)["error"]
        self.assertIn("does not divide 7 devices", error["message"])
        self.assertFalse((self.folder / "p.json").exists())

    def test_plans_of_deepspeed_and_accelerate_go_out_and_come_back(self):
        model = self.example("llama2-7b.model.json")
        question = ["--model", model, *self.question()[2:4]]
        for target, name, runtime in (("deepspeed", "ds_config.json", "deepspeed"),
                                      ("accelerate", "accelerate.env", "accelerate")):
            with self.subTest(target=target):
                best, folder = self.folder / f"{target}.json", self.folder / target
                again = self.folder / f"{target}.again.json"
                planned = self.json("plan", "--offline", *question, "--batch", "64", "--target",
                                    target, "--out", best)
                self.assertEqual(planned["plan"]["runtime_id"], runtime)
                self.json("export", best, "--model", model, "--to", target, "--out", folder)
                self.assertNotIn("--target", (folder / "README.txt").read_text())
                self.json("import", target, folder / name, "--model", model, "--devices", "8",
                          "--out", again)
                self.assertNotIn("prediction", json.loads(again.read_text()))
                evaluated = self.json("evaluate", again, *question)
                self.assertEqual(evaluated["prediction"], self.json(
                    "evaluate", best, *question)["prediction"])
                self.assertEqual(evaluated["plan"]["runtime_id"], runtime)

    def test_runs_of_deepspeed_are_predicted_with_what_the_script_says(self):
        model = self.example("llama2-7b.model.json")
        config = self.write("ds_config.json", {
            "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 8,
            "zero_optimization": {"stage": 3}, "bf16": {"enabled": True},
            "gradient_clipping": 1.0})
        today = self.folder / "today.json"
        flags = ["--model", model, "--devices", "8", "--out", today]
        answer = self.json("import", "deepspeed", config, "--recompute", "full", *flags)
        self.assertTrue(any("gradient_clipping" in note for note in answer["notes"]))
        made = self.json("evaluate", today, "--model", model, *self.question()[2:4])
        self.assertEqual(made["plan"]["global_batch_size"], 64)
        for change, words in (({"stage": 3, "stages": 1}, "zero_optimization.stages"),
                              ({"stage": 7}, "must be 0, 1, 2 or 3")):
            config = self.write("ds_config.json", {
                "train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": True},
                "zero_optimization": change})
            error = self.json("import", "deepspeed", config, *flags, code=BAD_INPUT)["error"]
            self.assertIn(words, error["message"])

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


class Hardware(PlanctlTest):
    def test_hardware_is_known_without_a_server(self):
        listed = self.json("hardware", "list")
        self.assertIn("a100-sxm-80gb", self.text("hardware", "list").stdout)
        for device in listed["devices"][::8]:
            self.assertEqual(self.json("hardware", "show", device["aliases"][0].lower()), device)
        for fabric in listed["fabrics"][::8]:
            self.assertEqual(self.json("hardware", "show", fabric["aliases"][0]), fabric)
        self.json("hardware", "show", "no such device", code=NOT_FOUND)


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

    def test_who_answers_otherwise_is_not_called_away(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            def hang_up():
                while True:
                    try:
                        listener.accept()[0].close()
                    except OSError:
                        return
            thread = threading.Thread(target=hang_up, daemon=True)
            thread.start()
            done = self.text("profile", "list", "--cluster", "c", "--timeout", 3, "--server",
                             f"127.0.0.1:{listener.getsockname()[1]}", code=UNAVAILABLE)
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
        self.assertNotIn("is parplan-server running there?", done.stderr)


if __name__ == "__main__":
    main()
