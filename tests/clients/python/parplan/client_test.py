"""The client against a real parplan-server: plans, profiles, executions, TLS, errors, retries."""

import json
import os
import threading
import uuid
from concurrent import futures

import grpc
import parplan_process
import pytest

import parplan
from parplan import channel
from parplan.wire import messages


@pytest.fixture(scope="module")
def server(bin_folder, tmp_path_factory):
    with parplan_process.Server(bin_folder / "parplan-server",
                                tmp_path_factory.mktemp("server")) as started:
        yield started


@pytest.fixture
def client(server):
    with parplan.Client(server.address) as made:
        yield made


@pytest.fixture
def trust(server):
    return (server.folder / "data" / "trust-bundle.jwks.json").read_bytes()


@pytest.fixture(scope="module")
def spec(source):
    """A question whose answer needs no measurements."""
    return json.loads((source / "deploy/kubernetes/job/question.json").read_text())["spec"]


def test_a_plan_is_made_with_progress_and_verified(client, spec, trust):
    seen = []
    made = client.create_plan(spec, job_id="4711", on_progress=seen.append,
                              time_to_live_seconds=600.5)
    assert made.name.startswith("clusters/a100-40g-16/plans/")
    assert all(one.done_candidate_count <= one.total_candidate_count for one in seen)
    plan = client.verified(made, trust, job_id="4711")
    assert (plan.name, plan.device_count, len(plan.layers)) == (made.name, 16, 34)
    with pytest.raises(parplan.errors.AudienceMismatch):
        client.verified(made, trust, job_id="4712")
    stored = client.get_plan(made.name)
    assert stored.signed_plan == made.signed_plan
    assert client.verified(stored, trust).name == plan.name
    assert made.name in [one.name for one in client.list_plans("a100-40g-16", page_size=1)]


def test_a_request_id_makes_one_plan(client, spec):
    request_id = str(uuid.uuid4())
    question = {**spec, "global_batch_size": 48}
    first = client.create_plan(question, request_id=request_id)
    assert client.create_plan(question, request_id=request_id).name == first.name
    with pytest.raises(parplan.errors.RequestIdReused) as raised:
        client.create_plan({**spec, "global_batch_size": 40}, request_id=request_id)
    assert raised.value.metadata["requestId"] == request_id
    assert raised.value.code == "INVALID_ARGUMENT"


def test_devices_are_proposed(client, spec):
    group = spec["topology"]["node_groups"][0]
    answer = client.shape_plan({
        "parent": "clusters/a100-40g-16", "model": spec["model"], "global_batch_size": 64,
        "offers": [{"device_kind": group["device_kind"], "devices_per_node": 8,
                    "device_memory_bytes": group["device_memory_bytes"], "min_device_count": 8,
                    "max_device_count": 16}],
        "options": {"allow_estimates": True}})
    assert {one.device_count for one in answer.options} == {8, 16}


def test_errors_have_the_class_of_their_reason(client, spec):
    small = json.loads(json.dumps(spec))
    small["topology"]["node_groups"][0]["device_memory_bytes"] = str(2 << 30)
    with pytest.raises(parplan.errors.NoFeasiblePlan) as raised:
        client.create_plan(small)
    assert int(raised.value.metadata["smallestDeviceMemoryBytes"]) > 2 << 30
    with pytest.raises(parplan.errors.SpecInvalid) as raised:
        client.create_plan({**spec, "global_batch_size": 0})
    assert "global_batch_size" in raised.value.metadata["field"]
    with pytest.raises(parplan.errors.ResourceNotFound):
        client.get_plan("clusters/a100-40g-16/plans/none")
    with pytest.raises(parplan.errors.SpecInvalid, match="spec"):
        client.create_plan({"modle": {}})
    with pytest.raises(parplan.Error) as raised:
        client.create_plan({**spec, "global_batch_size": 4096}, timeout=1e-6)
    assert raised.value.code == "DEADLINE_EXCEEDED"


def test_profiles_are_stored_whole_and_deleted(client, source):
    profile = json.loads((source / "deploy/examples/llama2-7b-a100.profile.json").read_text())
    # Enough for several pieces.
    profile["provenance"]["notes"] = ["note"]
    message = parplan.wire.json_file.from_dict(profile, "Profile", "profile")
    stored = client.upload_profile("a100-40g-16", "node-1", message)
    again = client.get_profile(stored.name)
    assert again == stored
    for field in ("layer_definitions", "layer_timings", "layer_memories", "collective_timings"):
        assert len(getattr(stored, field)) == len(profile.get(field, [])), field
    assert stored.device_kind == profile["device_kind"]
    assert stored.provenance.notes == ["note"]
    names = [one.name for one in client.list_profiles("a100-40g-16", "node-1")]
    assert names == [stored.name]
    client.delete_profile(stored.name)
    with pytest.raises(parplan.errors.ResourceNotFound):
        client.delete_profile(stored.name)


def test_an_execution_is_reported_and_closed(client, spec):
    plan = client.create_plan(spec).name
    execution = client.create_execution(plan)
    window = {"rank": 0, "first_step": 0, "step_count": 10, "median_step_duration": "0.5s"}
    windows = [window, {**window, "first_step": 10}]
    assert client.report_windows(execution.name, windows).stored_window_count == 2
    assert client.report_windows(execution.name, windows).duplicate_window_count == 2
    client.complete_execution(execution.name)
    with pytest.raises(parplan.errors.ExecutionState):
        client.fail_execution(execution.name, "too late")
    failed = client.create_execution(plan)
    client.fail_execution(failed.name, "no memory")
    assert client.get_execution(failed.name).name == failed.name
    assert {execution.name, failed.name} <= {one.name for one in client.list_executions(plan)}


def test_a_plan_is_exported_as_files_of_other_programs(client, spec, trust):
    question = {**spec, "options": {**spec.get("options", {}), "target": "megatron"}}
    made = client.create_plan(question)
    files = client.export_plan(made.name, "megatron")
    arguments = files["megatron.args"].decode().splitlines()
    assert "--num-layers=32" in arguments and "README.txt" in files
    plan = client.verified(made, trust)
    assert f"--pipeline-model-parallel-size={plan.pipeline_parallel_degree}" in arguments
    # The plan itself with its model gives the same.
    assert client.export_plan(made.signed_plan, "megatron", model=spec["model"]) == files
    for more in ({}, {"model": {**spec["model"], "layer_runs": spec["model"]["layer_runs"][:2]}}):
        with pytest.raises(parplan.errors.SpecInvalid) as raised:
            client.export_plan(made.signed_plan, "megatron", **more)
        assert "model" in raised.value.metadata["field"]
    with pytest.raises(parplan.errors.SpecInvalid, match="target"):
        client.export_plan(made.name, "nemo")
    with pytest.raises(parplan.errors.ResourceNotFound):
        client.export_plan("clusters/a100-40g-16/plans/none", "megatron")
    changed = type(made.signed_plan)()
    changed.CopyFrom(made.signed_plan)
    changed.payload += b"\0"
    with pytest.raises(parplan.errors.SignatureInvalid):
        client.export_plan(changed, "megatron", model=spec["model"])
    assert "torch-pipelining" in client.capabilities().export_targets


def test_any_method_of_the_contract_can_be_called(client):
    answer = client.call("CalibrationService", "ListCalibrations",
                         {"parent": "clusters/a100-40g-16"})
    assert not answer.calibrations
    assert "exact" in client.capabilities().planners


def test_tls_with_client_certificates(bin_folder, tmp_path):
    made = parplan_process.make_certificates(tmp_path / "certificates")
    flags = ["--tls-certificate", made / "server.pem", "--tls-key", made / "server.key",
             "--tls-client-ca", made / "ca.pem"]
    with parplan_process.Server(bin_folder / "parplan-server", tmp_path, *flags) as started:
        tls = parplan.Tls(made / "ca.pem", made / "client.pem", made / "client.key")
        with parplan.Client(started.address, tls=tls) as client:
            assert client.capabilities().server_version == parplan.__version__
        for other in (None, parplan.Tls(made / "ca.pem")):
            with parplan.Client(started.address, tls=other, timeout=5) as client:
                with pytest.raises(parplan.Error) as raised:
                    client.capabilities()
                assert raised.value.code in ("UNAVAILABLE", "DEADLINE_EXCEEDED")


def test_settings_that_cannot_work_are_named(tmp_path):
    with pytest.raises(parplan.errors.SpecInvalid, match="target"):
        parplan.Client("")
    for target in ("a:65536", "dns:///a:99999", "ipv4:1.2.3.4:5,1.2.3.4:99999"):
        with pytest.raises(parplan.errors.SpecInvalid, match="above 65535"):
            parplan.Client(target)
    with pytest.raises(parplan.errors.SpecInvalid, match="go together"):
        parplan.Client("a:1", tls=parplan.Tls(key_file=tmp_path / "none"))
    with pytest.raises(parplan.errors.SpecInvalid, match="ca_file"):
        parplan.Client("a:1", tls=parplan.Tls(ca_file=tmp_path / "none"))


class Failure(grpc.RpcError):
    """How an attempt ended."""

    def __init__(self, code, details, metadata=()):
        super().__init__()
        self.code, self.details = lambda: code, lambda: details
        self.trailing_metadata = lambda: metadata


def test_a_deadline_that_passes_keeps_what_the_server_said_before():
    ends = [Failure(grpc.StatusCode.UNAVAILABLE, "PostgreSQL does not answer"),
            Failure(grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded")]

    def attempt(_):
        raise ends.pop(0)

    with pytest.raises(parplan.Error) as raised:
        channel._retried(attempt, 60.0, True)
    assert raised.value.code == "DEADLINE_EXCEEDED"
    assert raised.value.message == ("Deadline Exceeded; the attempt before ended with UNAVAILABLE: "
                                    "PostgreSQL does not answer")


def status_details(*details):
    return (("grpc-status-details-bin", messages.RpcStatus(details=[
        {"type_url": f"type.googleapis.com/google.rpc.{name}", "value": one.SerializeToString()}
        for name, one in details]).SerializeToString()),)


@pytest.mark.parametrize("timeout, attempts", [(60.0, 4), (1.0, 1)])
def test_a_pause_is_as_long_as_the_server_says(monkeypatch, timeout, attempts):
    """The third pause would be longer than the delay of half a second; a call that ends before the
    delay is not repeated."""
    info = messages.ErrorInfo(reason="STORE_UNAVAILABLE", metadata={"cause": "the disk is full"})
    retry = messages.RetryInfo()
    retry.retry_duration.seconds, retry.retry_duration.nanos = divmod(
        int((0.5 if timeout > 1 else 2) * 1e9), 10**9)
    failure = Failure(grpc.StatusCode.UNAVAILABLE, "disk full",
                      status_details(("ErrorInfo", info), ("RetryInfo", retry)))
    pauses, calls = [], []

    def attempt(_):
        calls.append(None)
        raise failure

    monkeypatch.setattr(channel.time, "sleep", pauses.append)
    with pytest.raises(parplan.errors.StoreUnavailable) as raised:
        channel._retried(attempt, timeout, True)
    assert len(calls) == attempts
    assert raised.value.retry_seconds == (0.5 if timeout > 1 else 2)
    assert raised.value.metadata == {"cause": "the disk is full"}
    assert pauses[:2] == [0.5, 0.5][:attempts - 1]
    assert all(one >= 0.5 for one in pauses)


def test_details_that_a_proxy_cut_leave_code_and_message():
    whole = status_details(("ErrorInfo", messages.ErrorInfo(reason="QUOTA_EXCEEDED")))[0][1]
    found = channel.error_of(Failure(grpc.StatusCode.RESOURCE_EXHAUSTED, "no room",
                                     (("grpc-status-details-bin", whole[:-3]),)))
    assert (found.code, found.message) == ("RESOURCE_EXHAUSTED", "no room")
    assert found.retry_seconds is None


class Flaky:
    """A server whose first calls of each method fail."""

    def __init__(self, failures, code=grpc.StatusCode.UNAVAILABLE, socket=None):
        self.failures, self.code = failures, code
        self.requests = []
        self.tokens = []
        self._lock = threading.Lock()
        self._server = grpc.server(futures.ThreadPoolExecutor(4))
        self._server.add_generic_rpc_handlers([self])
        self.port = self._server.add_insecure_port(
            "127.0.0.1:0" if socket is None else f"unix:{socket}")
        self._server.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._server.stop(None)

    def service(self, details):
        method = details.method.rpartition("/")[2]
        # The channel itself watches the health of the server.
        if method != "Watch":
            self.tokens.append(dict(details.invocation_metadata).get("authorization"))
        if method == "SearchPlan":
            return grpc.unary_stream_rpc_method_handler(
                self._search, messages.CreatePlanRequest.FromString,
                messages.SearchPlanResponse.SerializeToString)
        if method == "ReportMetrics":
            return grpc.stream_unary_rpc_method_handler(
                self._report, messages.ReportMetricsRequest.FromString,
                messages.ReportMetricsResponse.SerializeToString)
        if method == "ExportPlan":
            return grpc.unary_unary_rpc_method_handler(
                self._export, messages.ExportPlanRequest.FromString,
                messages.ExportPlanResponse.SerializeToString)
        if method in ("CreateExecution", "DeleteProfile"):
            return grpc.unary_unary_rpc_method_handler(
                self._create, messages.CreateExecutionRequest.FromString,
                messages.Execution.SerializeToString)
        return None

    def _fail(self, context, request):
        with self._lock:
            self.requests.append(request)
            fails = len(self.requests) <= self.failures
        if fails:
            context.abort(self.code, "not now")

    def _search(self, request, context):
        yield messages.SearchPlanResponse(progress=messages.SearchProgress(total_candidate_count=1))
        self._fail(context, request)
        yield messages.SearchPlanResponse(plan=messages.Plan(name="found"))

    def _report(self, requests, context):
        windows = list(requests)
        self._fail(context, windows)
        return messages.ReportMetricsResponse(stored_window_count=len(windows))

    def _create(self, request, context):
        self._fail(context, request)
        return messages.Execution(name="made")

    def _export(self, request, context):
        self._fail(context, request)
        return messages.ExportPlanResponse(files=[
            messages.ExportedFile(name=request.target, content=b"text")])


def test_what_breaks_is_repeated_under_the_same_request_id(spec):
    with Flaky(3) as server, parplan.Client(f"127.0.0.1:{server.port}") as client:
        seen = []
        assert client.create_plan(spec, on_progress=seen.append).name == "found"
        ids = {request.request_id for request in server.requests}
        assert (len(server.requests), len(ids), len(seen)) == (4, 1, 4) and ids != {""}
    with Flaky(2) as server, parplan.Client(f"127.0.0.1:{server.port}") as client:
        assert client.create_execution("clusters/a/plans/b").name == "made"
        assert len({request.request_id for request in server.requests}) == 1
        assert len(server.requests) == 3
    with Flaky(1, grpc.StatusCode.CANCELLED) as server, \
            parplan.Client(f"127.0.0.1:{server.port}") as client:
        assert client.report_windows("e", [{"rank": 0}, {"rank": 1}]).stored_window_count == 2
        assert [len(windows) for windows in server.requests] == [2, 2]


def test_each_call_sends_the_token_that_the_file_has_then(tmp_path):
    target, token_file = f"unix:{tmp_path}/socket", tmp_path / "token"
    token_file.write_text("first\n")
    with Flaky(0, socket=tmp_path / "socket") as server, \
            parplan.Client(target, token_file=token_file) as client:
        client.create_execution("clusters/a/plans/b")
        # Kubernetes replaces a link to the folder of the file; what a client sees is a new file.
        (tmp_path / "next").write_text("second")
        (tmp_path / "next").rename(token_file)
        client.create_execution("clusters/a/plans/b")
        assert server.tokens == ["Bearer first", "Bearer second"]
        token_file.write_text("two words")
        with pytest.raises(parplan.Error, match="holds no token"):
            client.create_execution("clusters/a/plans/b")
        assert len(server.requests) == 2
    with Flaky(0, socket=tmp_path / "other") as server, \
            parplan.Client(f"unix:{tmp_path}/other") as client:
        client.create_execution("clusters/a/plans/b")
        assert set(server.tokens) == {None}


def test_a_token_that_strangers_could_read_is_refused(tmp_path):
    token_file = tmp_path / "token"
    token_file.write_text("token")
    for target in ("127.0.0.1:9477", "dns:///planner:9477"):
        with pytest.raises(parplan.errors.SpecInvalid, match="TLS or a Unix socket"):
            parplan.Client(target, token_file=token_file)
    parplan.Client("planner:9477", tls=parplan.Tls(), token_file=token_file).close()
    for text in ("", "two words", "t\xf6ken", "a" * 20000, "token" + " " * 20000):
        token_file.write_text(text)
        with pytest.raises(parplan.errors.SpecInvalid, match="holds no token"):
            parplan.Client(f"unix:{tmp_path}/socket", token_file=token_file)
    with pytest.raises(parplan.errors.SpecInvalid, match="cannot be read"):
        parplan.Client(f"unix:{tmp_path}/socket", token_file=tmp_path / "none")
    # Nobody writes to the pipe, and the device never ends.
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/zero", tmp_path):
        with pytest.raises(parplan.errors.SpecInvalid, match="no regular file"):
            parplan.Client(f"unix:{tmp_path}/socket", token_file=path)


def test_exported_files_have_plain_names():
    with Flaky(1) as server, parplan.Client(f"127.0.0.1:{server.port}") as client:
        assert client.export_plan("clusters/a/plans/b", "plan.json") == {"plan.json": b"text"}
        for name in ("../plan.json", "/etc/passwd", "", "..", "a\0b"):
            with pytest.raises(parplan.Error, match="not a plain name"):
                client.export_plan("clusters/a/plans/b", name)


def test_four_attempts_are_made_and_others_only_once(spec):
    with Flaky(9) as server, parplan.Client(f"127.0.0.1:{server.port}") as client:
        with pytest.raises(parplan.Error) as raised:
            client.create_plan(spec)
        assert (raised.value.code, len(server.requests)) == ("UNAVAILABLE", 4)
        with pytest.raises(parplan.Error):
            client.delete_profile("clusters/a/nodes/b/profiles/c")
        assert len(server.requests) == 5
    with Flaky(9, grpc.StatusCode.INTERNAL) as server, \
            parplan.Client(f"127.0.0.1:{server.port}") as client:
        with pytest.raises(parplan.Error):
            client.create_plan(spec)
        assert len(server.requests) == 1
