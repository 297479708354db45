"""`parplan-torch profile`, and planctl that plans with what it writes."""

import json
import shutil
import subprocess

import pytest
import torch
from measured_models import CLUSTER, SPEC, TOKENS, VOCABULARY, WIDTH, on_meta

from parplan.errors import SpecInvalid
from parplan.torch.command.main import main
from parplan.torch.measure.captures import SAMPLES, captured
from parplan.torch.measure.collectives import shapes_of
from parplan.torch.measure.devices import Processor
from parplan.torch.measure.models import ModelSource, load_model
from parplan.torch.measure.passes import measure_passes
from parplan.torch.measure.profile import measure_profiles
from parplan.torch.measure.request import Request
from parplan.torch.measure.splits import Split
from parplan.torch.measure.steady import Bench, Effort
from parplan.wire import json_file

CPU = torch.device("cpu")
NAMES = ("embedding", "block", "head")
SHARED = [(1, False), (2, True), (2, False)]


def write_question(folder):
    (folder / "model.json").write_text(json.dumps(SPEC))
    (folder / "cluster.json").write_text(json.dumps(CLUSTER))


def profile(folder, *options):
    return main(["profile", "--spec", str(folder / "model.json"), "--device-kind", "this CPU",
                 "--devices-per-node", "2", "--seconds", "0.01",
                 "--out", str(folder / "profile.json"), *options])


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A folder with model, cluster and the profile that the command wrote for them."""
    folder = tmp_path_factory.mktemp("profile")
    write_question(folder)
    (folder / "plan.json").write_text(json.dumps(
        {"*.up": "colwise", "*.down": "rowwise", "4": "colwise_gather_output"}))
    assert profile(folder, "--model", "measured_models:toy", "--micro-batch", "1", "2", "4",
                   "--tensor-parallel", "1", "2", "--tensor-plan", str(folder / "plan.json"),
                   "--sequence-parallel", "--recompute", "full", "selective",
                   "--message-size", "4096", "1048576") == 0
    return folder


def test_profile_has_every_layer_and_collective(written):
    made = json.loads((written / "profile.json").read_text())
    assert made["runtime_id"] == "torch"
    assert made["provenance"]["library_versions"] == [
        {"library": "torch", "version": torch.__version__}]
    # One time for each degree: that of ranks which share tokens.
    assert [(one["layer_definition_id"], one["tensor_parallel_degree"], one["micro_batch_size"])
            for one in made["layer_timings"]] == [
                (name, degree, samples) for degree in (1, 2) for name in NAMES
                for samples in (1, 2, 4)]
    assert [(one["layer_definition_id"], one["tensor_parallel_degree"],
             one.get("sequence_parallel", False)) for one in made["layer_memories"]] == [
                 (name, *shared) for shared in SHARED for name in NAMES]
    assert len(made["collective_timings"]) == 5 * 2
    assert made["overlap_slowdown"] >= 1
    # Python and the libraries of torch: more than one of them alone, less than a model.
    assert 50e6 < int(made["context_memory_bytes"]) < 2e9
    # Buffers of gloo between two processes.
    assert 0 <= int(made["communicator_memory_bytes"]) < 100e6
    assert {one["parameter_count"] for one in made["optimizer_timings"]} == {"33216", "4152"}


def test_notes_say_what_a_profile_has_no_field_for(written):
    notes = json.loads((written / "profile.json").read_text())["provenance"]["notes"]
    assert any("block on one rank: with recomputation full a sample keeps 8192 bytes" in one
               for one in notes)
    assert any("no attention that selective recomputation would repeat" in one for one in notes)
    assert any("2 ranks measured at once, with 1 threads each" in one for one in notes)


def plan(bin_folder, folder, runtime, *options):
    return subprocess.run(
        [bin_folder / "planctl", "plan", "--offline", "--model", folder / "model.json",
         "--cluster", folder / "cluster.json", "--profile", folder / "profile.json",
         "--runtime", runtime, "--format", "json", *options],
        capture_output=True, text=True, timeout=600, check=False)


# With one sample and nothing else that may vary, two devices share every matrix.
ONE_RANK_EACH = ("--batch", "8", "--max-tensor-parallel", "1")
TWO_SHARE = ("--batch", "1", "--space", "none,tensor")


@pytest.mark.parametrize("runtime", ["fsdp", "torch"])
@pytest.mark.parametrize("question", [("--batch", "8"), ONE_RANK_EACH, TWO_SHARE], ids=str)
def test_planctl_plans_without_estimates(bin_folder, written, question, runtime):
    answer = plan(bin_folder, written, runtime, *question)
    assert answer.returncode == 0, answer.stderr
    prediction = json.loads(answer.stdout)["prediction"]
    assert (prediction["confidence"], prediction["estimated_items"]) == ("measured", [])


@pytest.mark.parametrize("question, degree", [(ONE_RANK_EACH, 1), (TWO_SHARE, 2)], ids=str)
def test_steps_are_made_of_the_times_of_their_degree(bin_folder, written, tmp_path, question,
                                                     degree):
    first = plan(bin_folder, written, "fsdp", *question)
    made = json.loads((written / "profile.json").read_text())
    for one in made["layer_timings"]:
        if one["tensor_parallel_degree"] == degree:
            for field in ("forward_duration", "backward_duration", "forward_duration_p90"):
                one[field] = f"{float(one[field][:-1]) + 1:.9f}s"
    write_question(tmp_path)
    (tmp_path / "profile.json").write_text(json.dumps(made))
    second = plan(bin_folder, tmp_path, "fsdp", *question)
    assert second.returncode == 0, second.stderr
    seconds = [json.loads(one.stdout)["prediction"]["step_seconds"] for one in (first, second)]
    # Forward and backward of five layers, on each device or on the slower one of two stages.
    assert seconds[1] > seconds[0] + 5


def test_a_degree_that_was_not_measured_is_missing(bin_folder, written, tmp_path):
    made = json.loads((written / "profile.json").read_text())
    for field in ("layer_timings", "layer_memories"):
        made[field] = [one for one in made[field] if one["tensor_parallel_degree"] == 1]
    write_question(tmp_path)
    (tmp_path / "profile.json").write_text(json.dumps(made))
    answer = plan(bin_folder, tmp_path, "fsdp", *TWO_SHARE)
    assert answer.returncode != 0 and "tensor_parallel_degree 2" in answer.stderr


@pytest.mark.parametrize("runtime", ["parplan", "megatron-core", "megatron-deepspeed"])
def test_no_other_runtime_is_answered(bin_folder, written, runtime):
    refused = plan(bin_folder, written, runtime, "--batch", "8")
    assert refused.returncode != 0
    assert "no timing and no memory of an equal layer" in refused.stderr


@pytest.mark.skipif(shutil.which("c++") is None, reason="torch.compile needs a C++ compiler")
def test_with_and_without_compilation(tmp_path, capfd):
    write_question(tmp_path)
    assert profile(tmp_path, "--model", "measured_models:toy", "--compile", "also",
                   "--recompute", "full", "selective-op", "--format", "json") == 0
    summary = json.loads(capfd.readouterr().out.splitlines()[-1])
    files = [tmp_path / "profile.json", tmp_path / "profile.torch-compile.json"]
    assert [one["file"] for one in summary["profiles"]] == list(map(str, files))
    for path, runtime in zip(files, ("torch", "torch-compile")):
        made = json.loads(path.read_text())
        assert made["runtime_id"] == runtime
        assert [(one["layer_definition_id"], one["micro_batch_size"])
                for one in made["layer_timings"]] == [(name, 1) for name in NAMES]
        # A compiled layer keeps no more than the operators one by one.
        kept = {one["layer_definition_id"]: int(one["activation_bytes_per_sample"])
                for one in made["layer_memories"]}
        assert 0 < kept["block"] <= 82176
    assert {(one["runtime_id"], one["policy"]) for one in summary["recomputation"]} == {
        (runtime, policy) for runtime in ("torch", "torch-compile")
        for policy in ("full", "selective-op")}


def test_llama_of_a_configuration_is_measured_from_the_meta_device(tmp_path):
    configuration = {
        "model_type": "llama", "vocab_size": VOCABULARY, "hidden_size": 48, "num_hidden_layers": 2,
        "intermediate_size": 96, "num_attention_heads": 12, "num_key_value_heads": 4,
        "max_position_embeddings": 64, "tie_word_embeddings": False}
    (tmp_path / "config.json").write_text(json.dumps(configuration))
    model = load_model(f"hf:{tmp_path}/config.json", TOKENS)
    assert all(one.is_meta for layer in model.layers for one in layer.parameters())
    assert [kind.indices for kind in model.kinds] == [(0,), (1, 2), (3,)]
    # The plan of the model itself.
    assert model.tensor_plan["model.layers.*.self_attn.o_proj"] == "rowwise"
    decoder = model.kinds[1]
    times = measure_passes(model.on_device(decoder, CPU, 4), decoder, [1],
                           Bench(Processor(), Effort(seconds=0.05)), False)[1]
    assert times.forward.median > 0 and times.backward.median > 0


def test_images_of_a_configuration_are_what_its_model_is_called_with(tmp_path):
    configuration = {"model_type": "vit", "hidden_size": 48, "num_hidden_layers": 2,
                     "intermediate_size": 96, "num_attention_heads": 4, "image_size": 16,
                     "patch_size": 4, "num_labels": 10}
    (tmp_path / "config.json").write_text(json.dumps(configuration))
    model = load_model(f"hf:{tmp_path}/config.json", 17)
    assert [kind.indices for kind in model.kinds] == [(0,), (1, 2), (3,)]
    assert model.kinds[0].given.shape == (3, 16, 16)
    assert model.kinds[1].given.shape == (17, 48)
    # Ranks that share tokens each have the whole image.
    assert model.kinds[0].sharing_tokens(2).given.shape == (3, 16, 16)
    for kind, is_last in zip(model.kinds, (False, False, True)):
        times = measure_passes(model.on_device(kind, CPU, 4), kind, [2],
                               Bench(Processor(), Effort(seconds=0.02)), is_last)[2]
        assert times.forward.median > 0


def test_inputs_of_a_callable_are_what_layers_are_called_with():
    sample = captured(torch.zeros(SAMPLES, 7, 5))
    model = ModelSource("measured_models:frames", 0, inputs=sample).load()
    assert model.kinds[0].given.shape == (7, 5)
    assert model.kinds[1].given.shape == (7, WIDTH)


def request(**options):
    return Request("this CPU", 2, (1,), options.pop("ranks", 1), (), Effort(seconds=0.01),
                   **options)


def spec(**changes):
    return json_file.from_dict({**SPEC, **changes}, "ModelSpec", "spec")


@pytest.mark.parametrize("asked, given, rule", [
    (request(), {"layer_runs": SPEC["layer_runs"][:2]}, "has 4 layers, and the model has 5"),
    (request(), {"layer_runs": [{"layer_definition_id": "block", "layer_count": 5}]},
     "layer 1 is a block, but differs from an earlier one"),
    (request(tensor_parallel_degrees=(1, 2)), {}, "2 does not divide the 1 ranks"),
    (request(), {"optimizer": "OPTIMIZER_UNSPECIFIED"}, "optimizer OPTIMIZER_UNSPECIFIED"),
    (request(ranks=1024, device_type="cuda"), {}, "1024 ranks need as many GPUs")])
def test_refused_before_anything_is_measured(asked, given, rule):
    with pytest.raises(SpecInvalid, match=rule):
        measure_profiles(ModelSource("measured_models:toy", TOKENS), spec(**given), asked)


def test_a_precision_that_is_not_known_is_refused(tmp_path, capsys):
    (tmp_path / "model.json").write_text(json.dumps(
        {name: value for name, value in SPEC.items() if name != "precision"}))
    assert profile(tmp_path, "--model", "measured_models:toy") != 0
    assert "precision: PRECISION_UNSPECIFIED is not known" in capsys.readouterr().err
    assert not (tmp_path / "profile.json").exists()


def test_layers_that_no_plan_splits_are_refused():
    with pytest.raises(SpecInvalid, match="no entry of the model's tensor-parallel plan"):
        # The embedding is split without an entry, so it is not in this model.
        measure_profiles(ModelSource("measured_models:toy", TOKENS, layers=("1", "2", "3")),
                         spec(layer_runs=SPEC["layer_runs"][1:2]),
                         request(ranks=2, tensor_parallel_degrees=(1, 2)))


def test_ways_to_share_layers():
    assert request(tensor_parallel_degrees=(4, 2), sequence_parallel=True).splits == [
        Split(), Split(2, True), Split(2), Split(4, True), Split(4)]


def test_groups_cover_all_ranks():
    assert shapes_of(4) == [(2, 1), (2, 2), (4, 1)]


def test_meta_layers_are_measured_once():
    assert [kind.indices for kind in on_meta().kinds] == [(0,), (1, 2, 3), (4,)]
