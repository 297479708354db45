"""Work for a server that makes every one of its metrics move: questions of all kinds, uploads,
calibrations, executions with windows, and leases between agents that are only streams."""
import queue
import random
import threading
import uuid

import grpc
from google.protobuf import json_format

from parplan_process import seconds, small_profile, small_question

PLANS = "parplan.v1.PlanService"
EXECUTIONS = "parplan.v1.ExecutionService"
CALIBRATIONS = "parplan.v1.CalibrationService"
CALL_SECONDS = 300


class StreamedAgent:
    """An agent as the server sees it; measures nothing."""

    def __init__(self, client, node):
        agent = "parplan.v1.AgentService"
        client.service(agent)
        self.request = client.message("parplan.v1.ConnectAgentRequest")
        self.response = client.message("parplan.v1.ConnectAgentResponse")
        self.sent = queue.Queue()
        self.stream = client.channel.stream_stream(
            f"/{agent}/ConnectAgent", self.request.SerializeToString, self.response.FromString)(
                # It lives as long as the load, however long others take.
                iter(self.sent.get, None), timeout=None)
        self.tell(hello={"node": node, "instance_id": uuid.uuid4().hex, "host": "127.0.0.1",
                         "device_kind": "Test GPU", "device_count": 2})
        self.hear("welcome")
        # Or the server takes a silent agent for lost.
        self.closed = threading.Event()
        threading.Thread(target=self._beat, daemon=True).start()

    def _beat(self):
        while not self.closed.wait(5):
            self.tell(heartbeat={})

    def tell(self, **message):
        self.sent.put(json_format.ParseDict(message, self.request()))

    def hear(self, *kinds):
        """The next message of one of the kinds, as its kind and itself; others are passed over."""
        for message in self.stream:
            kind = message.WhichOneof("message")
            if kind in kinds:
                return kind, getattr(message, kind)
        raise AssertionError(f"the stream ended before {kinds}")

    def close(self):
        self.closed.set()
        self.sent.put(None)
        self.stream.cancel()


class Load:
    """Runs in a thread of its own from `start` to `stop`, round after round. What fails and
    should not is raised by `stop`."""

    def __init__(self, client, cluster="lab"):
        self.client = client
        self.sidecar = None
        self.parent = f"clusters/{cluster}"
        self.random = random.Random(1)
        self.rounds = 0
        self.ending = threading.Event()
        self.failure = None
        self.agents = []
        self.thread = threading.Thread(target=self._run, daemon=True)

    def start(self):
        self.thread.start()

    def stop(self):
        self.ending.set()
        self.thread.join()
        if self.failure is not None:
            raise self.failure

    def check(self):
        if self.failure is not None:
            raise self.failure

    def report_to(self, sidecar, plan):
        """Windows of an execution of the plan go to a sidecar too, through its client."""
        self.sidecar = sidecar
        self.watched = sidecar.call(EXECUTIONS, "CreateExecution", {
            "parent": plan.name, "request_id": uuid.uuid4().hex}, CALL_SECONDS)

    def _run(self):
        try:
            while not self.ending.is_set():
                self.round()
                self.rounds += 1
        except Exception as error:  # Told by the thread that waits.
            self.failure = error
        finally:
            for agent in self.agents:
                agent.close()

    def call(self, service, method, request):
        return self.client.call(service, method, request, CALL_SECONDS)

    def refused(self, service, method, request, code):
        try:
            self.call(service, method, request)
        except grpc.RpcError as error:
            assert error.code() == code, f"{method}: {error}"
            return
        raise AssertionError(f"{method} was not refused: {request}")

    def prepare(self):
        """Before `start`: what all rounds rest on."""
        self.client.upload(f"{self.parent}/nodes/n0", "first", small_profile(), CALL_SECONDS)
        calibration = self.call(CALIBRATIONS, "UploadCalibration", {
            "parent": self.parent, "request_id": uuid.uuid4().hex, "calibration": {
                "provenance": {"agent": "test", "sources": [
                    {"source": "made up", "row_count": 40}]},
                "coefficient_values": [
                    {"coefficient": "matrix_efficiency", "value": 0.6, "fitted": True}],
                "residual_classes": [{
                    "quantity": "STEP_DURATION", "residual_count": 40,
                    "log_ratio_quantiles": [0.05 * i for i in range(-4, 5)]}]}})
        self.call(CALIBRATIONS, "ActivateCalibration",
                  {"parent": self.parent, "calibration": calibration.name})
        self.agents = [StreamedAgent(self.client, f"{self.parent}/nodes/s{i}") for i in range(2)]

    def round(self):
        self.questions()
        self.uploads()
        self.execution()
        self.lease()
        if self.sidecar is not None:
            self.sidecar.call(EXECUTIONS, "ReportMetrics", [
                {"execution": self.watched.name, "window": {
                    "rank": rank, "first_step": 10 * self.rounds, "step_count": 10,
                    "median_step_duration": seconds(0.1), "peak_memory_bytes": 1 << 30}}
                for rank in range(2)], CALL_SECONDS)

    def questions(self):
        batch = 2 * self.random.randint(1, 2000)
        question = small_question(batch, parent=self.parent, job_id=uuid.uuid4().hex)
        question["spec"]["options"] = {"compare_baselines": True}
        self.plan = self.call(PLANS, "CreatePlan", question)
        self.call(PLANS, "CreatePlan", question)
        self.call(PLANS, "GetPlan", {"name": self.plan.name})
        self.call(PLANS, "ListPlans", {"parent": self.parent, "page_size": 1})
        signed = json_format.MessageToDict(self.plan.signed_plan)
        self.call(PLANS, "VerifyPlan", {"signed_plan": signed})
        # A model of decoders alone, which the program does not run.
        self.refused(PLANS, "ExportPlan", {"name": self.plan.name, "target": "megatron"},
                     grpc.StatusCode.INVALID_ARGUMENT)
        spec = question["spec"]
        group = spec["topology"]["node_groups"][0]
        self.call(PLANS, "ShapePlan", {
            "parent": self.parent, "model": spec["model"], "global_batch_size": batch, "offers": [{
                "device_kind": group["device_kind"], "devices_per_node": 2,
                "device_memory_bytes": group["device_memory_bytes"],
                "min_device_count": 2, "max_device_count": 2}]})
        small = small_question(batch, parent=self.parent)
        small["spec"]["topology"]["node_groups"][0]["device_memory_bytes"] = 1 << 29
        self.refused(PLANS, "CreatePlan", small, grpc.StatusCode.FAILED_PRECONDITION)
        self.refused(PLANS, "CreatePlan", {"parent": self.parent},
                     grpc.StatusCode.INVALID_ARGUMENT)

    def uploads(self):
        self.client.upload(f"{self.parent}/nodes/n0", uuid.uuid4().hex,
                           small_profile(1.0 + self.random.random()), CALL_SECONDS)
        try:
            self.client.upload(f"{self.parent}/nodes/n0", uuid.uuid4().hex,
                               small_profile(overlap=0.5), CALL_SECONDS)
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.INVALID_ARGUMENT, error
        else:
            raise AssertionError("an overlap below 1 was stored")

    def execution(self):
        """Opens, reports what was predicted and a little more, and closes."""
        execution = self.call(EXECUTIONS, "CreateExecution",
                              {"parent": self.plan.name, "request_id": uuid.uuid4().hex})
        slower = 1.0 + 0.1 * self.random.random()
        predicted = execution.predicted_step_duration
        step = predicted.seconds + predicted.nanos * 1e-9
        stage = json_format.MessageToDict(execution.stages[0], preserving_proto_field_name=True)
        items = [{"kind": item["kind"], "size_bytes": int(item.get("size_bytes", 0)) * 19 // 20}
                 for item in stage["predicted_memory_items"]]
        peak = execution.predicted_peak_memory_bytes * 19 // 20 + len(items)
        windows = []
        for rank in range(2):
            windows.append({"execution": execution.name, "window": {
                "rank": rank, "first_step": 0, "step_count": 10,
                "median_step_duration": seconds(step * slower),
                "peak_memory_bytes": peak,
                "phase_durations": stage["predicted_phase_durations"],
                "memory_items": items}})
        self.call(EXECUTIONS, "ReportMetrics", windows)
        if self.rounds % 4 == 3:
            self.call(EXECUTIONS, "FailExecution", {"name": execution.name, "reason": "a test"})
        else:
            self.call(EXECUTIONS, "CompleteExecution", {"name": execution.name})
        self.call(EXECUTIONS, "GetExecution", {"name": execution.name})

    def lease(self):
        host, guest = self.agents
        host.tell(request_lease={"request_id": uuid.uuid4().hex, "node_ids": ["s0", "nobody"]})
        host.hear("lease_refused")
        host.tell(request_lease={"request_id": uuid.uuid4().hex, "node_ids": ["s0", "s1"],
                                 "even_if_busy": True})
        kind, granted = host.hear("lease_granted", "lease_refused")
        assert kind == "lease_granted", granted
        lease = granted.lease_id
        host.tell(open_lease={"lease_id": lease, "rendezvous_port": 4711})
        host.hear("lease_opened")
        host.tell(return_lease={"lease_id": lease})
        host.hear("lease_ended")
        guest.hear("lease_ended")
