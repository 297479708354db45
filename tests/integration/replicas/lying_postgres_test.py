#!/usr/bin/python3
"""A database that gives back other bytes than it was given, or has lost what it committed. Callers
hear that, and no plan is taken for the answer to a question that it does not answer.

    lying_postgres_test.py SERVER
"""
import pathlib
import sys
import tempfile
import unittest

import grpc

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
# pylint: disable=wrong-import-position
import parplan_process as parplan  # noqa: E402
import postgres_server  # noqa: E402

SERVER = None
PLANS, PROFILES = "parplan.v1.PlanService", "parplan.v1.ProfileService"


class LyingPostgres(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.postgres = cls.enterClassContext(postgres_server.PostgresServer())

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.server = parplan.Server(SERVER, folder.name, "--store", self.postgres.uri())
        self.server.start()
        with parplan.Client(self.server.address) as client:
            self.profile = client.upload("clusters/lab/nodes/node-a", "r",
                                         parplan.small_profile(), 60).name
            self.plans = [self.ask(client, batch) for batch in (8, 16)]
        self.schema = self.postgres.query(
            "SELECT table_schema FROM information_schema.tables WHERE table_name = 'plans'")[0]
        # After the server has ended: the last cleanup runs first.
        self.addCleanup(self.postgres.query, f"DROP SCHEMA {self.schema} CASCADE; "
                                             f"CREATE SCHEMA {self.schema}")
        self.addCleanup(self.server.__exit__)

    def ask(self, client, batch):
        return client.call(PLANS, "CreatePlan", parplan.small_question(batch=batch), timeout=60)

    def lie(self, statement):
        """Changes what is stored, and starts the server again, which remembers nothing then."""
        self.postgres.query(f"SET search_path = {self.schema}; {statement}")
        self.server.kill()
        self.server.start()
        client = parplan.Client(self.server.address)
        self.addCleanup(client.__exit__)
        return client

    def refusal(self, client, service, method, request):
        with self.assertRaises(grpc.RpcError) as raised:
            client.call(service, method, request, timeout=60)
        return raised.exception.code().name, client.error_info(raised.exception).reason

    def test_bytes_that_are_no_message_are_said_to_be_damaged(self):
        client = self.lie("UPDATE plans SET bytes = '\\xffffff'")
        for plan in self.plans:
            self.assertEqual(self.refusal(client, PLANS, "GetPlan", {"name": plan.name}),
                             ("DATA_LOSS", "STORE_UNAVAILABLE"))
        self.assertEqual(self.refusal(client, PLANS, "CreatePlan", parplan.small_question(batch=8)),
                         ("DATA_LOSS", "STORE_UNAVAILABLE"))
        # Other questions are answered.
        self.ask(client, 24)

    def test_a_profile_that_is_no_message_is_said_to_be_damaged(self):
        client = self.lie("UPDATE profiles SET bytes = '\\xffffff'")
        self.assertEqual(self.refusal(client, PROFILES, "GetProfile", {"name": self.profile}),
                         ("DATA_LOSS", "STORE_UNAVAILABLE"))
        self.assertEqual(self.refusal(client, PLANS, "CreatePlan", parplan.small_question(batch=24)),
                         ("DATA_LOSS", "STORE_UNAVAILABLE"))
        self.assertTrue(parplan.is_serving(client))

    def test_the_plan_of_another_question_answers_none(self):
        first, second = self.plans
        client = self.lie(
            f"UPDATE plans SET bytes = (SELECT bytes FROM plans WHERE name = '{second.name}'), "
            f"spec_digest = (SELECT spec_digest FROM plans WHERE name = '{second.name}') "
            f"WHERE name = '{first.name}'")
        # It is signed and whole, and still the wrong one.
        damaged = ("DATA_LOSS", "STORE_UNAVAILABLE")
        self.assertEqual(self.refusal(client, PLANS, "GetPlan", {"name": first.name}), damaged)
        self.assertEqual(self.refusal(client, PLANS, "CreatePlan", parplan.small_question(batch=8)),
                         damaged)
        self.assertEqual(self.ask(client, 16).name, second.name)

    def test_what_was_lost_after_its_commit_is_made_again(self):
        client = self.lie("DELETE FROM plans; DELETE FROM profiles")
        self.assertEqual(self.refusal(client, PLANS, "GetPlan", {"name": self.plans[0].name})[0],
                         "NOT_FOUND")
        client.upload("clusters/lab/nodes/node-a", "r", parplan.small_profile(), 60)
        again = self.ask(client, 8)
        self.assertFalse(again.from_cache)
        self.assertEqual(client.call(PLANS, "GetPlan", {"name": again.name}).name, again.name)


def main():
    global SERVER
    SERVER = sys.argv.pop(1)
    unittest.main()


if __name__ == "__main__":
    main()
