"""Random plans with the files that were exported from them (tests/exports/exported_plans.cc).

    for plan in drawn_plans(folder, "megatron"):
        plan.text("megatron.args"), plan.layers[0].tensor

Names of members are those of the contract without the words that all of them have.
"""

import dataclasses
import json
import pathlib

# Plans of each program.
COUNT = 300


@dataclasses.dataclass(frozen=True)
class Layer:
    stage: int
    # The id of its definition: "embedding", "dense", "experts", "prediction-1", "head", ...
    kind: str
    tensor: int
    data: int
    context: int
    experts: int
    # 0: the tensor-parallel degree.
    expert_tensor: int
    # Ranks that exchange tokens for heads inside a ring.
    exchange: int
    # "RING", "ULYSSES" or "ALL_GATHER".
    context_kind: str
    # The stage of ZeRO, 0 to 3.
    zero: int
    # Ranks that share the states, if they are not all with the same parameters; else 0.
    shards: int
    # "NONE", "FULL", "SELECTIVE" or "MODULES".
    recompute: str
    modules: tuple
    sequence: bool
    data_innermost: bool

    @property
    def is_end(self):
        return self.kind in ("embedding", "head")


def layer_of(stage, run):
    """Returns the members of a run of layers of the contract."""
    strategy = run["strategy"]

    def word(name, prefix, default):
        return strategy.get(name, prefix + default).removeprefix(prefix)

    levels = ["NONE", "OPTIMIZER", "GRADIENTS", "PARAMETERS"]
    return Layer(
        stage=stage, kind=run["layer_definition_id"],
        tensor=strategy.get("tensor_parallel_degree", 1),
        data=strategy.get("data_parallel_degree", 1),
        context=strategy.get("context_parallel_degree", 1),
        experts=strategy.get("expert_parallel_degree", 1),
        expert_tensor=strategy.get("expert_tensor_parallel_degree", 0),
        exchange=strategy.get("context_exchange_degree", 1),
        context_kind=word("context_kind", "CONTEXT_KIND_", "RING"),
        zero=levels.index(word("sharding_level", "SHARDING_LEVEL_", "NONE")),
        shards=strategy.get("sharding_degree", 0),
        recompute=word("recompute_level", "RECOMPUTE_LEVEL_", "NONE"),
        modules=tuple(name.removeprefix("RECOMPUTE_MODULE_")
                      for name in strategy.get("recompute_modules", ())),
        sequence=strategy.get("sequence_parallel", False),
        data_innermost=strategy.get("rank_order", [""])[0] == "PARALLEL_AXIS_DATA")


class DrawnPlan:
    def __init__(self, folder):
        self.folder = folder
        plan = json.loads(self.text("plan.json"))
        self.model = json.loads(self.text("model.json"))
        self.devices = plan["device_count"]
        self.batch = int(plan["global_batch_size"])
        self.micro_batches = int(plan["micro_batch_count"])
        self.schedule = plan["schedule"].removeprefix("SCHEDULE_")
        self.virtual_stages = plan["virtual_stage_count"]
        # 0: the pipeline degree.
        self.group = int(plan.get("micro_batch_group_size", 0))
        self.precision = self.model["precision"].removeprefix("PRECISION_").lower()
        self.layers = [layer_of(stage, run) for stage, content in enumerate(plan["stages"])
                       for run in content.get("layer_runs", ())
                       for _ in range(run.get("layer_count", 0))]
        self.stage_count = len(plan["stages"])
        self.pipeline = self.stage_count // self.virtual_stages

    def text(self, name):
        return (self.folder / name).read_text()

    def has(self, name):
        return (self.folder / name).exists()

    def variables(self, name):
        """Returns the lines NAME=VALUE of a file."""
        return dict(line.partition("=")[::2] for line in self.text(name).splitlines())

    def decoders(self):
        return [layer for layer in self.layers if not layer.is_end]

    def stage_layer_counts(self):
        counts = [0] * self.stage_count
        for layer in self.layers:
            counts[layer.stage] += 1
        return counts

    def micro_batch_per_rank(self):
        """Returns the samples of a micro-batch on one replica of the first layer."""
        return self.batch // self.micro_batches // self.layers[0].data

    def definition(self, kind):
        return next(one for one in self.model["layer_definitions"]
                    if one["layer_definition_id"] == kind)

    def passes(self):
        """Returns the cells of each line of schedule.csv."""
        return [line.split(",") for line in self.text("schedule.csv").splitlines()]


def drawn_plans(folder, program):
    """Returns all plans of a program, the first seed first."""
    folders = sorted((pathlib.Path(folder) / program).iterdir(), key=lambda path: int(path.name))
    if len(folders) != COUNT:
        raise AssertionError(f"{program}: {len(folders)} plans in place of {COUNT}")
    return [DrawnPlan(path) for path in folders]
