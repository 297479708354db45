#include "clients/import/megatron_rules.h"

#include <array>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace parplan {
namespace {

constexpr std::array kReadRules = std::to_array<ArgumentRule>({
    // The model.
    {"num-layers", ArgumentKind::kCount},
    {"hidden-size", ArgumentKind::kCount},
    {"ffn-hidden-size", ArgumentKind::kCount},
    {"num-attention-heads", ArgumentKind::kCount},
    {"group-query-attention", ArgumentKind::kSwitch},
    {"num-query-groups", ArgumentKind::kCount},
    {"kv-channels", ArgumentKind::kCount},
    {"seq-length", ArgumentKind::kCount},
    {"max-position-embeddings", ArgumentKind::kCount},
    {"vocab-size", ArgumentKind::kCount},
    {"swiglu", ArgumentKind::kSwitch},
    {"quick-geglu", ArgumentKind::kSwitch},
    {"untie-embeddings-and-output-weights", ArgumentKind::kSwitch},
    {"num-experts", ArgumentKind::kCount},
    {"moe-router-topk", ArgumentKind::kCount},
    {"moe-ffn-hidden-size", ArgumentKind::kCount},
    {"moe-shared-expert-intermediate-size", ArgumentKind::kCount},
    {"moe-latent-size", ArgumentKind::kCount},
    {"moe-shared-expert-gate", ArgumentKind::kSwitch},
    {"moe-layer-freq", ArgumentKind::kText},
    {"multi-latent-attention", ArgumentKind::kSwitch},
    {"q-lora-rank", ArgumentKind::kCount},
    {"kv-lora-rank", ArgumentKind::kCount},
    {"qk-head-dim", ArgumentKind::kCount},
    {"qk-pos-emb-head-dim", ArgumentKind::kCount},
    {"v-head-dim", ArgumentKind::kCount},
    {"mtp-num-layers", ArgumentKind::kCount},
    {"window-size", ArgumentKind::kText},
    {"window-attn-skip-freq", ArgumentKind::kText},
    {"softmax-type", ArgumentKind::kText},
    {"bf16", ArgumentKind::kSwitch},
    {"fp16", ArgumentKind::kSwitch},
    {"fp8-format", ArgumentKind::kText},
    {"fp8-recipe", ArgumentKind::kText},
    {"fp4-format", ArgumentKind::kText},
    {"fp4-recipe", ArgumentKind::kText},
    {"fp8-param-gather", ArgumentKind::kSwitch},
    {"first-last-layers-bf16", ArgumentKind::kSwitch},
    {"num-layers-at-start-in-bf16", ArgumentKind::kText},
    {"num-layers-at-end-in-bf16", ArgumentKind::kText},
    {"optimizer", ArgumentKind::kText},
    {"use-precision-aware-optimizer", ArgumentKind::kSwitch},
    {"main-grads-dtype", ArgumentKind::kText},
    {"main-params-dtype", ArgumentKind::kText},
    {"exp-avg-dtype", ArgumentKind::kText},
    {"exp-avg-sq-dtype", ArgumentKind::kText},
    {"padded-vocab-size", ArgumentKind::kCount},
    {"position-embedding-type", ArgumentKind::kText},
    {"no-position-embedding", ArgumentKind::kSwitch},
    {"use-rotary-position-embeddings", ArgumentKind::kSwitch},
    {"normalization", ArgumentKind::kText},
    {"disable-bias-linear", ArgumentKind::kSwitch},
    {"add-qkv-bias", ArgumentKind::kSwitch},
    {"qk-layernorm", ArgumentKind::kSwitch},
    {"tokenizer-type", ArgumentKind::kText},
    {"use-checkpoint-args", ArgumentKind::kSwitch},
    // The plan.
    {"tensor-model-parallel-size", ArgumentKind::kCount},
    {"pipeline-model-parallel-size", ArgumentKind::kCount},
    {"context-parallel-size", ArgumentKind::kCount},
    {"expert-model-parallel-size", ArgumentKind::kCount},
    {"expert-tensor-parallel-size", ArgumentKind::kCount},
    {"pipeline-model-parallel-layout", ArgumentKind::kText},
    {"num-layers-per-virtual-pipeline-stage", ArgumentKind::kCount},
    {"num-virtual-stages-per-pipeline-rank", ArgumentKind::kCount},
    {"microbatch-group-size-per-virtual-pipeline-stage", ArgumentKind::kCount},
    {"sequence-parallel", ArgumentKind::kSwitch},
    {"cp-comm-type", ArgumentKind::kTexts},
    {"hierarchical-context-parallel-sizes", ArgumentKind::kTexts},
    {"use-distributed-optimizer", ArgumentKind::kSwitch},
    {"num-distributed-optimizer-instances", ArgumentKind::kCount},
    {"use-megatron-fsdp", ArgumentKind::kSwitch},
    {"data-parallel-sharding-strategy", ArgumentKind::kText},
    {"overlap-grad-reduce", ArgumentKind::kSwitch},
    {"overlap-param-gather", ArgumentKind::kSwitch},
    {"recompute-granularity", ArgumentKind::kText},
    {"recompute-method", ArgumentKind::kText},
    {"recompute-num-layers", ArgumentKind::kCount},
    {"recompute-modules", ArgumentKind::kTexts},
    {"recompute-activations", ArgumentKind::kSwitch},
    {"moe-layer-recompute", ArgumentKind::kSwitch},
    {"micro-batch-size", ArgumentKind::kCount},
    {"global-batch-size", ArgumentKind::kCount},
    {"decoder-first-pipeline-num-layers", ArgumentKind::kCount},
    {"decoder-last-pipeline-num-layers", ArgumentKind::kCount},
    {"account-for-embedding-in-pipeline-split", ArgumentKind::kSwitch},
    {"account-for-loss-in-pipeline-split", ArgumentKind::kSwitch},
    // Launches of kernels.
    {"cuda-graph-impl", ArgumentKind::kText},
    {"cuda-graph-scope", ArgumentKind::kTexts},
    {"cuda-graph-modules", ArgumentKind::kTexts},
    {"external-cuda-graph", ArgumentKind::kSwitch},
    {"enable-cuda-graph", ArgumentKind::kSwitch},
    {"moe-pad-expert-input-to-capacity", ArgumentKind::kSwitch},
    // Changes of the model or of the plan that have no counterpart here.
    {"attention-output-gate", ArgumentKind::kRefused,
     "multiplies the result of attention by a gate, which no layer here has"},
    {"cpu-offloading", ArgumentKind::kRefused,
     "moves activations to the host, which the cost model does not price"},
    {"cpu-offloading-num-layers", ArgumentKind::kRefused,
     "moves activations to the host, which the cost model does not price"},
    {"deepspeed", ArgumentKind::kRefused,
     "is of Megatron-DeepSpeed, whose ZeRO and pipeline are not read here; without the arguments "
     "of "
     "DeepSpeed the rest is read as a run of Megatron-LM"},
    {"distribute-saved-activations", ArgumentKind::kRefused,
     "splits kept activations over tensor-parallel ranks, which plans do not have; use "
     "--sequence-parallel"},
    {"encoder-num-layers", ArgumentKind::kRefused,
     "is of an encoder beside the decoder, which Megatron plans here do not have"},
    {"encoder-seq-length", ArgumentKind::kRefused,
     "is of an encoder beside the decoder, which Megatron plans here do not have; a decoder has "
     "--seq-length"},
    {"fine-grained-activation-offloading", ArgumentKind::kRefused,
     "moves activations to the host, which the cost model does not price"},
    {"fp32-residual-connection", ArgumentKind::kRefused,
     "keeps what layers hand on in 32 bits, which the cost model does not price"},
    {"fp4-param-gather", ArgumentKind::kRefused,
     "keeps parameters in 4 bits, which the cost model does not price; leave it out for parameters "
     "in 16 bits"},
    {"heterogeneous-layers-config-path", ArgumentKind::kRefused,
     "gives each layer a shape of its own in another file"},
    {"hybrid-layer-pattern", ArgumentKind::kRefused,
     "names state-space layers, which are not read from arguments"},
    {"hybrid-override-pattern", ArgumentKind::kRefused,
     "names state-space layers, which are not read from arguments"},
    {"is-hybrid-model", ArgumentKind::kRefused,
     "names state-space layers, which are not read from arguments"},
    {"mtp-use-repeated-layer", ArgumentKind::kRefused,
     "shares one layer among all further tokens, where each has its own here"},
    {"offload-optimizer-states", ArgumentKind::kRefused,
     "moves optimizer states to the host, which the cost model does not price"},
    {"optimizer-cpu-offload", ArgumentKind::kRefused,
     "moves optimizer states to the host, which the cost model does not price"},
    {"overlap-cpu-optimizer-d2h-h2d", ArgumentKind::kRefused,
     "moves optimizer states to the host, which the cost model does not price"},
    {"spec", ArgumentKind::kRefused, "replaces the layers by a Python module"},
    {"use-custom-fsdp", ArgumentKind::kRefused,
     "is named --use-megatron-fsdp in core 0.14 and later"},
    {"use-torch-fsdp2", ArgumentKind::kRefused,
     "shards by PyTorch's FSDP2; Megatron-LM's own is --use-megatron-fsdp"},
    {"use-mp-args-from-checkpoint-args", ArgumentKind::kRefused,
     "takes the degrees from a checkpoint, which is not read; write them as arguments"},
    {"use-tp-pp-dp-mapping", ArgumentKind::kRefused,
     "orders ranks tp-pp-dp, and those of plans are ordered tp-cp-ep-dp-pp"},
    {"yaml-cfg", ArgumentKind::kRefused, "names another file with arguments; import that file"},
});

// Arguments that change neither: data, learning rate, numerics, checkpoints, logs, fused kernels,
// and overlaps, of which the runtime of a prediction has its own.
constexpr char kIgnoredNames[] =
    "DDP-impl accumulate-allreduce-grads-in-fp32 activation-func-clamp-value adam-beta1 "
    "adam-beta2 adam-eps adlr-autoresume adlr-autoresume-interval allow-ambiguous-pad-tokens "
    "app-tag-run-name app-tag-run-version apply-layernorm-1p apply-query-key-layer-scaling "
    "apply-rope-fusion async-save async-tensor-model-parallel-allreduce attention-backend "
    "attention-dropout attention-softmax-in-fp32 auto-detect-ckpt-format barrier-with-L1-time "
    "batch-invariant-mode beta-fast beta-slow bias-gelu-fusion cache-mla-latents "
    "calculate-per-token-loss check-for-large-grads check-for-nan-in-loss-and-grad "
    "check-for-spiky-loss check-weight-hash-across-dp-replicas-interval "
    "ckpt-assume-constant-structure ckpt-convert-format ckpt-convert-save "
    "ckpt-convert-update-legacy-dist-opt-format ckpt-format ckpt-fully-parallel-load "
    "ckpt-fully-parallel-save ckpt-fully-parallel-save-process-group ckpt-step clip-grad "
    "clone-scatter-output-in-embedding config-logger-dir cross-entropy-fusion-impl "
    "cross-entropy-loss-fusion cuda-graph-warmup-steps data-args-path data-cache-path data-impl "
    "data-parallel-random-init data-path data-sharding dataloader-defer-npy-index-mmap "
    "dataloader-fast-cache-load dataloader-type dataset ddp-average-in-collective "
    "ddp-bucket-size ddp-num-buckets ddp-pad-buckets-for-high-nccl-busbw "
    "ddp-reduce-scatter-with-fp32-accumulation decoupled-lr decoupled-min-lr "
    "decrease-batch-size-if-needed defer-embedding-wgrad-compute delay-wgrad-compute "
    "deterministic-mode disable-bf16-reduced-precision-matmul disable-gloo-process-groups "
    "disable-jit-fuser disable-mamba-mem-eff-path disable-msc disable-straggler-on-startup "
    "disable-symmetric-registration disable-tp-comm-bulk-dgrad disable-tp-comm-bulk-wgrad "
    "disable-tp-comm-overlap-ag disable-tp-comm-overlap-rs disable-tp-comm-split-ag "
    "disable-tp-comm-split-rs dist-ckpt-format dist-ckpt-optim-fully-reshardable "
    "dist-ckpt-save-pre-mcore-014 dist-ckpt-strictness "
    "distrib-optim-fully-reshardable-mem-efficient distributed-backend "
    "distributed-timeout-minutes distributed-timeout-seconds-after-init "
    "dump-param-to-param-group-map embedding-init-method-std empty-unused-memory-level "
    "enable-experimental enable-ft-package enable-gloo-process-groups enable-one-logger "
    "end-weight-decay eod-mask-loss error-injection-rate error-injection-type eval-interval "
    "eval-iters exit-duration-in-mins exit-interval exit-on-missing-checkpoint "
    "exit-signal-handler exit-signal-handler-for-training extra-vocab-size fim-data finetune "
    "flash-decode fp16-lm-cross-entropy fp8-amax-compute-algo fp8-amax-history-len fp8-interval "
    "fp8-margin fsdp-double-buffer fsdp-manual-registration full-validation glu-linear-offset "
    "grad-reduce-in-bf16 hidden-dropout high-priority-stream-groups hysteresis "
    "inference-batch-times-seqlen-threshold inference-max-requests inference-max-seq-length "
    "init-method-std init-method-xavier-uniform init-model-with-meta-device initial-loss-scale "
    "inprocess-restart iter-per-epoch iterations-to-skip keep-fp8-transpose-cache "
    "keep-fp8-weight-transpose-cache lazy-mpu-init legacy-tokenizer load "
    "load-main-params-from-ckpt local-rank log-batch-size-to-tensorboard log-device-memory-used "
    "log-energy log-interval log-learning-rate-to-tensorboard log-loss-scale-to-tensorboard "
    "log-max-attention-logit log-memory-interval log-memory-to-tensorboard log-num-zeros-in-grad "
    "log-params-norm log-progress log-straggler log-throughput log-timers-to-tensorboard "
    "log-validation-ppl-to-tensorboard log-world-size-to-tensorboard logging-level loss-scale "
    "loss-scale-window lr lr-decay-iters lr-decay-samples lr-decay-style lr-warmup-fraction "
    "lr-warmup-init lr-warmup-iters lr-warmup-samples lr-wsd-decay-iters lr-wsd-decay-samples "
    "lr-wsd-decay-style make-vocab-size-divisible-by manual-gc manual-gc-eval manual-gc-interval "
    "mask-prob max-padding-length max-tokens-to-oom memory-snapshot-path merge-file "
    "mid-level-dataset-surplus min-loss-scale min-lr mmap-bin-files mock-data "
    "moe-apply-probs-on-input moe-aux-loss-coeff moe-deepep-num-sms moe-enable-deepep "
    "moe-expert-capacity-factor moe-flex-dispatcher-backend moe-flex-dispatcher-num-sms "
    "moe-grouped-gemm moe-hybridep-num-sms moe-input-jitter-eps "
    "moe-pad-experts-for-cuda-graph-inference moe-per-layer-logging moe-permute-fusion "
    "moe-router-bias-update-rate moe-router-dtype moe-router-enable-expert-bias "
    "moe-router-force-load-balancing moe-router-fusion moe-router-group-topk "
    "moe-router-load-balancing-type moe-router-num-groups moe-router-padding-for-fp8 "
    "moe-router-padding-for-quantization moe-router-pre-softmax moe-router-score-function "
    "moe-router-topk-limited-devices moe-router-topk-scaling-factor moe-shared-expert-overlap "
    "moe-token-dispatcher-type moe-token-drop-policy moe-use-legacy-grouped-gemm "
    "moe-z-loss-coeff mscale mscale-all-dim mtp-loss-scaling-factor multiple-validation-sets "
    "muon-extra-scale-factor muon-fp32-matmul-prec muon-momentum muon-no-split-qkv "
    "muon-num-ns-steps muon-scale-mode muon-tp-mode muon-use-nesterov "
    "nccl-communicator-config-path nccl-ub no-align-grad-reduce no-align-param-gather "
    "no-async-tensor-model-parallel-allreduce no-barrier-with-level-1-timing "
    "no-bias-dropout-fusion no-bias-fusion no-bias-gelu-fusion no-bias-swiglu-fusion "
    "no-check-for-nan-in-loss-and-grad no-ckpt-fully-parallel-save "
    "no-clone-scatter-output-in-embedding no-create-attention-mask-in-dataloader "
    "no-data-sharding no-delay-grad-reduce no-gradient-accumulation-fusion "
    "no-gradient-reduce-div-fusion no-initialization no-load-main-params no-load-optim "
    "no-load-rerun-state no-load-rng no-log-learning-rate-to-tensorboard "
    "no-log-loss-scale-to-tensorboard no-manual-gc-eval no-masked-softmax-fusion "
    "no-mmap-bin-files no-moe-router-aux-loss-fusion no-one-logger no-overlap-p2p-communication "
    "no-persist-layer-norm no-pin-cpu-grads no-pin-cpu-params no-query-key-layer-scaling "
    "no-rope-freq no-rope-fusion no-save-optim no-save-rng no-scatter-gather-tensors-in-pipeline "
    "no-strict-fsdp-dtensor-load no-tp-comm-bulk-dgrad "
    "no-use-tokenizer-model-from-checkpoint-args no-weight-decay-cond-type "
    "non-persistent-ckpt-type non-persistent-global-ckpt-dir non-persistent-local-ckpt-algo "
    "non-persistent-local-ckpt-dir non-persistent-save-interval norm-epsilon "
    "null-tokenizer-eod-id num-dataset-builder-threads num-workers nvtx-ranges "
    "object-storage-cache-path offload-modules one-logger-async one-logger-project "
    "one-logger-run-name onnx-safe openai-gelu optimizer-offload-fraction "
    "original-max-position-embeddings overlap-moe-expert-parallel-comm overlap-p2p-communication "
    "overlap-p2p-communication-warmup-flush overlap-param-gather-with-optimizer-step "
    "override-lr-scheduler override-opt-param-scheduler override-opt_param-scheduler "
    "patch-tokenizer-type per-split-data-args-path persist-layer-norm persistent-save-interval "
    "pipeline-model-parallel-comm-backend pretrained-checkpoint profile profile-ranks "
    "profile-step-end profile-step-start qk-clip qk-clip-alpha qk-clip-threshold qk-l2-norm "
    "query-in-block-prob rampup-batch-size record-memory-history record-memory-history-path "
    "renormalize-blend-weights replication replication-factor replication-jump rerun-mode "
    "reset-attention-mask reset-position-ids result-rejected-tracker-filename "
    "retriever-seq-length reuse-grad-buf-for-mxfp8-param-ag rope-scaling-factor rope-type "
    "rotary-base rotary-interleaved rotary-percent rotary-scaling-factor "
    "rotary-seq-len-interpolation-factor sample-rate save save-interval save-retain-interval "
    "seed sft sft-tokenizer-prompt-format sgd-momentum sharp-enabled-group short-seq-prob "
    "skip-train split squared-relu start-weight-decay step-batch-size-schedule "
    "straggler-ctrlr-port straggler-minmax-count suggested-communication-unit-size "
    "symmetric-ar-type te-rng-tracker tensorboard-dir tensorboard-log-interval "
    "tensorboard-queue-size test-data-path test-mode tiktoken-num-special-tokens "
    "tiktoken-pattern tiktoken-special-tokens timing-log-level timing-log-option "
    "tokenizer-hf-include-special-tokens tokenizer-hf-use-fast tokenizer-metadata "
    "tokenizer-model tokenizer-prompt-format tp-comm-bootstrap-backend tp-comm-overlap "
    "tp-comm-overlap-ag tp-comm-overlap-cfg tp-comm-overlap-rs tp-comm-overlap-rs-dgrad "
    "train-data-path train-iters train-mode train-samples train-sync-interval transformer-impl "
    "trust-remote-code use-checkpoint-lr-scheduler "
    "use-checkpoint-opt-param-scheduler use-checkpoint-opt_param-scheduler "
    "use-cpu-initialization use-dist-ckpt use-flash-attn use-fused-weighted-squared-relu "
    "use-mcore-models use-nccl-ub use-persistent-ckpt-worker "
    "use-pytorch-profiler use-ring-exchange-p2p use-rope-scaling use-sharp "
    "use-te-activation-func use-tokenizer-model-from-checkpoint-args "
    "use-torch-optimizer-for-cpu-offload valid-data-path vocab-extra-ids vocab-file wandb-entity "
    "wandb-exp-name wandb-project wandb-save-dir weight-decay weight-decay-incr-style "
    "wgrad-deferral-limit";

std::vector<ArgumentRule> MakeRules() {
  std::vector<ArgumentRule> rules(kReadRules.begin(), kReadRules.end());
  for (const absl::string_view name : absl::StrSplit(kIgnoredNames, ' ')) {
    rules.push_back({name, ArgumentKind::kIgnored});
  }
  return rules;
}

}  // namespace

absl::Span<const ArgumentRule> MegatronRules() {
  static const auto* const rules = new std::vector<ArgumentRule>(MakeRules());
  return *rules;
}

}  // namespace parplan
