#!/usr/bin/python3
"""A client that is not ours does the main job: it learns the API by reflection,
uploads the example profile, asks for shape and plan, and reads why a call was refused.

    reflection_client_test.py SERVER EXAMPLES
"""
import http.client
import json
import pathlib
import stat
import sys
import tempfile
import unittest

import grpc

import parplan_process as parplan

SERVER = None
EXAMPLES = None
PLANS = "parplan.v1.PlanService"


class ReflectionClient(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.server = parplan.Server(SERVER, cls.folder.name).start()
        cls.client = parplan.Client(cls.server.address)
        cls.profile = parplan.load(EXAMPLES / "llama2-7b-a100.profile.json")
        cls.model = parplan.load(EXAMPLES / "llama2-7b.model.json")
        cls.cluster = parplan.load(EXAMPLES / "a100-40g-8.cluster.json")
        cls.parent = f"clusters/{cls.cluster['cluster']}"
        cls.question = {"parent": cls.parent, "spec": {
            "model": cls.model, "topology": cls.cluster, "global_batch_size": 64}}
        cls.stored = cls.client.upload(f"{cls.parent}/nodes/node-0", "example", cls.profile)

    @classmethod
    def tearDownClass(cls):
        cls.client.channel.close()
        code = cls.server.end()
        cls.folder.cleanup()
        assert code == 0, f"the server ended with {code}"

    def test_lists_the_services_and_their_health(self):
        names = self.client.service_names()
        for service in (*parplan.SERVICES, "grpc.health.v1.Health"):
            self.assertIn(service, names)
        for service in ("", *parplan.SERVICES):
            self.assertTrue(parplan.is_serving(self.client, service), service)
        with self.assertRaises(grpc.RpcError) as refused:
            parplan.is_serving(self.client, "no.such.Service")
        self.assertEqual(refused.exception.code(), grpc.StatusCode.NOT_FOUND)
        methods = [m.name for m in self.client.service(PLANS).methods]
        self.assertEqual(methods, ["ShapePlan", "CreatePlan", "SearchPlan", "GetPlan", "ListPlans",
                                   "VerifyPlan", "ExportPlan", "GetCapabilities"])

    def test_the_stored_profile_has_a_name_and_a_digest(self):
        self.assertTrue(self.stored.name.startswith(f"{self.parent}/nodes/node-0/profiles/"))
        self.assertEqual(len(self.stored.digest), 64)

    def test_shape_plan_says_how_many_devices_to_ask_for(self):
        group = self.cluster["node_groups"][0]
        shape = self.client.call(PLANS, "ShapePlan", {
            "parent": self.parent, "model": self.model, "global_batch_size": 64, "offers": [{
                "device_kind": group["device_kind"], "devices_per_node": group["devices_per_node"],
                "device_memory_bytes": group["device_memory_bytes"],
                "min_device_count": 8, "max_device_count": 8}]})
        self.assertEqual([option.device_count for option in shape.options], [8])
        self.assertTrue(shape.HasField("recommended_option_index"), shape.infeasible_reason)
        self.assertGreater(shape.options[0].samples_per_second, 0)

    def test_create_plan_gives_a_signed_plan_and_the_same_one_again(self):
        plan = self.client.call(PLANS, "CreatePlan", self.question)
        payload = self.client.message("parplan.v1.PlanPayload").FromString(plan.signed_plan.payload)
        self.assertEqual(payload.device_count, 8)
        self.assertEqual(payload.plan, plan.name)
        self.assertEqual(len(plan.signed_plan.signatures[0].sig), 64)
        again = self.client.call(PLANS, "CreatePlan", self.question)
        self.assertTrue(again.from_cache)
        self.assertEqual(again.signed_plan, plan.signed_plan)

    def test_a_refusal_says_why_for_machines(self):
        with self.assertRaises(grpc.RpcError) as refused:
            self.client.call(PLANS, "CreatePlan", {"parent": self.parent})
        self.assertEqual(refused.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
        info = self.client.error_info(refused.exception)
        self.assertEqual((info.reason, info.domain), ("SPEC_INVALID", "parplan"))
        self.assertIn("field", info.metadata)
        with self.assertRaises(grpc.RpcError) as missing:
            self.client.call(PLANS, "GetPlan", {"name": f"{self.parent}/plans/none"})
        self.assertEqual(self.client.error_info(missing.exception).reason, "RESOURCE_NOT_FOUND")
        with self.assertRaises(grpc.RpcError) as unmeasured:
            self.client.call(PLANS, "CreatePlan", parplan.small_question())
        self.assertEqual(self.client.error_info(unmeasured.exception).reason, "PROFILE_MISSING")

    def test_metrics_are_served(self):
        self.client.call(PLANS, "GetCapabilities", {})
        connection = http.client.HTTPConnection("127.0.0.1", self.server.metrics_port, timeout=10)
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        connection.close()
        self.assertIn('parplan_requests_total{code="OK",method="GetCapabilities"}', text)

    def test_the_log_is_one_json_object_a_line_with_the_callers_name(self):
        self.client.call(PLANS, "GetCapabilities", {}, metadata=(
            ("x-request-id", "named-by-the-caller"),
            ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")))
        # The decoder has a line of its own about it.
        with self.assertRaises(grpc.RpcError) as refused:
            self.client.channel.unary_unary(f"/{PLANS}/GetPlan")(b"\x0a\x01\xff", timeout=30)
        self.assertEqual(refused.exception.code(), grpc.StatusCode.UNIMPLEMENTED)
        lines = [json.loads(line) for line in self.server.log().splitlines()]
        self.assertEqual([line["level"] for line in lines if line["event"] == "protobuf"],
                         ["info"])
        self.assertTrue(all({"time", "level", "event"} <= line.keys() for line in lines))
        named = [line for line in lines if line.get("request_id") == "named-by-the-caller"]
        self.assertEqual(len(named), 1)
        self.assertEqual(named[0]["method"], "GetCapabilities")
        self.assertEqual(named[0]["code"], "OK")
        self.assertEqual(named[0]["trace_id"], "0af7651916cd43dd8448eb211c80319c")
        self.assertGreaterEqual(named[0]["duration_seconds"], 0)
        self.assertTrue(named[0]["time"].endswith("Z"))

    def test_the_private_key_is_private_and_the_bundle_is_not(self):
        data = pathlib.Path(self.folder.name) / "data"
        bundle = data / "trust-bundle.jwks.json"
        self.assertEqual(stat.S_IMODE(bundle.stat().st_mode), 0o644)
        self.assertEqual(len(json.loads(bundle.read_text())["keys"]), 1)
        for key in (data / "keys").glob("*.pem"):
            self.assertEqual(stat.S_IMODE(key.stat().st_mode), 0o600)


if __name__ == "__main__":
    EXAMPLES = pathlib.Path(sys.argv.pop())
    SERVER = sys.argv.pop()
    unittest.main(verbosity=2)
