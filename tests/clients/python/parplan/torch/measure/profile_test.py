"""`parplan-torch profile`, and planctl that plans with what it writes."""

import json
import subprocess

import pytest
import torch
from torch import nn

from parplan.errors import SpecInvalid
from parplan.torch.command.main import main
from parplan.torch.measure.collectives import shapes_of
from parplan.torch.measure.kept import measure_kept
from parplan.torch.measure.models import Model, load_model
from parplan.torch.measure.passes import measure_passes
from parplan.torch.measure.profile import Request, measure_profile
from parplan.torch.measure.steady import Effort, measure, spread_of
from parplan.wire import json_file

WIDTH, TOKENS, VOCABULARY = 64, 32, 96
CPU = torch.device("cpu")
SPEC = {
    "model_id": "toy", "precision": "PRECISION_FP32", "optimizer": "OPTIMIZER_ADAM",
    "layer_definitions": [
        {"layer_definition_id": "embedding", "kind": "LAYER_KIND_EMBEDDING",
         "hidden_size": WIDTH, "sequence_length": TOKENS, "vocabulary_size": VOCABULARY},
        {"layer_definition_id": "block", "kind": "LAYER_KIND_FEED_FORWARD", "hidden_size": WIDTH,
         "sequence_length": TOKENS, "feed_forward_size": 4 * WIDTH,
         "feed_forward_kind": "FEED_FORWARD_KIND_GELU"},
        {"layer_definition_id": "head", "kind": "LAYER_KIND_HEAD", "hidden_size": WIDTH,
         "sequence_length": TOKENS, "vocabulary_size": VOCABULARY}],
    "layer_runs": [{"layer_definition_id": "embedding", "layer_count": 1},
                   {"layer_definition_id": "block", "layer_count": 3},
                   {"layer_definition_id": "head", "layer_count": 1}]}
CLUSTER = {
    "cluster": "cpu", "link_tiers": [{"tier_id": "node", "reach_device_count": 2}],
    "node_groups": [{"node_group_id": "nodes", "device_kind": "this CPU", "node_count": 1,
                     "devices_per_node": 2, "device_memory_bytes": str(1 << 31)}]}


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


def toy(blocks: int = 3) -> nn.Module:
    return nn.Sequential(nn.Embedding(VOCABULARY, WIDTH), *(Block() for _ in range(blocks)),
                         nn.Linear(WIDTH, VOCABULARY, bias=False))


def on_meta(blocks: int = 3) -> Model:
    with torch.device("meta"):
        made = toy(blocks)
    return Model(made, list(made.children()), TOKENS)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A folder with model, cluster and the profile that the command wrote for them."""
    folder = tmp_path_factory.mktemp("profile")
    (folder / "model.json").write_text(json.dumps(SPEC))
    (folder / "cluster.json").write_text(json.dumps(CLUSTER))
    (folder / "toy_model.py").write_text(
        "from torch import nn\n"
        "class Block(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        f"        self.norm = nn.LayerNorm({WIDTH})\n"
        f"        self.up = nn.Linear({WIDTH}, {4 * WIDTH})\n"
        f"        self.down = nn.Linear({4 * WIDTH}, {WIDTH})\n"
        "    def forward(self, x):\n"
        "        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))\n"
        "def make():\n"
        f"    return nn.Sequential(nn.Embedding({VOCABULARY}, {WIDTH}),\n"
        "                         Block(), Block(), Block(),\n"
        f"                         nn.Linear({WIDTH}, {VOCABULARY}, bias=False))\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        assert main(["profile", "--model", "toy_model:make", "--spec", str(folder / "model.json"),
                     "--device-kind", "this CPU", "--devices-per-node", "2", "--micro-batch", "1",
                     "2", "4", "--ranks", "2", "--message-size", "4096", "1048576",
                     "--seconds", "0.2", "--out", str(folder / "profile.json")]) == 0
    return folder


def test_profile_has_every_layer_and_collective(written):
    profile = json.loads((written / "profile.json").read_text())
    assert profile["runtime_id"] == "torch"
    assert profile["provenance"]["library_versions"] == [
        {"library": "torch", "version": torch.__version__}]
    assert {(one["layer_definition_id"], one["micro_batch_size"])
            for one in profile["layer_timings"]} == {
                (name, samples) for name in ("embedding", "block", "head") for samples in (1, 2, 4)}
    assert len(profile["collective_timings"]) == 5 * 2


def plan(bin_folder, folder, runtime):
    return subprocess.run(
        [bin_folder / "planctl", "plan", "--offline", "--model", folder / "model.json",
         "--cluster", folder / "cluster.json", "--profile", folder / "profile.json", "--batch", "8",
         "--max-tensor-parallel", "1", "--allow-estimates", "--runtime", runtime,
         "--format", "json"],
        capture_output=True, text=True, timeout=120, check=False)


def test_planctl_plans_with_the_profile(bin_folder, written, tmp_path):
    first = plan(bin_folder, written, "fsdp")
    assert first.returncode == 0, first.stderr
    # Slower layers make a slower step, so the step's time is made from them.
    profile = json.loads((written / "profile.json").read_text())
    for one in profile["layer_timings"]:
        for field in ("forward_duration", "backward_duration", "forward_duration_p90"):
            one[field] = f"{float(one[field][:-1]) + 1:.9f}s"
    for name in ("model.json", "cluster.json"):
        (tmp_path / name).write_text((written / name).read_text())
    (tmp_path / "profile.json").write_text(json.dumps(profile))
    second = plan(bin_folder, tmp_path, "fsdp")
    assert second.returncode == 0, second.stderr
    seconds = [json.loads(one.stdout)["prediction"]["step_seconds"] for one in (first, second)]
    # Forward and backward of five layers, on each device or on the slower one of two stages.
    assert seconds[1] > seconds[0] + 5


def test_no_other_runtime_is_answered(bin_folder, written):
    refused = subprocess.run(
        [bin_folder / "planctl", "plan", "--offline", "--model", written / "model.json",
         "--cluster", written / "cluster.json", "--profile", written / "profile.json",
         "--batch", "8", "--max-tensor-parallel", "1", "--runtime", "parplan"],
        capture_output=True, text=True, timeout=120, check=False)
    assert refused.returncode != 0
    assert "no timing and no memory of an equal layer" in refused.stderr


def test_kept_bytes_of_a_block_by_hand():
    kind = on_meta().kinds[1]
    kept = measure_kept(on_meta().on_device(kind, CPU, 4), kind, 2, CPU, False)
    row = 4 * TOKENS
    # Input, mean and deviation of the norm, what it makes; both sides of the activation.
    assert kept.nothing_recomputed == row * (WIDTH + 2 + WIDTH + 4 * WIDTH + 4 * WIDTH)
    assert kept.full == row * WIDTH


def test_equal_layers_are_measured_once():
    assert [kind.indices for kind in on_meta().kinds] == [(0,), (1, 2, 3), (4,)]


def test_llama_of_a_configuration_is_measured_from_the_meta_device(tmp_path):
    configuration = {
        "model_type": "llama", "vocab_size": VOCABULARY, "hidden_size": 48, "num_hidden_layers": 2,
        "intermediate_size": 96, "num_attention_heads": 12, "num_key_value_heads": 4,
        "max_position_embeddings": 64, "tie_word_embeddings": False}
    (tmp_path / "config.json").write_text(json.dumps(configuration))
    model = load_model(f"hf:{tmp_path}/config.json", TOKENS)
    assert all(one.is_meta for layer in model.layers for one in layer.parameters())
    assert [kind.indices for kind in model.kinds] == [(0,), (1, 2), (3,)]
    decoder = model.kinds[1]
    times = measure_passes(model.on_device(decoder, CPU, 4), decoder, 1, CPU, False,
                           Effort(seconds=0.05))
    assert times.forward.median > 0 and times.backward.median > 0


def test_another_number_of_layers_is_refused():
    request = Request("this CPU", 2, (1,), 1, (), Effort(seconds=0.01), False)
    with pytest.raises(SpecInvalid, match="has 5 layers, and the model has 4"):
        measure_profile(on_meta(2), json_file.from_dict(SPEC, "ModelSpec", "spec"), request, CPU)


def test_median_interval_is_between_order_statistics():
    assert spread_of(range(1, 8)).uncertainty == float("inf")
    known = spread_of(range(1, 101))
    # Ranks 50 -+ 9.8 of 100: the interval from 41 to 60 about 50.5.
    assert (known.median, known.p90) == (50.5, 90)
    assert known.uncertainty == pytest.approx(19 / 2 / 50.5)


def test_repeats_until_the_effort_is_spent():
    clock = iter(range(10**6))
    values = iter([1.0, 5.0] * 10**6)
    spread = measure(lambda: [next(values)], Effort(seconds=20), lambda: next(clock))[0]
    assert spread.count == 20 + 1 and spread.uncertainty > 0.02


def test_groups_cover_all_ranks():
    assert shapes_of(4) == [(2, 1), (2, 2), (4, 1)]
