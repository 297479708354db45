#!/usr/bin/python3
"""A server and planctl in its own process answer questions about shapes and money alike.

    planctl_money_test.py --planctl PATH --server-binary PATH [--examples FOLDER]

Both have the measurements of deploy/examples. Skipped, with the reason, where --server-binary is no
file.
"""
import json
import pathlib
import tempfile
import unittest

from planctl_run import (
    FLAGS, OK, BAD_INPUT, NOTHING_FITS, PlanctlTest, main, planctl)

# The cluster file of two nodes, and the run that is weighed.
CLUSTER = "a100-40g-16"
RUN = ["--money", "--price", "2.5", "--steps", "100000"]


class TwoAnswers(PlanctlTest):
    """Each question is asked twice: of a server with the profile of two nodes, and with that file."""

    @classmethod
    def setUpClass(cls):
        if FLAGS.server_binary is None or not pathlib.Path(FLAGS.server_binary).is_file():
            raise unittest.SkipTest("no parplan-server is built: --server-binary is no file")
        import parplan_process
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        server = parplan_process.Server(FLAGS.server_binary, folder.name)
        # Also where the start or the upload fails.
        cls.addClassCleanup(server.__exit__)
        server.start()
        cls.env = {"PARPLAN_SERVER": server.address}
        done = planctl("profile", "upload", FLAGS.examples / "llama2-7b-a100-2-nodes.profile.json",
                       "--cluster", CLUSTER, "--node", "node-0", env=cls.env)
        assert done.returncode == OK, done.stderr

    def both(self, command, *flags, code=OK, **changed):
        """The answer of the server; that of this process must be the same. What differs by its
        nature is left out: plans of a server have names, a server remembers answers, and the effort
        of a search depends on the threads it has."""
        theirs = self.json(command, *self.question(2, **changed), *flags, code=code, env=self.env)
        mine = self.json(command, *self.offline(2, **changed), *flags, code=code)
        if command == "plan" and code == OK:
            self.assertNotEqual(theirs["plan"].pop("name"), "")
            self.assertEqual(mine["plan"].pop("name"), "")
            for search in (theirs["search"], mine["search"]):
                for key in ("states", "pruned_states", "cpu_seconds", "wall_seconds", "from_cache"):
                    del search[key]
        theirs.pop("from_cache", None)
        mine.pop("from_cache", None)
        self.maxDiff = None
        self.assertEqual(theirs, mine)
        return theirs

    def test_shape(self):
        answer = self.both("shape", "--min-devices", 4)
        self.assertEqual([option["device_count"] for option in answer["options"]], [4, 8, 16])
        self.assertNotIn("money", answer)
        # The second time the server answers from its cache.
        self.assertEqual(self.both("shape", "--min-devices", 4), answer)

    def test_the_cheapest_plan(self):
        money = self.both("shape", "--min-devices", 4, *RUN)["money"]
        self.assertEqual(money["chosen_index"], money["cheapest_index"])
        self.assertEqual([plan["device_count"] for plan in money["plans"]], [4, 8, 16])
        self.assertTrue(money["front_indices"])

    def test_a_deadline_and_a_budget_between_the_plans(self):
        plans = self.both("shape", "--min-devices", 4, *RUN)["money"]["plans"]
        slowest = max(plan["run_seconds"] for plan in plans)
        fastest = min(plan["run_seconds"] for plan in plans)
        dearest = max(plan["money"] for plan in plans)
        cheapest = min(plan["money"] for plan in plans)
        deadline = ["--deadline-hours", (slowest + fastest) / 2 / 3600]
        budget = ["--budget", (dearest + cheapest) / 2]
        for limits in (deadline, budget, deadline + budget):
            money = self.both("shape", "--min-devices", 4, *RUN, *limits)["money"]
            self.assertFalse(all(plan["meets_limits"] for plan in money["plans"]))
            self.assertTrue(money["plans"][money["chosen_index"]]["meets_limits"])

    def test_limits_that_no_plan_meets(self):
        money = self.both("shape", *RUN, "--deadline-hours", 1, "--budget", 1)["money"]
        self.assertNotIn("chosen_index", money)
        self.assertIn("no plan meets the deadline, and none the budget", money["unmet_reason"])
        error = self.both("plan", *RUN, "--deadline-hours", 1, code=NOTHING_FITS)["error"]
        self.assertEqual(error["reason"], "NO_FEASIBLE_PLAN")

    def test_several_plans_of_each_number_and_their_energy(self):
        money = self.both("shape", "--min-devices", 8, "--top", 3, *RUN, "--energy", "--power", 400,
                          "--idle-power", 60, "--spare-nodes", 1, "--worst-case",
                          "--budget", 3000)["money"]
        self.assertEqual([plan["device_count"] for plan in money["plans"]], [8] * 3 + [16] * 3)
        self.assertTrue(all(plan["energy_joules"] > 0 for plan in money["plans"]))

    def test_tokens_and_samples(self):
        for length in (["--tokens", 10**10], ["--samples", 6_400_001]):
            money = self.both("shape", "--min-devices", 8, "--money", "--price", 2, *length)["money"]
            steps = {plan["step_count"] for plan in money["plans"]}
            self.assertEqual(len(steps), 1)
            if "--samples" in length:
                self.assertEqual(steps, {100_001})

    def test_a_robust_plan_of_each_number(self):
        for flags in (["--robust"], ["--robust", *RUN]):
            self.both("shape", "--min-devices", 8, *flags)

    def test_the_plan_that_a_budget_or_a_deadline_takes(self):
        hours = {}
        for limits in (["--budget", 10**6], ["--deadline-hours", 10**4]):
            answer = self.both("plan", *RUN, *limits)
            chosen = answer["money"]["plans"][answer["money"]["chosen_index"]]
            self.assertEqual(chosen["gist"], answer["plan"]["gist"])
            hours[limits[0]] = chosen["run_seconds"] / 3600
        # With money to spare it is the fastest, with time to spare the cheapest.
        self.assertLess(hours["--budget"], hours["--deadline-hours"])

    def test_a_robust_plan(self):
        answer = self.both("plan", "--robust")
        self.assertIn("robust: of ", json.dumps(answer))

    def test_refusals(self):
        for why, flags in (("there is no price", ["--steps", 10]),
                           ("there is no length of the run", ["--price", 2]),
                           ("no power is known", ["--price", 2, "--steps", 10, "--energy"]),
                           ("the cluster has no such device",
                            ["--price", "H100=2", "--steps", 10])):
            with self.subTest(why):
                error = self.both("shape", "--money", *flags, code=BAD_INPUT)["error"]
                self.assertEqual(error["reason"], "SPEC_INVALID")
                self.assertTrue(error["metadata"]["field"].startswith("money"), error)

    def test_nothing_fits(self):
        def small(cluster):
            cluster["node_groups"][0]["device_memory_bytes"] = str(2 << 30)
        cluster = self.edited(f"{CLUSTER}.cluster.json", small)
        answer = self.both("shape", "--min-devices", 8, *RUN, cluster=cluster)
        self.assertNotIn("money", answer)
        self.assertIn("nothing fits in memory", answer["infeasible_reason"])


if __name__ == "__main__":
    main()
