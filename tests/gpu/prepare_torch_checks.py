#!/usr/bin/env python3
"""Writes what `torch_checks.py` needs: models, a cluster of one device, and signed plans for it.

    PYTHONPATH=clients/python:tests/clients/python python3 tests/gpu/prepare_torch_checks.py FOLDER

Signing needs `cryptography`, so this runs where that is, and the machine with the GPU gets FOLDER.
Plans expire a day later. `--small` writes sizes for processors.

    FOLDER/cases.json                  what to measure (torch_cases.py)
    FOLDER/<model>/config.json         configuration of transformers
    FOLDER/<model>/model.json          model file of the same layers
    FOLDER/<model>/cluster.json, trust.json, <plan>.dsse.json
"""

from __future__ import annotations

import argparse
import json
import pathlib
import time
from typing import Any

import signed_plans as plans
from torch_cases import LayerCase, ParityCase, PlanCase, ProfileCase, Shape, write_cases

from parplan.strategy import Recompute, Strategy
from parplan.wire import json_file

DEVICE_KIND = "device under test"
BATCH = 16
MICRO_BATCHES = (1, 2, 4, 8)

LLAMA = Shape("llama", hidden=4096, heads=32, key_value_heads=8, feed_forward=14336,
              tokens=2048, vocabulary=32000, layers=6)
LLAMA_8K = Shape("llama", hidden=4096, heads=32, key_value_heads=8, feed_forward=14336,
                 tokens=8192, vocabulary=32000, layers=2)
GPT = Shape("gpt2", hidden=2048, heads=16, key_value_heads=16, feed_forward=8192, tokens=2048,
            vocabulary=50304, layers=4)
GPT_8K = Shape("gpt2", hidden=2048, heads=16, key_value_heads=16, feed_forward=8192, tokens=8192,
               vocabulary=50304, layers=4)
PARITY = Shape("llama", hidden=256, heads=8, key_value_heads=4, feed_forward=512, tokens=128,
               vocabulary=512, layers=3, precision="PRECISION_FP32")

SMALL_LLAMA = Shape("llama", hidden=64, heads=4, key_value_heads=2, feed_forward=128, tokens=64,
                    vocabulary=256, layers=2)
SMALL_GPT = Shape("gpt2", hidden=64, heads=4, key_value_heads=4, feed_forward=256, tokens=64,
                  vocabulary=256, layers=2)
SMALL_PARITY = Shape("llama", hidden=64, heads=4, key_value_heads=2, feed_forward=128, tokens=32,
                     vocabulary=128, layers=2, precision="PRECISION_FP32")


def configuration(shape: Shape) -> dict[str, Any]:
    """Returns the configuration of transformers for a shape, without dropout."""
    if shape.kind == "llama":
        return {"model_type": "llama", "architectures": ["LlamaForCausalLM"],
                "vocab_size": shape.vocabulary, "hidden_size": shape.hidden,
                "intermediate_size": shape.feed_forward, "num_hidden_layers": shape.layers,
                "num_attention_heads": shape.heads, "num_key_value_heads": shape.key_value_heads,
                "max_position_embeddings": shape.tokens, "hidden_act": "silu",
                "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "tie_word_embeddings": False}
    return {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"],
            "vocab_size": shape.vocabulary, "n_embd": shape.hidden, "n_layer": shape.layers,
            "n_head": shape.heads, "n_inner": shape.feed_forward, "n_positions": shape.tokens,
            "activation_function": "gelu_pytorch_tanh", "embd_pdrop": 0.0, "resid_pdrop": 0.0,
            "attn_pdrop": 0.0, "tie_word_embeddings": False}


def model_of(name: str, shape: Shape) -> Any:
    """Returns the `ModelSpec` of a shape."""
    common = {"hidden_size": shape.hidden, "sequence_length": shape.tokens}
    feed_forward = "SWIGLU" if shape.kind == "llama" else "GELU"
    return json_file.from_dict({
        "model_id": name, "precision": shape.precision, "optimizer": "OPTIMIZER_ADAM",
        "layer_definitions": [
            {"layer_definition_id": "embedding", "kind": "LAYER_KIND_EMBEDDING",
             "vocabulary_size": shape.vocabulary, **common},
            {"layer_definition_id": "decoder", "kind": "LAYER_KIND_DECODER",
             "attention_head_count": shape.heads, "key_value_head_count": shape.key_value_heads,
             "feed_forward_size": shape.feed_forward,
             "feed_forward_kind": f"FEED_FORWARD_KIND_{feed_forward}", **common},
            {"layer_definition_id": "head", "kind": "LAYER_KIND_HEAD",
             "vocabulary_size": shape.vocabulary, **common}],
        "layer_runs": [{"layer_definition_id": "embedding", "layer_count": 1},
                       {"layer_definition_id": "decoder", "layer_count": shape.layers},
                       {"layer_definition_id": "head", "layer_count": 1}]}, "ModelSpec", "model")


def topology() -> Any:
    """Returns a cluster of one device. Nothing is asked of its memory."""
    return json_file.from_dict({
        "cluster": "tests", "link_tiers": [{"tier_id": "node", "reach_device_count": 1}],
        "node_groups": [{"node_group_id": "all", "device_kind": DEVICE_KIND, "node_count": 1,
                         "devices_per_node": 1, "device_memory_bytes": str(80 << 30)}]},
        "ClusterTopology", "cluster")


def write_model(folder: pathlib.Path, name: str, shape: Shape) -> Any:
    """Writes the files of a model and returns its `ModelSpec`."""
    made = folder / name
    made.mkdir(parents=True, exist_ok=True)
    model = model_of(name, shape)
    (made / "config.json").write_text(json.dumps(configuration(shape), indent=1))
    (made / "model.json").write_bytes(plans.json_text(model))
    (made / "cluster.json").write_bytes(plans.json_text(topology()))
    return model


def write_plan(folder: pathlib.Path, name: str, shape: Shape, model: Any, plan: str,
               batch: int, micro_batch: int, recompute: Recompute) -> str:
    """Signs a plan whose decoder layers recompute as said. Returns its path below `folder`."""
    now = int(time.time())
    strategies = [Strategy(), *[Strategy(recompute=recompute)] * shape.layers, Strategy()]
    payload = plans.payload_of(model, topology(), [strategies], batch=batch,
                               micro_batch_count=batch // micro_batch, issued=now)
    # planctl reads equal layers as one run.
    runs = payload.stages[0].layer_runs
    runs[1].layer_count = shape.layers
    del runs[2:-1]
    signed = plans.sign(payload.SerializeToString(), plans.FIRST)
    path = folder / name / f"{plan}.dsse.json"
    path.write_text(signed.to_json())
    (folder / name / "trust.json").write_bytes(plans.trust(plans.FIRST, at=now))
    return str(path.relative_to(folder))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--small", action="store_true", help="sizes for processors")
    options = parser.parse_args()
    folder: pathlib.Path = options.folder
    folder.mkdir(parents=True, exist_ok=True)

    shapes = {"llama-2k": LLAMA, "llama-8k": LLAMA_8K, "gpt-2k": GPT, "parity": PARITY}
    layers = [LayerCase("gpt-1.3b-2k", GPT, 1), LayerCase("llama-8b-2k", LLAMA, 1),
              LayerCase("gpt-1.3b-8k", GPT_8K, 1), LayerCase("llama-8b-8k", LLAMA_8K, 1),
              LayerCase("gpt-1.3b-2k-8-samples", GPT, 8)]
    batch = BATCH
    micro_batches: tuple[int, ...] = MICRO_BATCHES
    profiled: dict[str, tuple[int, ...]] = {
        "llama-2k": MICRO_BATCHES, "gpt-2k": (1, 8), "llama-8k": (1,)}
    if options.small:
        shapes = {"llama-2k": SMALL_LLAMA, "gpt-2k": SMALL_GPT, "parity": SMALL_PARITY}
        layers = [LayerCase("gpt", SMALL_GPT, 1), LayerCase("llama", SMALL_LLAMA, 1),
                  LayerCase("gpt-2-samples", SMALL_GPT, 2)]
        batch, micro_batches = 4, (1, 2)
        profiled = {"llama-2k": (1, 2), "gpt-2k": (1,)}

    models = {name: write_model(folder, name, shape) for name, shape in shapes.items()}
    made = [PlanCase(f"{micro_batch}-samples-{level.name.lower()}", "llama-2k",
                     write_plan(folder, "llama-2k", shapes["llama-2k"], models["llama-2k"],
                                f"{micro_batch}-samples-{level.name.lower()}", batch, micro_batch,
                                level), micro_batch, level.name.lower())
            for micro_batch in micro_batches for level in (Recompute.NONE, Recompute.FULL)]
    parity = [ParityCase(level.name.lower(), "parity",
                         write_plan(folder, "parity", shapes["parity"], models["parity"],
                                    level.name.lower(), 4, 2, level))
              for level in (Recompute.NONE, Recompute.FULL)]
    profiles = [ProfileCase(name, DEVICE_KIND, sizes) for name, sizes in profiled.items()]
    write_cases(folder, layers, profiles, made, parity)
    print(f"wrote {folder}: {len(made)} plans, {len(parity)} for parity, {len(profiles)} profiles, "
          f"{len(layers)} layers")


if __name__ == "__main__":
    main()
