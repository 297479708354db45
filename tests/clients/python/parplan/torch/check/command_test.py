"""`parplan-torch check` from its command line: what passes, what is found, and the evidence."""

import base64
import hashlib
import json
import subprocess
import time

import check_models
import pytest
import signed_plans as plans
import torch
import torch_jobs as jobs
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (Encoding, NoEncryption, PrivateFormat,
                                                          PublicFormat)

from parplan.envelope import SignedPlan
from parplan.errors import SpecInvalid
from parplan.strategy import Recompute, Sharding, Strategy
from parplan.torch.check import models, numerics
from parplan.torch.check.models import Source
from parplan.torch.check.shrink import shrink
from parplan.torch.command.main import main
from parplan.wire import json_file

# Every kind of fault below changes something of it.
WIDE = Strategy(1, 2, sharding=Sharding.PARAMETERS if jobs.SHARDS_HERE else Sharding.NONE)
SPLIT = Strategy(2, 1, sequence_parallel=True, recompute=Recompute.FULL)
STAGES = [[WIDE, SPLIT, SPLIT, Strategy(1, 2), WIDE]]


@pytest.fixture
def check(tmp_path, capsys):
    """Returns a function that checks a plan and returns exit code, output and what `--out` got."""
    def run(*flags, stages=STAGES, spec=None, model="check_models:plain", tensor_plan=True,
            issued=None, tensor=json.dumps(jobs.TENSOR_PLAN)):
        spec = spec or plans.model_of(sum(map(len, stages)))
        topology = plans.topology_of(stages[0][0].rank_count * len(stages))
        now = int(time.time()) if issued is None else issued
        payload = plans.payload_of(spec, topology, stages, batch=8, micro_batch_count=2, issued=now)
        signed = plans.sign(payload.SerializeToString(), plans.FIRST)
        files = {"plan": signed.to_json().encode(), "trust": plans.trust(plans.FIRST, at=now),
                 "spec": plans.json_text(spec), "cluster": plans.json_text(topology),
                 "tensor": tensor.encode()}
        for name, content in files.items():
            (tmp_path / name).write_bytes(content)
        out = tmp_path / "evidence"
        out.unlink(missing_ok=True)
        arguments = ["check", str(tmp_path / "plan"), "--model", model, "--out", str(out)]
        for name in ("trust", "spec", "cluster"):
            arguments += [f"--{name}", str(tmp_path / name)]
        if tensor_plan:
            arguments += ["--tensor-plan", str(tmp_path / "tensor")]
        code = main([*arguments, *map(str, flags)])
        return code, capsys.readouterr().out, out.read_text() if out.exists() else ""

    return run


def test_a_good_plan_passes_and_leaves_evidence(check, tmp_path, request):
    key = Ed25519PrivateKey.generate()
    (tmp_path / "key.pem").write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    (tmp_path / "public.pem").write_bytes(key.public_key().public_bytes(
        Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    code, out, evidence = check("--key", tmp_path / "key.pem", "--format", "json", "--memory")
    assert code == 0
    answer = json.loads(out)
    assert answer["passed"] and answer["numbers"]["equal"] and answer["collectives"]["equal"]
    assert answer["numbers"]["worst_gradient_difference"] <= 1e-4
    (row,) = answer["memory"]["rows"]
    assert 0 < row["peak_allocated_bytes"] <= row["peak_reserved_bytes_expandable_segments"]
    # Embedding, norms, matrices and biases of three decoders, and the head.
    assert answer["numbers"]["gradient_count"] == 1 + 3 * 16 + 3
    envelope = SignedPlan.from_json(evidence)
    assert envelope.payload_type == "application/vnd.in-toto+json"
    key.public_key().verify(envelope.signatures[0].sig, envelope.signed_bytes())
    statement = json.loads(envelope.payload)
    plan = SignedPlan.from_json((tmp_path / "plan").read_bytes())
    assert statement["subject"] == [{
        "name": "clusters/tests/plans/p1",
        "digest": {"sha256": hashlib.sha256(plan.payload).hexdigest()}}]
    assert statement["predicate"]["versions"]["torch"] == torch.__version__
    assert {name: statement["predicate"][name] for name in ("numbers", "collectives")} == {
        name: answer[name] for name in ("numbers", "collectives")}
    folder = request.config.getoption("--bin")
    if folder is not None:
        verify(folder.resolve() / "planctl", tmp_path)


def verify(planctl, folder):
    """Lets planctl check the evidence, and another plan's or another key's."""
    def run(*flags):
        return subprocess.run(
            [planctl, "verify", folder / "plan", "--trust", folder / "trust", "--evidence",
             folder / "evidence", *flags], capture_output=True, text=True, timeout=600)

    shown = run("--evidence-key", folder / "public.pem")
    assert shown.returncode == 0, shown.stderr
    assert "checked: loss and 52 gradients of 2 steps on 2 ranks equal" in shown.stdout
    assert run().returncode == 5


def test_evidence_without_a_key_is_not_signed(check):
    code, out, evidence = check("--memory", stages=[[Strategy(1, 2)] * 3])
    assert code == 0
    assert "memory       rank 0: tensors 0.0" in out
    assert "passed: loss and 20 gradients" in out and ", not signed" in out
    assert json.loads(evidence)["signatures"] == []


def test_a_transformers_model_is_made_small(check, tmp_path):
    import transformers
    config = transformers.LlamaConfig(
        vocab_size=32000, hidden_size=512, intermediate_size=1024, num_hidden_layers=6,
        num_attention_heads=8, num_key_value_heads=2, max_position_embeddings=256)
    (tmp_path / "config.json").write_text(json.dumps({**config.to_dict(), "model_type": "llama"}))
    sizes = {"hidden_size": 512, "sequence_length": 256}
    spec = json_file.from_dict({
        "model_id": "llama", "precision": "PRECISION_BF16", "optimizer": "OPTIMIZER_ADAM",
        "layer_definitions": [
            {"layer_definition_id": "embedding", "kind": "LAYER_KIND_EMBEDDING",
             "vocabulary_size": 32000, **sizes},
            {"layer_definition_id": "decoder", "kind": "LAYER_KIND_DECODER",
             "attention_head_count": 8, "key_value_head_count": 2, "feed_forward_size": 1024,
             "feed_forward_kind": "FEED_FORWARD_KIND_SWIGLU", **sizes},
            {"layer_definition_id": "head", "kind": "LAYER_KIND_HEAD", "vocabulary_size": 32000,
             **sizes}],
        "layer_runs": [{"layer_definition_id": "embedding", "layer_count": 1},
                       {"layer_definition_id": "decoder", "layer_count": 6},
                       {"layer_definition_id": "head", "layer_count": 1}]}, "ModelSpec", "model")
    split = Strategy(2, 1)
    code, out, _ = check("--format", "json", stages=[[WIDE, *[SPLIT] * 3, *[WIDE] * 3, split]],
                         spec=spec, model=f"hf:{tmp_path / 'config.json'}", tensor_plan=False)
    answer = json.loads(out)
    assert code == 0, answer
    # Two layers of the first run and two of the second, which is as the embedding's strategy.
    assert len(answer["small_copy"]["layers"]) == 6
    assert any("4 heads of 8, 32 elements" in note for note in answer["small_copy"]["notes"])
    rows = {(row["collective"], row["ranks"]): row for row in answer["collectives"]["rows"]}
    assert "tensor" in rows["all-gather", "0,1"]["purposes"]
    assert answer["collectives"]["priced_for_runtime"] == "torch"
    assert all(row["counted"] == row["priced"] for row in answer["collectives"]["rows"])


def test_a_model_of_images_is_made_small_and_counted(check, tmp_path):
    import transformers
    config = transformers.ViTConfig(
        hidden_size=64, intermediate_size=128, num_hidden_layers=4, num_attention_heads=4,
        image_size=32, patch_size=4, num_channels=3, num_labels=100)
    (tmp_path / "config.json").write_text(json.dumps(
        {**config.to_dict(), "architectures": ["ViTForImageClassification"]}))
    # 64 patches and the token of the class.
    sizes = {"hidden_size": 64, "sequence_length": 65}
    spec = json_file.from_dict({
        "model_id": "vit", "precision": "PRECISION_BF16", "optimizer": "OPTIMIZER_ADAM",
        "layer_definitions": [
            {"layer_definition_id": "embedding", "kind": "LAYER_KIND_PATCH_EMBEDDING",
             "vocabulary_size": 48, **sizes},
            {"layer_definition_id": "encoder", "kind": "LAYER_KIND_ENCODER",
             "attention_head_count": 4, "feed_forward_size": 128,
             "feed_forward_kind": "FEED_FORWARD_KIND_GELU", **sizes},
            {"layer_definition_id": "head", "kind": "LAYER_KIND_HEAD", "vocabulary_size": 100,
             **sizes}],
        "layer_runs": [{"layer_definition_id": "embedding", "layer_count": 1},
                       {"layer_definition_id": "encoder", "layer_count": 4},
                       {"layer_definition_id": "head", "layer_count": 1}]}, "ModelSpec", "model")
    split = Strategy(2, 1, recompute=Recompute.FULL)
    stages = [[WIDE, split, split, WIDE, Strategy(1, 2), Strategy(1, 2)]]
    code, out, _ = check("--format", "json", stages=stages, spec=spec, tensor_plan=False,
                         model=f"hf:{tmp_path / 'config.json'}")
    answer = json.loads(out)
    assert code == 0, answer
    assert answer["numbers"]["worst_gradient_difference"] <= 1e-4
    assert "16 tokens a sample, fp32" in answer["small_copy"]["notes"]
    assert any("classes 64" in note for note in answer["small_copy"]["notes"])
    rows = {(row["collective"], row["ranks"]): row for row in answer["collectives"]["rows"]}
    # Two micro-batches: two layers sum twice each way and once again, but for the last sum.
    assert rows["all-reduce", "0,1"]["counted"] >= 2 * 2 * (4 + 1)
    # A model file for other images is refused before anything runs.
    for definition in spec.layer_definitions:
        definition.sequence_length = 64
    code, out, _ = check("--format", "json", stages=stages, spec=spec, tensor_plan=False,
                         model=f"hf:{tmp_path / 'config.json'}")
    assert code == 2
    assert "becomes 65 tokens" in json.loads(out)["error"]["message"]


@pytest.mark.parametrize("model", ["core", "whole_core", "silent"])
def test_layers_of_a_class_of_its_own_are_named(check, model):
    """Two of four equal layers are left out."""
    stages = [[WIDE, SPLIT, *[Strategy(1, 2)] * 4, WIDE]]
    tensor = json.dumps({f"blocks.{name}": style for name, style in jobs.TENSOR_PLAN.items()})
    code, out, _ = check("--layers", *check_models.CORE_LAYERS, "--format", "json", stages=stages,
                         model=f"check_models:{model}", tensor=tensor)
    answer = json.loads(out)
    assert code == 0, answer
    assert answer["small_copy"]["layers"] == [0, 1, 2, 3, 6]
    assert answer["numbers"]["gradient_count"] == 1 + 3 * (15 if model == "whole_core" else 16) + 3
    assert answer["collectives"]["equal"] and answer["collectives"]["rows"]


def test_layers_without_names_or_of_another_number_are_refused(check):
    for flags, field in (((), "model"), (("--layers", "tokens", "blocks.*"), "layers"),
                         (("--layers", "parts.*"), "--layers")):
        code, out, _ = check(*flags, "--format", "json", model="check_models:core")
        assert (code, json.loads(out)["error"]["metadata"]["field"]) == (2, field)


def test_layers_that_no_list_holds_cannot_be_left_out():
    model = check_models.whole_core()
    with pytest.raises(SpecInvalid, match="Core has norm in no list of modules"):
        models._leave_out(model, [model.tokens, *model.blocks.values()])
    model = check_models.whole_core()
    first, *_, last = model.blocks.values()
    models._leave_out(model, [model.tokens, first, last, model.norm, model.output])
    assert list(model.blocks.values()) == [first, last]


def test_other_inputs_come_from_a_callable(check):
    spec = plans.model_of(len(STAGES[0]))
    spec.layer_definitions[0].kind = 6  # LAYER_KIND_PATCH_EMBEDDING
    spec.layer_definitions[0].vocabulary_size = 10
    code, out, _ = check("--inputs", "check_models:frames_and_words", "--format", "json",
                         model="check_models:frames", spec=spec)
    answer = json.loads(out)
    assert code == 0, answer
    assert answer["numbers"]["equal"] and answer["collectives"]["equal"]
    assert answer["collectives"]["rows"]
    for flags, rule in (((), "the first layer is no table of tokens"),
                        (("--inputs", "check_models:one_sample_less"), "must return inputs"),
                        (("--inputs", "check_models:nothing"), "must be module:callable")):
        code, out, _ = check(*flags, "--format", "json", model="check_models:frames", spec=spec)
        error = json.loads(out)["error"]
        assert (code, error["metadata"]["field"]) == (2, "--inputs")
        assert rule in error["message"]


@pytest.mark.parametrize("fault", ["average_instead_of_adding_up", "forget_partial_gradients",
                                   "move_no_gradients", "crash"])
def test_a_planted_fault_is_found(fault):
    """In one process without the fault, and on ranks with it."""
    plan = jobs.plan_of(plans.model_of(5), STAGES, batch=8, micro_batch_count=2)
    found = numerics.compare(shrink(plan, max_ranks=2), Source(f"check_models:{fault}"),
                             jobs.TENSOR_PLAN, patience=60)
    assert not found.is_equal(100 * 1e-4)
    assert bool(found.fault) == (fault == "crash")
    if fault == "crash":
        assert "RuntimeError" in found.fault and "planted" in found.fault


def test_a_plan_that_fails_ends_with_another_code_and_says_so_in_its_evidence(check):
    code, out, evidence = check(model="check_models:forget_partial_gradients")
    assert code == 8
    assert "FAILED: " in out and "NOT equal" in out
    statement = json.loads(base64.b64decode(json.loads(evidence)["payload"]))
    assert statement["predicate"]["passed"] is False


def test_what_cannot_be_checked_ends_with_its_own_code(check, tmp_path, capsys):
    # An old plan is not verified.
    assert check(issued=plans.ISSUE_TIME)[0] == 5
    # Arguments and files.
    assert check("--key", tmp_path / "trust")[0] == 2
    assert check("--key", tmp_path / "nothing")[0] == 2
    assert check(model="check_models:nothing")[0] == 2
    code, out, _ = check("--max-ranks", 1, "--format", "json")
    assert code == 2
    assert json.loads(out)["error"]["metadata"]["field"] == "--max-ranks"
    with pytest.raises(SystemExit) as raised:
        main(["check"])
    assert raised.value.code == 2


def test_a_plan_that_pytorch_cannot_run_is_refused_with_its_layer(check):
    """No tensor-parallel plan names matrices of layer 1."""
    code, out, _ = check("--format", "json", tensor_plan=False)
    assert code == 2
    assert json.loads(out)["error"]["metadata"]["field"] == "layer 1"


