"""What `torch_checks.py` measures, as `prepare_torch_checks.py` wrote it to cases.json."""

from __future__ import annotations

import dataclasses
import json
import pathlib
from collections.abc import Sequence


@dataclasses.dataclass(frozen=True)
class Shape:
    """A model: its layers are those of Llama ("llama") or of GPT-2 ("gpt2")."""
    kind: str
    hidden: int
    heads: int
    key_value_heads: int
    feed_forward: int
    tokens: int
    vocabulary: int
    layers: int
    precision: str = "PRECISION_BF16"


@dataclasses.dataclass(frozen=True)
class LayerCase:
    """One decoder layer of plain PyTorch, with so many samples."""
    name: str
    shape: Shape
    samples: int


@dataclasses.dataclass(frozen=True)
class ProfileCase:
    """A profile of the model in the folder `model`."""
    model: str
    device_kind: str
    micro_batches: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class PlanCase:
    """A plan of the model in the folder `model`, for one device."""
    name: str
    model: str
    path: str
    micro_batch: int
    recompute: str


@dataclasses.dataclass(frozen=True)
class ParityCase:
    """A plan in fp32 that is compared with plain PyTorch."""
    name: str
    model: str
    path: str


@dataclasses.dataclass(frozen=True)
class Cases:
    layers: tuple[LayerCase, ...]
    profiles: tuple[ProfileCase, ...]
    plans: tuple[PlanCase, ...]
    parity: tuple[ParityCase, ...]


def write_cases(folder: pathlib.Path, layers: Sequence[LayerCase],
                profiles: Sequence[ProfileCase], plans: Sequence[PlanCase],
                parity: Sequence[ParityCase]) -> None:
    made = Cases(tuple(layers), tuple(profiles), tuple(plans), tuple(parity))
    (folder / "cases.json").write_text(json.dumps(dataclasses.asdict(made), indent=1) + "\n")


def read_cases(folder: pathlib.Path) -> Cases:
    """Reads `folder`/cases.json. Raises FileNotFoundError if nothing was prepared there."""
    read = json.loads((folder / "cases.json").read_text())
    return Cases(
        tuple(LayerCase(one["name"], Shape(**one["shape"]), one["samples"])
              for one in read["layers"]),
        tuple(ProfileCase(one["model"], one["device_kind"], tuple(one["micro_batches"]))
              for one in read["profiles"]),
        tuple(PlanCase(**one) for one in read["plans"]),
        tuple(ParityCase(**one) for one in read["parity"]))
