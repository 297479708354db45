#!/usr/bin/python3
"""`planctl export`: plans as files of other programs, and which plans and models it refuses.

    planctl_export_test.py --planctl PATH [--examples FOLDER]
"""
import json
import pathlib

from planctl_run import BAD_INPUT, PlanctlTest, main


class Exports(PlanctlTest):
    def test_a_plan_goes_through_galvatrons_format_and_back(self):
        plan, strategy = self.folder / "plan.json", self.folder / "galvatron_config.json"
        made = self.json("plan", *self.offline(), "--planner", "deepspeed-3d", "--out", plan)
        model = self.example("llama2-7b.model.json")
        self.json("export", plan, "--model", model, "--to", "galvatron", "--out", strategy)
        self.assertEqual(self.json("export", plan, "--model", model),
                         json.loads(strategy.read_text()))
        folder = self.folder / "galvatron"
        for name in (f"{folder}/", folder):
            files = self.json("export", plan, "--model", model, "--to", "galvatron", "--out", name)
            self.assertEqual([path.rsplit("/", 1)[1] for path in files["files"]],
                             ["galvatron_config.json", "galvatron.env", "README.txt"])
        self.assertEqual((folder / "galvatron_config.json").read_text(), strategy.read_text())
        self.assertIn("--galvatron_config_path", (folder / "README.txt").read_text())
        self.assertIn("PARPLAN_MICRO_BATCH_SIZE_PER_RANK=",
                      (folder / "galvatron.env").read_text())
        again = self.json("evaluate", strategy, *self.offline()[1:])
        self.assertEqual(again["prediction"]["step_seconds"], made["prediction"]["step_seconds"])
        self.assertEqual(again["plan"]["gist"], made["plan"]["gist"])

    def test_a_plan_for_megatron_becomes_its_arguments(self):
        plan, folder = self.folder / "plan.json", self.folder / "launch"
        self.json("plan", *self.offline(), "--target", "megatron", "--runtime", "megatron-core",
                  "--out", plan)
        model = self.example("llama2-7b.model.json")
        made = self.json("export", plan, "--model", model, "--to", "megatron", "--out", folder)
        self.assertEqual(made["files"], [str(folder / name) for name in (
            "megatron.args", "megatron.env", "README.txt")])
        arguments = (folder / "megatron.args").read_text().splitlines()
        self.assertIn("--num-layers=32", arguments)
        self.assertTrue(all(line.startswith("--") for line in arguments), arguments)
        self.assertIn("PARPLAN_MICRO_BATCH_SIZE_PER_RANK=",
                      (folder / "megatron.env").read_text())
        error = self.json("export", plan, "--model", model, "--to", "megatron",
                          code=BAD_INPUT)["error"]
        self.assertIn("must name a folder", error["message"])

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

    def test_a_plan_is_exported_for_its_own_model_only(self):
        plan, folder = self.folder / "plan.json", self.folder / "launch"
        self.json("plan", *self.offline(), "--target", "megatron", "--runtime", "megatron-core",
                  "--out", plan)
        model = json.loads(pathlib.Path(self.example("llama2-7b.model.json")).read_text())
        for definition in model["layer_definitions"]:
            definition["sequence_length"] *= 2
        other = self.folder / "other.model.json"
        other.write_text(json.dumps(model))
        arguments = ["export", plan, "--model", other, "--to", "megatron", "--out", folder]
        error = self.json(*arguments, code=BAD_INPUT)["error"]
        self.assertEqual(error["metadata"]["field"], "--model")
        self.assertIn("is not the one that the plan was made for", error["message"])
        self.assertFalse(folder.exists())
        # A plan that was imported names no model.
        content = json.loads(plan.read_text())
        del content["model_digest"]
        plan.write_text(json.dumps(content))
        self.json(*arguments)


if __name__ == "__main__":
    main()
