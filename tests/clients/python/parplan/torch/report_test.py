"""A job reports its steps to a server that may be away for a while, and never waits for it."""

import json
import tempfile
import threading
import time

import grpc
import pytest
import signed_plans as plans
import torch
import torch_jobs as jobs
from executions import Executions

import parplan
import parplan.torch
from parplan.strategy import Strategy
from parplan.torch import report

PLAN = "clusters/tests/plans/p1"
WINDOW = {"rank": 0, "first_step": 0, "step_count": 10, "median_step_duration": "0.5s"}


@pytest.fixture
def socket():
    # Paths of sockets are short.
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield f"unix:{folder}/s"


def train(address, fails):
    """Trains five steps in windows of two. Returns what the report says, by rank."""
    stages = [[Strategy(1, 2)] * 3]
    plan = jobs.plan_of(plans.model_of(3), stages, batch=4, micro_batch_count=1)
    run = parplan.torch.apply(plan, jobs.model_of("plain", 3), jobs.loss_fn, device="cpu",
                              optimizer=torch.optim.SGD, report_to=address, window_steps=2)
    try:
        with run:
            for step in range(5):
                run.step(*jobs.batch_of(4, seed=step))
            if fails:
                raise RuntimeError("no more data")
            summary = run.close()
    except RuntimeError:
        return None
    return None if summary is None else (summary.delivered_count, summary.lost_count,
                                         summary.is_closed)


@pytest.mark.parametrize("fails", [False, True])
def test_a_job_reports_the_steps_of_all_ranks(tmp_path, socket, fails):
    with Executions(socket) as server:
        (answers,) = jobs.run_ranks(2, tmp_path, train, [(socket, fails)])
    if fails:
        assert server.ended == ["RuntimeError: no more data"]
    else:
        assert answers == [(6, 0, True), None] and server.ended == [""]
    found = [(one.rank, one.first_step, one.step_count) for one in server.windows]
    assert found == [(0, 0, 2), (1, 0, 2), (0, 2, 2), (1, 2, 2),
                     *([] if fails else [(0, 4, 1), (1, 4, 1)])]
    for one in server.windows:
        duration = one.median_step_duration
        assert duration.seconds + duration.nanos / 1e9 > 0
        # A process with PyTorch.
        assert one.peak_memory_bytes > 50 << 20


def test_a_server_that_comes_back_gets_all_windows(socket, monkeypatch):
    monkeypatch.setattr(report, "_FIRST_PAUSE_SECONDS", 0.001)
    # The client itself repeats what is not available, four attempts each.
    failures = [("CreateExecution", grpc.StatusCode.INTERNAL)] * 2 + [
        ("ReportMetrics", grpc.StatusCode.UNKNOWN)] * 2 + [
        ("CompleteExecution", grpc.StatusCode.INTERNAL)]
    before = int(time.time())
    with Executions(socket, failures) as server, parplan.Client(socket) as client:
        reporter = report.Reporter(client, PLAN)
        for step in range(3):
            reporter.add([{**WINDOW, "first_step": 10 * step}])
        summary = reporter.finish("")
    assert (summary.delivered_count, summary.lost_count, summary.is_closed) == (3, 0, True)
    assert summary.trouble.code == "INTERNAL"
    assert [one.first_step for one in server.windows] == [0, 10, 20]
    assert len(server.request_ids) == 1 and server.ended == [""]
    # Every attempt says when the job began, however late the server hears it.
    (start,) = server.start_times
    assert before <= start <= time.time()


@pytest.mark.parametrize("method", ["CreateExecution", "ReportMetrics", "CompleteExecution"])
def test_a_token_that_is_refused_for_a_while_loses_no_window(socket, monkeypatch, method):
    monkeypatch.setattr(report, "_FIRST_PAUSE_SECONDS", 0.001)
    failures = [(method, grpc.StatusCode.UNAUTHENTICATED)] * 3
    with Executions(socket, failures) as server, parplan.Client(socket) as client:
        reporter = report.Reporter(client, PLAN)
        reporter.add([WINDOW])
        summary = reporter.finish("")
    assert (summary.delivered_count, summary.lost_count, summary.is_closed) == (1, 0, True)
    assert summary.trouble.code == "UNAUTHENTICATED"
    assert [one.first_step for one in server.windows] == [0] and server.ended == [""]


def windows(count, first=0):
    return [{**WINDOW, "first_step": 10 * one} for one in range(first, first + count)]


@pytest.mark.parametrize("code, reason", [
    (grpc.StatusCode.RESOURCE_EXHAUSTED, "QUOTA_EXCEEDED"),
    (grpc.StatusCode.RESOURCE_EXHAUSTED, "QUEUE_FULL"),
    (grpc.StatusCode.UNAVAILABLE, "STORE_UNAVAILABLE")], ids=str)
@pytest.mark.parametrize("method", ["CreateExecution", "ReportMetrics", "CompleteExecution"])
def test_what_is_refused_for_a_while_is_sent_again_after_the_delay(socket, monkeypatch, method,
                                                                   code, reason):
    monkeypatch.setattr(report, "_FIRST_PAUSE_SECONDS", 0.001)
    # Longer than a call, so that the client itself does not wait for it.
    pauses, delay = [], report._CALL_SECONDS + 1
    monkeypatch.setattr(report.Reporter, "_pause", lambda _, seconds: pauses.append(seconds) or True)
    failures = [(method, code, reason, delay)] * 3
    with Executions(socket, failures) as server, parplan.Client(socket) as client:
        reporter = report.Reporter(client, PLAN)
        reporter.add(windows(3))
        summary = reporter.finish("")
    assert server.failed == [method] * 3
    assert (summary.delivered_count, summary.lost_count, summary.is_closed) == (3, 0, True)
    assert (summary.trouble.code, summary.trouble.reason) == (code.name, reason)
    assert summary.trouble.retry_seconds == delay
    assert [one.first_step for one in server.windows] == [0, 10, 20] and server.ended == [""]
    assert len(pauses) == 3 and all(delay <= one <= 1.2 * delay for one in pauses), pauses


def test_no_call_is_made_before_the_delay_unless_the_job_ends(socket):
    """The delay is an hour: more windows do not end the pause, the end of the job does."""
    failures = [("CreateExecution", grpc.StatusCode.RESOURCE_EXHAUSTED, "QUOTA_EXCEEDED", 3600.0)]
    with Executions(socket, failures) as server, parplan.Client(socket) as client:
        reporter = report.Reporter(client, PLAN)
        while reporter._summary.trouble is None:
            reporter._thread.join(0.01)
        for step in range(5):
            reporter.add(windows(1, step))
            reporter._thread.join(0.01)
        assert not server.request_ids
        summary = reporter.finish("")
    assert (summary.delivered_count, summary.lost_count, summary.is_closed) == (5, 0, True)
    assert len(server.request_ids) == 1


def test_a_delay_behind_the_end_of_the_report_is_not_waited_for(socket, caplog):
    failures = [("ReportMetrics", grpc.StatusCode.RESOURCE_EXHAUSTED, "QUOTA_EXCEEDED", 3600.0)] * 9
    with Executions(socket, failures) as server, parplan.Client(socket) as client:
        reporter = report.Reporter(client, PLAN)
        reporter.add(windows(2))
        summary = reporter.finish("")
    assert (summary.delivered_count, summary.lost_count, summary.is_closed) == (0, 2, False)
    assert server.windows == [] and server.ended == []
    assert "2 of 2 windows of steps were not delivered: QUOTA_EXCEEDED: not now" in caplog.text


def test_an_execution_that_is_full_stays_so(socket, caplog):
    failures = [("ReportMetrics", grpc.StatusCode.RESOURCE_EXHAUSTED, "UPLOAD_TOO_LARGE")]
    with Executions(socket, failures) as server, parplan.Client(socket) as client:
        reporter = report.Reporter(client, PLAN)
        reporter.add(windows(2))
        reporter._thread.join()
        reporter.add(windows(3, 2))
        summary = reporter.finish("")
    assert (summary.delivered_count, summary.lost_count, summary.is_closed) == (0, 5, False)
    assert server.windows == []
    assert "steps are not reported any more: UPLOAD_TOO_LARGE" in caplog.text


def test_windows_are_sent_in_batches_and_only_a_refused_one_is_lost(socket, monkeypatch, caplog):
    monkeypatch.setattr(report, "_BATCH_WINDOWS", 2)
    # The first call waits until all windows are there.
    ready = threading.Event()
    call = report.Reporter._call
    monkeypatch.setattr(report.Reporter, "_call",
                        lambda self, *given: ready.wait() and call(self, *given))
    failures = [("ReportMetrics", grpc.StatusCode.INVALID_ARGUMENT, "SPEC_INVALID")]
    with Executions(socket, failures) as server, parplan.Client(socket) as client:
        reporter = report.Reporter(client, PLAN)
        reporter.add(windows(5))
        ready.set()
        summary = reporter.finish("")
    assert server.streams == [[0, 10], [20, 30], [40]]
    assert (summary.delivered_count, summary.lost_count, summary.is_closed) == (3, 2, True)
    assert "the server refused 2 windows of steps for good" in caplog.text


def test_no_window_counts_twice_when_the_queue_overflows_during_a_call(socket, monkeypatch, caplog):
    """Two windows are under way while four more come to a queue of three: the call is refused, so
    the oldest three of six are lost, and three are delivered."""
    monkeypatch.setattr(report, "_MAX_WINDOWS", 3)
    monkeypatch.setattr(report, "_FIRST_PAUSE_SECONDS", 0.001)
    under_way, go_on = threading.Event(), threading.Event()

    class Waiting(Executions):
        def _may_fail(self, method, context):
            if method == "ReportMetrics":
                under_way.set()
                go_on.wait()
            super()._may_fail(method, context)

    failures = [("ReportMetrics", grpc.StatusCode.RESOURCE_EXHAUSTED, "QUEUE_FULL")]
    with Waiting(socket, failures) as server, parplan.Client(socket) as client:
        reporter = report.Reporter(client, PLAN)
        reporter.add(windows(2))
        under_way.wait()
        # The fourth of these is too many as long as the outcome of the call is unknown.
        reporter.add(windows(3, 2))
        assert "are lost from now on" not in caplog.text
        reporter.add(windows(1, 5))
        assert "more than 3 windows of steps wait for the server" in caplog.text
        go_on.set()
        summary = reporter.finish("")
    assert (summary.delivered_count, summary.lost_count, summary.is_closed) == (3, 3, True)
    assert [one.first_step for one in server.windows] == [30, 40, 50]
    assert caplog.text.count("are lost from now on") == 1


def test_windows_that_the_server_refuses_are_lost_and_the_rest_goes_on(socket):
    failures = [("ReportMetrics", grpc.StatusCode.INVALID_ARGUMENT)]
    with Executions(socket, failures) as server, parplan.Client(socket) as client:
        summary = report.Reporter(client, PLAN)
        summary.add([WINDOW])
        summary = summary.finish("")
    assert (summary.delivered_count, summary.lost_count, summary.is_closed) == (0, 1, True)
    assert server.ended == [""]


def test_a_server_that_does_not_know_the_plan_is_given_up(socket):
    failures = [("CreateExecution", grpc.StatusCode.NOT_FOUND)]
    with Executions(socket, failures), parplan.Client(socket) as client:
        reporter = report.Reporter(client, PLAN)
        reporter.add([WINDOW])
        summary = reporter.finish("")
    assert (summary.execution, summary.lost_count, summary.is_closed) == ("", 1, False)
    assert summary.trouble.code == "NOT_FOUND"


def test_the_oldest_windows_are_lost_when_too_many_wait(socket, monkeypatch):
    monkeypatch.setattr(report, "_MAX_WINDOWS", 3)
    monkeypatch.setattr(report, "_CLOSE_SECONDS", 0.0)
    with parplan.Client(socket) as client:
        reporter = report.Reporter(client, PLAN)
        reporter.add([WINDOW] * 5)
        summary = reporter.finish("")
    assert (summary.delivered_count, summary.lost_count) == (0, 5)


def test_a_real_server_stores_what_a_job_reports(bin_folder, source, tmp_path):
    import parplan_process
    spec = json.loads((source / "deploy/kubernetes/job/question.json").read_text())["spec"]
    with parplan_process.Server(bin_folder / "parplan-server", tmp_path) as server, \
            parplan.Client(server.address) as client:
        plan = client.create_plan(spec).name
        reporter = report.Reporter(client, plan)
        reporter.add([{**WINDOW, "peak_memory_bytes": 1 << 30}, {**WINDOW, "rank": 1}])
        summary = reporter.finish("")
        stored = client.get_execution(summary.execution)
    assert (summary.delivered_count, summary.is_closed, stored.window_count) == (2, True, 2)
    assert stored.measured_step_duration.nanos == 500_000_000
