#!/usr/bin/python3
"""parplan-study as a user runs it: the accuracy of predictions, and what each command refuses.

    study_test.py --planctl PATH --study PATH
"""
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "integration"))
from planctl_run import OK, BAD_INPUT, PlanctlTest, main  # noqa: E402

PAPERS = pathlib.Path(__file__).parents[3] / "studies" / "papers" / "data" / "results.json"
RUNS = pathlib.Path(__file__).parents[1] / "accuracy" / "data" / "published_runs.json"


class StudyTest(PlanctlTest):
    def study(self, *arguments, code=OK):
        return self.json(*arguments, code=code, program="study")

    def refused(self, *arguments):
        """The message of a command that is refused."""
        return self.study(*arguments, code=BAD_INPUT)["error"]["message"]


class Commands(StudyTest):
    def test_every_command_has_help_with_an_example(self):
        for command in ("accuracy", "oracle", "papers", "parity", "models", "table2"):
            self.assertIn(f"\n  parplan-study {command}",
                          self.text(command, "--help", program="study").stdout)
            self.assertIn(command, self.text("--help", program="study").stdout)

    def test_wrong_arguments_give_2_and_one_object(self):
        for arguments in ([], ["fly"], ["accuracy"], ["oracle"], ["papers"], ["models"],
                          ["accuracy", "--unknown"]):
            self.refused(*arguments)

    def test_a_file_that_is_missing_is_named(self):
        none = self.folder / "none.json"
        for arguments in (["oracle", none], ["parity", "--constants", none]):
            self.assertIn(str(none), self.refused(*arguments))

    def test_models_refuse_folders_without_configurations(self):
        self.assertIn("must be a folder", self.refused("models", self.folder / "none"))
        self.assertIn(".json", self.refused("models", self.folder))

    def test_papers_need_who_made_the_figures(self):
        page = ("papers", "--source", self.folder)
        self.assertIn("--commit", self.refused(*page, "--machine", "a machine"))
        self.assertIn("--machine", self.refused(*page, "--section", "grid", "--commit", "1"))
        self.assertIn("--machine", self.refused(*page, "--only-page", "--machine", "a machine",
                                                "--commit", "1"))

    def test_a_part_made_again_leaves_the_commits_of_the_others(self):
        tree = self.folder / "tree"
        for below in ("studies/papers/data", "docs/measurements", "docs/images"):
            (tree / below).mkdir(parents=True)
        results = tree / "studies/papers/data/results.json"
        results.write_text(PAPERS.read_text())
        before = json.loads(results.read_text())
        self.study("papers", "--source", tree, "--section", "pipelines", "--machine", "a machine",
                   "--commit", "1234")
        after = json.loads(results.read_text())
        run = after["made"].pop("pipelines")
        self.assertEqual((run["machine"], run["commit"]), ("a machine", "1234"))
        before["made"].pop("pipelines")
        self.assertEqual(after, before)
        self.assertIn("| 1234 | a machine |", (tree / "docs/measurements/papers.md").read_text())

    def test_parity_refuses_budgets_of_no_device(self):
        for budget in (0, 1025):
            self.assertIn("--budget", self.refused("parity", "--budget", budget))


class Parity(StudyTest):
    """The predictions of 2022, whose constants are in the program."""

    def test_every_cell_of_a_model_agrees_without_any_file(self):
        answer = self.study("parity", "--model", "vit-huge-32")
        self.assertEqual(answer["comparedCellCount"], 32)
        self.assertEqual(answer["agreeingCellCount"], 32)
        self.assertTrue(answer["allAgree"])

    def test_another_rule_of_micro_batches_differs(self):
        done = self.text("--format", "json", "parity", "--model", "vit-huge-32",
                         "--micro-batches", "bert", code=1, program="study")
        answer = json.loads(done.stdout)
        self.assertFalse(answer["allAgree"])
        self.assertEqual(answer["comparedCellCount"], 32)
        self.assertLess(answer["agreeingCellCount"], 32)

    def test_a_comparison_of_nothing_is_refused(self):
        nothing = ("parity", "--model", "vit-huge-32", "--budget", "9")
        self.assertIn("nothing was compared", self.refused(*nothing))
        alone = self.study(*nothing, "--predict-only")
        self.assertEqual(alone["comparedCellCount"], 0)
        self.assertFalse(alone["allAgree"])

    def test_a_file_of_other_models_is_compared_with_nothing(self):
        other = self.folder / "expected.json"
        other.write_text('{"tables": {"gpt": {"DP": {"8": null}}}}')
        self.study("parity", "--model", "vit-huge-32", "--expect", other, code=BAD_INPUT)


class Models(StudyTest):
    """Imported configurations, with numbers of parameters worked out by hand."""

    IMPORTS = pathlib.Path(__file__).parents[2] / "clients" / "import"
    CONFIGS = IMPORTS / "data"
    EXPECTED = IMPORTS / "golden" / "model_parameters.json"

    def test_expected_numbers_are_those_of_their_derivation(self):
        for model in json.loads(self.EXPECTED.read_text())["models"]:
            if "parameters" in model:
                self.assertRegex(model["derivation"], r"^[0-9+*() ]+$")
                self.assertEqual(eval(model["derivation"]), model["parameters"], model["config"])

    def test_every_configuration_is_imported_or_refused_as_expected(self):
        answer = self.study("models", self.CONFIGS, "--expect", self.EXPECTED)
        self.assertTrue(answer["allAgree"])
        self.assertEqual({model["config"] for model in answer["models"]},
                         {path.stem for path in self.CONFIGS.glob("*.json")})
        for model in answer["models"]:
            self.assertIn("agrees", model, model["config"])
            self.assertEqual(model["outcome"], "imported", model["config"])
            self.assertLess(abs(model.get("publishedDifferenceRatio", 0.0)), 0.005)

    def test_a_difference_gives_1_and_names_the_model(self):
        expected = json.loads(self.EXPECTED.read_text())
        wrong = expected["models"][0]
        wrong["parameters"] = round(1.01 * wrong["parameters"])
        other = self.folder / "expected.json"
        other.write_text(json.dumps(expected))
        run = self.text("models", self.CONFIGS, "--expect", other,
                        program="study", code=1)
        self.assertIn(wrong["config"], run.stderr)
        self.assertIn("DIFFERS", run.stdout)


class Accuracy(StudyTest):
    """Measured and published figures, by an excerpt of the runs."""

    FIGURES = {"count", "time_count", "memory_count", "time_mape", "time_median", "time_bias",
               "time_in_range", "memory_mape", "memory_bias", "memory_under_rate", "oom_total",
               "oom_refused", "false_refusals"}

    def setUp(self):
        super().setUp()
        self.runs = json.loads(RUNS.read_text())["runs"]

    def test_accuracy_has_every_row_once_and_figures_of_every_source(self):
        page = self.folder / "accuracy.html"
        answer = self.study("accuracy", RUNS, "--html", page)
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
        one = self.study("accuracy", RUNS, "--source", source)
        self.assertEqual(one["sources"], {source: answer["sources"][source]})
        text = self.text("accuracy", RUNS, program="study").stdout
        for name in answer["sources"]:
            self.assertIn(name, text)

    def test_a_file_that_is_bad_or_missing_is_named(self):
        broken = self.folder / "broken.json"
        broken.write_text('{"schema": "published_runs/1", "runs": {}}')
        for path in (broken, self.folder / "none.json"):
            for arguments in (["accuracy", path], ["accuracy", RUNS, "--calibration", path]):
                self.assertIn(path.name, self.refused(*arguments), arguments)
        self.refused("accuracy", RUNS, "--html", self.folder / "none" / "page.html")

    def test_a_source_without_rows_is_named(self):
        self.assertIn("nobody", self.refused("accuracy", RUNS, "--source", "nobody"))


if __name__ == "__main__":
    main()
