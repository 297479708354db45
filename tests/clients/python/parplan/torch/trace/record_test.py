"""Traces of measured steps: every pass by the name that the predicted one has."""

import argparse
import json
import pickle
import subprocess
import time

import check_models
import pytest
import signed_plans as plans
import torch_jobs as jobs

from parplan.errors import SpecInvalid
from parplan.strategy import Strategy
from parplan.torch.command.main import main
from parplan.torch.spans import Recorder, Span, span
from parplan.torch.trace import Measured, differences, record
from parplan.wire import json_file

PIPELINE = [[Strategy(1, 2)] * 2, [Strategy(1, 2)] * 3]
MICRO_BATCHES = 3


def predicted(path, spans):
    """Writes a trace as planctl does: rows of names and durations in microseconds."""
    path.write_text(json.dumps({"traceEvents": [
        {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": "predicted"}},
        *({"ph": "X", "name": name, "pid": 1, "tid": row, "ts": 0, "dur": duration}
          for row, name, duration in spans)], "otherData": {"predicted_step_seconds": 1}}))
    return path


def run_and_record(stages, options, path, other):
    import parplan.torch
    import torch
    plan = jobs.plan_of(plans.model_of(sum(map(len, stages))), stages, **options)
    model = jobs.model_of("plain", len(plan.layers))
    run = parplan.torch.apply(plan, model, jobs.loss_fn, device="cpu", seed=1,
                              optimizer=torch.optim.SGD, tensor_plan=jobs.TENSOR_PLAN)
    measured = record(run, *jobs.batch_of(plan.global_batch_size), path, predicted=other, steps=3)
    return None if measured is None else pickle.dumps(measured)


def test_a_step_of_a_pipeline_has_every_pass_of_every_rank(tmp_path):
    options = {"batch": 4 * MICRO_BATCHES, "micro_batch_count": MICRO_BATCHES}
    other = predicted(tmp_path / "predicted", [(1, "0F0", 5.0), (0, "step", 100.0)])
    ((first, *others),) = jobs.run_ranks(
        4, tmp_path, run_and_record, [(PIPELINE, options, str(tmp_path / "trace"), str(other))])
    assert others == [None] * 3
    measured = pickle.loads(first)
    for rank, spans in enumerate(measured.ranks):
        stage = rank // 2
        names = [one.name for one in spans]
        # As Schedule says: 1F1B in the first stage begins with a forward pass more.
        order = {0: ["0F0", "0F1", "0B0", "0F2", "0B1", "0B2"],
                 1: ["1F0", "1B0", "1F1", "1B1", "1F2", "1B2"]}[stage]
        assert names == [*order, "gradients", "optimizer", "step"]
        ends = [one.start + one.duration for one in spans[:-1]]
        assert all(begin.start >= end for begin, end in zip(spans[1:-1], ends))
        assert spans[-1].duration >= ends[-1] - spans[0].start
    document = json.loads((tmp_path / "trace").read_text())
    events = document["traceEvents"]
    assert {one["pid"] for one in events} == {1, 2}
    assert [one["args"]["name"] for one in events if one["name"] == "thread_name"] == [
        f"rank {rank}" for rank in range(4)]
    last = [one for one in events if one["name"] == "1B2" and one["pid"] == 2]
    assert [one["args"] for one in last] == [{"stage": 1, "micro_batch": 2}] * 2
    assert document["otherData"]["predicted_step_seconds"] == 1
    assert document["otherData"]["measured_step_seconds"] == pytest.approx(measured.step)


def test_differences_are_means_of_passes_and_medians_of_ranks(tmp_path):
    """Worked by hand: ranks need 2 and 4, 3 and 5, 8 and 10 us for passes of stage 0; the median of
    3, 4 and 9 is 4."""
    measured = Measured(tuple((Span("0F0", 0, first), Span("0F1", 9, second), Span("step", 0, 30))
                              for first, second in ((2, 4), (3, 5), (8, 10))), 3e-5)
    other = predicted(tmp_path / "predicted", [(1, "0F0", 6.0), (1, "0F1", 8.0), (3, "1F0", 1.0),
                                               (0, "step", 25.0)])
    found = {one.name: (one.measured, one.predicted) for one in differences(measured, other)}
    assert found == {"0F": (pytest.approx(4e-6), pytest.approx(7e-6)),
                     "step": (pytest.approx(3e-5), pytest.approx(2.5e-5))}
    assert [one.predicted for one in differences(measured, None)] == [None, None]


def test_differences_stand_in_the_order_of_stages_and_passes():
    names = ("step", "10F0", "2W0", "2I1", "2F0", "0+1B0", "0F0")
    measured = Measured((tuple(Span(name, 0, 1) for name in names),), 1e-6)
    assert [one.name for one in differences(measured, None)] == [
        "0F", "0+1B", "2F", "2I", "2W", "10F", "step"]


def test_a_rank_whose_layers_have_no_parameters_is_measured(tmp_path):
    import torch

    class Empty:
        """A run of one rank without parameters, which `record` must not ask for a device."""
        device, plan = torch.device("cpu"), argparse.Namespace(name="empty")

        def parameters(self):
            return iter(())

        def step(self, inputs, targets):
            pass

    measured = record(Empty(), None, None, tmp_path / "trace", steps=1, warm_ups=0)
    assert [one.name for one in measured.ranks[0]] == ["step"]


def test_what_is_no_trace_is_refused(tmp_path):
    path = tmp_path / "other"
    for text in ("", "{}", "[]", '{"traceEvents": [1]}', '{"traceEvents": 1}'):
        path.write_text(text)
        with pytest.raises(SpecInvalid, match="is no trace"):
            differences(Measured((), 0.0), path)


def test_spans_without_a_recorder_are_not_measured():
    import torch
    with span("before"):
        pass
    recorder = Recorder(torch.device("cpu"))
    with recorder, span("outer"), span("inner"):
        pass
    with span("after"):
        pass
    assert [one.name for one in recorder.spans] == ["inner", "outer"]
    inner, outer = recorder.spans
    assert outer.start <= inner.start and outer.duration >= inner.duration


def test_the_command_measures_a_plan_on_this_machine(tmp_path, capsys, request):
    spec, topology = plans.model_of(5), plans.topology_of(2)
    now = int(time.time())
    payload = plans.payload_of(spec, topology, [[Strategy(1, 1)] * 2, [Strategy(1, 1)] * 3],
                               batch=4, micro_batch_count=2, issued=now)
    # planctl shows plans of a search that ended.
    payload.search.termination = 1
    signed = plans.sign(payload.SerializeToString(), plans.FIRST)
    files = {"plan": signed.to_json().encode(), "trust": plans.trust(plans.FIRST, at=now),
             "spec": plans.json_text(spec), "cluster": plans.json_text(topology)}
    arguments = ["trace", str(tmp_path / "plan"), "--model", "check_models:plain", "--out",
                 str(tmp_path / "trace"), "--steps", "2", "--format", "json"]
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
        if name != "plan":
            arguments += [f"--{name}", str(tmp_path / name)]
    folder = request.config.getoption("--bin")
    if folder is not None and has_trace(folder.resolve() / "planctl"):
        subprocess.run([folder.resolve() / "planctl", "trace", tmp_path / "plan", "--out",
                        tmp_path / "predicted"], check=True, timeout=600)
        arguments += ["--predicted", str(tmp_path / "predicted")]
    assert main([*arguments, "--max-ranks", "1"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["metadata"]["field"] == "--max-ranks"
    assert main(arguments) == 0
    answer = json.loads(capsys.readouterr().out)
    assert {one["name"] for one in answer["spans"]} == {"0F", "0B", "1F", "1B", "gradients",
                                                        "optimizer", "step"}
    assert answer["step_seconds"] > 0
    events = json.loads((tmp_path / "trace").read_text())["traceEvents"]
    measured = {one["name"] for one in events if one["ph"] == "X" and one["pid"] == 2}
    assert measured == {f"{stage}{one}{batch}" for stage in (0, 1) for one in "FB"
                        for batch in (0, 1)} | {"gradients", "optimizer", "step"}
    if "--predicted" in arguments:
        predicted = {one["name"] for one in events if one["ph"] == "X" and one["pid"] == 1}
        assert {one for one in predicted if not one.startswith("send ")} == measured - {
            "gradients", "optimizer"}


@pytest.mark.parametrize("given, precision, backend, fused", [
    ("PRECISION_BF16", "bf16", "gloo", None), ("PRECISION_FP32", None, "gloo", None),
    ("PRECISION_BF16", "bf16", "undefined", True)])
def test_steps_are_measured_as_they_were_predicted(monkeypatch, given, precision, backend, fused):
    """Predictions rest on layers with parameters of 32 bits, of which each pass makes copies, and on
    GPUs on an optimizer of one kernel."""
    import torch

    import parplan.torch.run
    from parplan.torch.trace import command

    class Applied(Exception):
        pass

    def apply(plan, model, loss_fn, **options):
        raise Applied(options["precision"], len(options["layers"]),
                      getattr(options["optimizer"], "keywords", {}).get("fused"))

    spec = json_file.from_dict({**json_file.to_dict(plans.model_of(5)), "precision": given},
                               "ModelSpec", "model")
    plan = jobs.plan_of(spec, [[Strategy()] * 5], batch=4, micro_batch_count=2)
    monkeypatch.setattr(command, "_plan", lambda _: plan)
    monkeypatch.setattr(parplan.torch.run, "apply", apply)
    monkeypatch.setattr(torch.distributed, "get_backend", lambda: backend)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: backend != "gloo")
    with pytest.raises(Applied) as raised:
        command._measure(argparse.Namespace(
            model="check_models:core", layers=check_models.CORE_LAYERS, loss="", inputs="",
            tensor_plan=""))
    assert raised.value.args == (precision, 5, fused)


def has_trace(planctl):
    """Returns whether a planctl, which may be of an earlier build, has the command."""
    return b"--out" in subprocess.run([planctl, "trace", "--help"], capture_output=True,
                                      timeout=600).stdout
