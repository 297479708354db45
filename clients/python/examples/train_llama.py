"""Trains a Llama of transformers under a signed plan, on random tokens.

    torchrun --nproc-per-node 8 train_llama.py --plan plan.dsse.json \\
        --trust trust-bundle.jwks.json --model model.json --topology cluster.json \\
        --config config.json --steps 10

`--config` is the configuration of transformers that `planctl import hf` read the model from.
"""

import argparse

import torch
import torch.distributed as dist
from transformers import AutoConfig, AutoModelForCausalLM

import parplan
import parplan.torch


def loss_fn(logits, targets):
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def main():
    parser = argparse.ArgumentParser()
    for name in ("plan", "trust", "model", "topology", "config"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--job", default="")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--checkpoint")
    flags = parser.parse_args()
    plan = parplan.Plan.load_files(flags.plan, flags.trust, flags.model, flags.topology,
                                   job_id=flags.job)
    dist.init_process_group()
    config = AutoConfig.from_pretrained(flags.config)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa")
    run = parplan.torch.apply(plan, model, loss_fn, optimizer=torch.optim.AdamW,
                              max_gradient_norm=1.0, seed=1)
    tokens = plan.model.layer_definitions[0].sequence_length
    generator = torch.Generator().manual_seed(2)
    batch = torch.randint(0, config.vocab_size, (plan.global_batch_size, tokens + 1),
                          generator=generator)
    for step in range(flags.steps):
        loss = run.step(batch[:, :-1], batch[:, 1:])
        if dist.get_rank() == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
    if flags.checkpoint:
        run.save(flags.checkpoint)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
