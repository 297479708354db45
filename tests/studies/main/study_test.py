#!/usr/bin/python3
"""parplan-study as a user runs it: the accuracy of predictions, and what each command refuses.

    study_test.py --planctl PATH --study PATH
"""
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "integration"))
from planctl_run import OK, BAD_INPUT, PlanctlTest, main  # noqa: E402

RUNS = pathlib.Path(__file__).parents[1] / "accuracy" / "data" / "published_runs.json"


class StudyTest(PlanctlTest):
    def study(self, *arguments, code=OK):
        return self.json(*arguments, code=code, program="study")

    def refused(self, *arguments):
        """The message of a command that is refused."""
        return self.study(*arguments, code=BAD_INPUT)["error"]["message"]


class Commands(StudyTest):
    def test_every_command_has_help_with_an_example(self):
        for command in ("accuracy", "oracle", "parity", "ilp"):
            self.assertIn(f"\n  parplan-study {command}",
                          self.text(command, "--help", program="study").stdout)
            self.assertIn(command, self.text("--help", program="study").stdout)

    def test_wrong_arguments_give_2_and_one_object(self):
        for arguments in ([], ["fly"], ["accuracy"], ["oracle"], ["parity"],
                          ["accuracy", "--unknown"]):
            self.refused(*arguments)

    def test_a_file_that_is_missing_is_named(self):
        none = self.folder / "none.json"
        for arguments in (["oracle", none], ["parity", "--constants", none]):
            self.assertIn(str(none), self.refused(*arguments))

    def test_parity_refuses_budgets_of_no_device(self):
        for budget in (0, 1025):
            self.assertIn("--budget", self.refused("parity", "--constants", "c.json",
                                                   "--budget", budget))


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
