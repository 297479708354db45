"""Tensor parallelism of a layer by the plan of its model.

The plan names modules and how each is split, by patterns over the names of `model.named_modules()`:

    {"model.layers.*.self_attn.q_proj": "colwise", "model.layers.*.self_attn.o_proj": "rowwise"}

It is the model's own (`_tp_plan` of transformers), one of this file for models that have none, or
given; in a given one styles may also be those of torch.distributed.tensor.parallel, as torchtitan
writes its plans. The largest table of an embedding is split over its rows unless it has an entry,
and the last projection over its outputs; smaller tables, of positions for instance, are whole on
every rank. Entries may also name parameters of stacked experts.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (ColwiseParallel, PrepareModuleInput,
                                               PrepareModuleOutput, RowwiseParallel,
                                               SequenceParallel, parallelize_module)

from parplan.errors import field_error
from parplan.strategy import Strategy
from parplan.torch.blocks import Entry, OwnTokens, ToAllHeads, local_arguments, rotated_size
from parplan.torch.experts import experts_of
from parplan.torch.layers import Wrapper, refused
from parplan.torch.local_blocks import check_block, local_blocks, pieces_of, split_block
from parplan.torch.module_checks import check_mixing, name_of
from parplan.torch.parts import Cut
from parplan.torch.stacked_experts import STYLES, StackedExperts, has_stacked_experts
from parplan.torch.tables import can_share_rows, share_rows

_COLWISE = {"colwise", "local_colwise"}
_ROWWISE = {"rowwise", "local_rowwise"}
_GATHERED = {"colwise_rep", "colwise_gather_output"}
# Matrices that take their columns of activations that are whole on every rank.
_SPLIT_INPUT = {"rowwise_split_input", "rowwise_rep"}
_EMBEDDING = {"embedding_rowwise"}
# Modules that are not split but see only the heads of their rank.
_PARTIAL = {"replicated_with_grad_allreduce"}
# A module that is not split; the last columns that it returns go to the heads of every rank.
_LATENT = {"mla_kv_a_proj"}
_UNSPLIT = _PARTIAL | _LATENT
_KNOWN = _COLWISE | _ROWWISE | _GATHERED | _SPLIT_INPUT | _EMBEDDING | _UNSPLIT
_TOKENS = 1  # The dimension of activations that sequence parallelism splits.

# By `model_type` of the configuration.
_PLANS = {
    "gpt2": {
        "transformer.h.*.attn.c_attn": "packed_colwise:3", "transformer.h.*.attn.c_proj": "rowwise",
        "transformer.h.*.mlp.c_fc": "colwise", "transformer.h.*.mlp.c_proj": "rowwise",
        "lm_head": "colwise_gather_output"},
    "bert": {
        "bert.encoder.layer.*.attention.self.query": "colwise",
        "bert.encoder.layer.*.attention.self.key": "colwise",
        "bert.encoder.layer.*.attention.self.value": "colwise",
        "bert.encoder.layer.*.attention.output.dense": "rowwise",
        "bert.encoder.layer.*.intermediate.dense": "colwise",
        "bert.encoder.layer.*.output.dense": "rowwise",
        "cls.predictions.decoder": "colwise_gather_output"},
    "vit": {
        "vit.layers.*.attention.q_proj": "colwise", "vit.layers.*.attention.k_proj": "colwise",
        "vit.layers.*.attention.v_proj": "colwise", "vit.layers.*.attention.o_proj": "rowwise",
        "vit.layers.*.mlp.fc1": "colwise", "vit.layers.*.mlp.fc2": "rowwise",
        "classifier": "colwise_gather_output"},
}
# Attention of models whose own plan splits the rest alone, by `model_type`: that of DeepSeek-V2.
_ATTENTION = {
    "deepseek_v3": {
        "layers.*.self_attn.q_proj": "colwise", "layers.*.self_attn.q_b_proj": "colwise",
        "layers.*.self_attn.kv_a_proj_with_mqa": "mla_kv_a_proj",
        "layers.*.self_attn.kv_b_proj": "colwise", "layers.*.self_attn.o_proj": "rowwise"},
}


def tensor_plan_of(model: nn.Module) -> dict[str, str]:
    """Returns the plan of a model of transformers; empty for others."""
    kind = getattr(getattr(model, "config", None), "model_type", None)
    if kind in _PLANS:
        return dict(_PLANS[kind])
    found = getattr(model, "_tp_plan", None)
    if not found:
        return {}
    if has_stacked_experts(model):
        found = {**found, **_stacked_plan(model)}
    prefix = getattr(model, "base_model_prefix", "")
    base = getattr(getattr(model, "config", None), "base_model_tp_plan", None) or {}
    plan = {**{f"{prefix}.{name}": style for name, style in base.items()}, **found}
    if not any(".self_attn." in name for name in plan):
        plan.update({f"{prefix}.{name}": style
                     for name, style in _ATTENTION.get(str(kind), {}).items()})
    return plan


def splits_of(model: nn.Module, tensor_plan: Mapping[str, Any] | None) -> dict[str, str]:
    """Returns the plan that is given by names of styles; the model's own if it is None."""
    return tensor_plan_of(model) if tensor_plan is None else named_styles(tensor_plan)


def named_styles(plan: Mapping[str, Any]) -> dict[str, str]:
    """Returns a plan with the styles of torch.distributed.tensor.parallel by their names here.
    Those that only say how activations lie are left out: the plan of parplan says that. Raises
    SpecInvalid naming the entry for a style that is not known."""
    found: dict[str, str] = {}
    for name, style in plan.items():
        if isinstance(style, str):
            found[name] = style
        elif isinstance(style, ColwiseParallel):
            # A loss over parts of the vocabulary leaves the output as it is; here it is gathered.
            is_whole = all(isinstance(one, Replicate) for one in style.output_layouts)
            found[name] = ("colwise" if style.use_local_output and not is_whole
                           else "colwise_gather_output")
        elif isinstance(style, RowwiseParallel):
            # Token ids are whole, what comes from another matrix is not.
            is_table = all(isinstance(one, Replicate) for one in style.input_layouts)
            found[name] = "embedding_rowwise" if is_table else "rowwise"
        elif not isinstance(style, (SequenceParallel, PrepareModuleInput, PrepareModuleOutput)):
            raise field_error("SPEC_INVALID", "tensor_plan",
                              f"{name} has {type(style).__name__}; known are names and "
                              "ColwiseParallel, RowwiseParallel, SequenceParallel, "
                              "PrepareModuleInput and PrepareModuleOutput of PyTorch")
    return found


def _stacked_plan(model: nn.Module) -> dict[str, str]:
    """Returns the styles of stacked experts, which the plan of transformers 4 does not name."""
    return {f"{name}.{matrix}": style for name, module in model.named_modules()
            if isinstance(module, StackedExperts) for matrix, style in STYLES.items()}


def styles_of(names: Iterable[str], plan: Mapping[str, str]) -> dict[str, str]:
    """Returns the style of each name that a pattern fits; `*` is one part of a name."""
    patterns = [(re.compile(re.escape(name).replace(r"\*", r"[^.]+")), style)
                for name, style in plan.items()]
    return {name: style for name in names for pattern, style in patterns
            if pattern.fullmatch(name)}


def pieces_of_parameters(names: Mapping[str, nn.Module], plan: Mapping[str, str]
                         ) -> dict[str, Cut]:
    """Returns the parameters that the plan cuts in pieces of their own, by their names, under every
    plan of parplan. `names` has the modules of the model."""
    found: dict[str, Cut] = {}
    for name, style in styles_of(names, plan).items():
        for one, cut in pieces_of(names[name], style).items():
            found[f"{name}.{one}"] = cut
    matrices = {f"{name}.{one}": style for name, module in names.items()
                if name.rpartition(".")[2] == "experts"
                for one, style in expert_styles(name, module, plan).items()}
    return {**found, **{name: Cut(1, 2) for name, style in matrices.items()
                        if style == "packed_colwise"}}


def expert_styles(name: str, experts: nn.Module, plan: Mapping[str, str]) -> dict[str, str]:
    """Returns the styles of the parameters of the experts that have this name in the model."""
    own = {f"{name}.{one}": one for one, _ in experts.named_parameters(recurse=False)}
    return {own[one]: style for one, style in styles_of(own, plan).items()}


@dataclasses.dataclass(frozen=True)
class _Split:
    """How a layer is split, as the model's plan says."""
    # The modules that DTensor splits, and those beside them, by their names within the model.
    modules: dict[str, nn.Module]
    # Styles of some of `modules`.
    styles: dict[str, str]
    # Modules that are split in another way: experts and `transposed`.
    elsewhere: set[nn.Module]
    # Blocks of local_blocks.py, and the styles of all modules by their id.
    transposed: list[nn.Module]
    style_of: dict[int, str]
    # Modules whose children are split by columns.
    blocks: list[nn.Module]
    # Those of `blocks` in which a module without a style gets activations that are whole on every
    # rank, and so has all of their gradient.
    whole_blocks: list[nn.Module]
    # Tables of embeddings that are whole on every rank.
    whole_tables: list[nn.Module]


def check_split(index: int, layer: nn.Module, names: Mapping[int, str], strategy: Strategy,
                plan: Mapping[str, str]) -> dict[int, object]:
    """Raises what `split_layer` raises, for a layer of any rank. Changes nothing and needs no
    ranks. Returns how each parameter is shared that ranks have parts of, by its id: the dimension,
    or a style of local_blocks.py."""
    found = _split_of(index, layer, names, strategy, plan)
    shared: dict[int, object] = {}
    for block in found.transposed:
        for module in block.modules():
            shared.update({id(one): found.style_of.get(id(module))
                           for one in module.parameters(recurse=False)})
    for name, style in found.styles.items():
        module = found.modules[name]
        # A table has its outputs in rows of its last dimension, a matrix in those of its first.
        by_outputs = style in _COLWISE | _GATHERED
        for parameter in module.parameters() if style not in _UNSPLIT else ():
            if parameter.dim() > 1 or by_outputs:
                shared[id(parameter)] = int(by_outputs == isinstance(module, nn.Embedding))
    return shared


def _split_of(index: int, layer: nn.Module, names: Mapping[int, str], strategy: Strategy,
              plan: Mapping[str, str]) -> _Split:
    modules = {names[id(module)]: module for module in layer.modules() if id(module) in names}
    # PyTorch's RowwiseParallel says by the same words how a table and how a projection get their
    # input whole.
    styles = {name: "rowwise_split_input" if style in _EMBEDDING
              and isinstance(modules[name], nn.Linear) else style
              for name, style in styles_of(modules, plan).items()}
    style_of = {id(modules[name]): style for name, style in styles.items()}
    experts = experts_of(layer)
    spread = set(experts.modules()) if experts is not None else set()
    transposed = local_blocks(layer)
    for block in transposed:
        check_block(index, layer, block, style_of, strategy.tensor_parallel_degree)
    # Experts are split before.
    elsewhere = spread.union(*(block.modules() for block in transposed))
    modules = {name: module for name, module in modules.items() if module not in elsewhere}
    styles = {name: style for name, style in styles.items() if name in modules}
    tables = [module for module in modules.values() if isinstance(module, nn.Embedding)]
    largest = max(tables, key=lambda one: one.num_embeddings, default=None)
    whole_tables: list[nn.Module] = []
    for name, module in modules.items():
        if name in styles or not isinstance(module, nn.Embedding):
            continue
        if module is largest:
            styles[name] = "embedding_rowwise"
        else:
            whole_tables.append(module)
    if not styles and not transposed:
        raise refused(index, "no entry of the model's tensor-parallel plan names a module of "
                      "it; give one as `tensor_plan`")
    for name, style in styles.items():
        if style not in _KNOWN:
            raise refused(index, f"{name} is to be split by {style}, which is not known; the "
                          f"known ones are {', '.join(sorted(_KNOWN))}")
        if style not in _UNSPLIT and not isinstance(modules[name], (nn.Linear, nn.Embedding)):
            raise refused(index, f"{name_of(modules[name], names)} is to be split by {style}, and "
                          "only nn.Linear and nn.Embedding are; leave it out of `tensor_plan`")
    _check_sequence_parallel(index, strategy, styles, modules)
    blocks = _parents(layer, modules, styles, _COLWISE | _SPLIT_INPUT)
    whole_blocks = _parents(layer, modules, styles, _SPLIT_INPUT | _LATENT)
    for name, style in styles.items():
        _check_neighbours(index, name, style, styles, modules, whole_blocks)
    if strategy.sequence_parallel:
        # Blocks have all tokens.
        inside = {id(module) for block in blocks for module in block.modules()}
        check_mixing(index, [one for one in layer.modules()
                             if id(one) not in inside and one not in elsewhere], names, "sequence")
    return _Split(modules, styles, elsewhere, transposed, style_of, blocks, whole_blocks,
                  whole_tables)


def split_layer(index: int, layer: nn.Module, names: Mapping[int, str], strategy: Strategy,
                plan: Mapping[str, str], mesh: DeviceMesh) -> set[nn.Parameter]:
    """Splits a layer over `mesh`. `names` has the name within the model for the id of a module.
    Returns the parameters that are whole on every rank while each rank only has a part of their
    gradient, which is to be added up over `mesh`. Raises SpecInvalid naming the layer if the plan
    does not say how to split it."""
    found = _split_of(index, layer, names, strategy, plan)
    modules, styles = found.modules, found.styles
    partial: set[nn.Parameter] = set()
    for block in found.transposed:
        partial |= split_block(index, layer, block, found.style_of, mesh,
                               strategy.sequence_parallel)
    if strategy.sequence_parallel:
        for module in found.whole_tables:
            module.register_forward_hook(OwnTokens(mesh))
    split = _split_parameters(modules, styles)
    split |= {id(parameter) for module in found.elsewhere for parameter in module.parameters()}
    partial |= _partial_parameters(layer, found, split, strategy)
    tokens = _TOKENS if strategy.sequence_parallel else None
    for block in found.blocks:
        block.register_forward_pre_hook(Entry(index, names.get(id(block), type(block).__name__),
                                              mesh, tokens), with_kwargs=True)
    for module in _unsplit_modules(found):
        module.register_forward_pre_hook(local_arguments)
    for name, style in styles.items():
        if style in _LATENT:
            modules[name].register_forward_hook(
                ToAllHeads(mesh, rotated_size(_parent_of(name, modules))))
    inside = {id(module) for block in found.blocks for module in block.modules()}
    for name, style in styles.items():
        module = modules[name]
        if style in _EMBEDDING and can_share_rows(module, mesh.size()):
            share_rows(module, mesh, _TOKENS if strategy.sequence_parallel else None)
            continue
        made = _style(style, strategy.sequence_parallel, id(module) in inside)
        if made is not None:
            parallelize_module(module, mesh, made)
    return partial


def _style(style: str, by_tokens: bool, is_entered: bool) -> Any:
    whole = Shard(_TOKENS) if by_tokens else Replicate()
    # Behind the entry of a block activations are whole already.
    given = Replicate() if is_entered else whole
    if style in _COLWISE:
        return ColwiseParallel(input_layouts=given)
    if style in _GATHERED:
        return ColwiseParallel(input_layouts=given, output_layouts=Replicate())
    if style in _ROWWISE:
        return RowwiseParallel(output_layouts=whole)
    if style in _SPLIT_INPUT:
        return RowwiseParallel(input_layouts=Replicate(), output_layouts=whole)
    if style in _EMBEDDING:
        return RowwiseParallel(input_layouts=Replicate(), output_layouts=whole)
    return None


def _parent_of(name: str, modules: Mapping[str, nn.Module]) -> nn.Module | None:
    return modules.get(name.rpartition(".")[0])


def _parents(layer: nn.Module, modules: Mapping[str, nn.Module], styles: Mapping[str, str],
             which: set[str]) -> list[nn.Module]:
    """Returns the modules within a layer with a child of one of the styles `which`."""
    found: dict[int, nn.Module] = {}
    # A block of its own gives its input to matrices alone; a layer also adds it to their output.
    whole = layer.layer if isinstance(layer, Wrapper) else layer
    for name, style in styles.items():
        parent = _parent_of(name, modules)
        if style in which and parent is not None and parent is not whole:
            found[id(parent)] = parent
    return list(found.values())


def _check_neighbours(index: int, name: str, style: str, styles: Mapping[str, str],
                      modules: Mapping[str, nn.Module], whole_blocks: list[nn.Module]) -> None:
    """Raises SpecInvalid naming the layer if a style does not fit those of the modules beside it."""
    if style not in _SPLIT_INPUT | _LATENT:
        return
    parent = _parent_of(name, modules)
    if all(one is not parent for one in whole_blocks):
        raise refused(index, f"{name} is to be split by {style}, which is known in a block of its "
                      "own alone; leave it out of `tensor_plan`")
    before = name.rpartition(".")[0] + "."
    beside = {other for one, other in styles.items()
              if one.startswith(before) and "." not in one.removeprefix(before)}
    if style in _SPLIT_INPUT and beside & (_COLWISE | _LATENT):
        raise refused(index, f"{name} is to be split by {style}, which takes activations that are "
                      "whole on every rank, and modules beside it leave each rank a part of them; "
                      "give them colwise_gather_output, or it rowwise")
    if style in _LATENT and rotated_size(parent) is None:
        raise refused(index, f"{name} is to be split by {style}, and neither its block nor the "
                      "configuration of that says qk_rope_head_dim, how many columns are positions")


def _unsplit_modules(found: _Split) -> list[nn.Module]:
    """Returns the modules of blocks with whole activations that have parameters of their own and
    are not split."""
    split = {id(found.modules[name]) for name, style in found.styles.items()
             if style not in _LATENT}
    return [module for block in found.whole_blocks for module in block.modules()
            if id(module) not in split and next(module.parameters(recurse=False), None) is not None]


def _split_parameters(modules: Mapping[str, nn.Module],
                      styles: Mapping[str, str]) -> set[int]:
    return {id(parameter) for name, style in styles.items() if style not in _UNSPLIT
            for parameter in modules[name].parameters()}


def _partial_parameters(layer: nn.Module, found: _Split, split: set[int],
                        strategy: Strategy) -> set[nn.Parameter]:
    styled = [found.modules[name] for name, style in found.styles.items() if style in _PARTIAL]
    whole = {id(parameter) for module in _unsplit_modules(found)
             for parameter in module.parameters(recurse=False)}
    places = [layer] if strategy.sequence_parallel else [*found.blocks, *styled]
    return {parameter for place in places for parameter in place.parameters()
            if id(parameter) not in split and id(parameter) not in whole}


def _check_sequence_parallel(index: int, strategy: Strategy, styles: Mapping[str, str],
                             modules: Mapping[str, nn.Module]) -> None:
    if strategy.sequence_parallel and styles and set(styles.values()) <= _EMBEDDING:
        # Norms treat token by token.
        count = sum(1 for name, module in modules.items()
                    if name not in styles and not isinstance(module, (nn.LayerNorm, nn.Embedding))
                    and next(module.parameters(recurse=False), None) is not None)
        if count > 0:
            raise refused(index, "sequence parallelism of an embedding with further modules is "
                          "not known; plan it without, or give the modules a `tensor_plan`")
