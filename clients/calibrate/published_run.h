// Training runs that others measured and published, as rows of a file of schema
// `published_runs/1` (docs/accuracy.md), for `planctl calibrate` and the study of accuracy. Pure
// functions over texts.

#ifndef PARPLAN_CLIENTS_CALIBRATE_PUBLISHED_RUN_H_
#define PARPLAN_CLIENTS_CALIBRATE_PUBLISHED_RUN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/units.h"
#include "clients/import/named_text.h"
#include "planner/model/model_spec.h"
#include "planner/model/runtime_traits.h"
#include "planner/model/strategy.h"

namespace parplan::accuracy {

// The model that was trained. A value of 0 (or an absent one) means that the model has no such
// part, unless the comment names the value that takes its place. In runs of `ReadPublishedRuns` the
// numbers of layers and heads, the hidden size, sequence and vocabulary are at least 1.
struct PublishedModel {
  std::string name;
  // Encoder layers (BERT) instead of decoder layers.
  bool encoder = false;
  int layer_count = 0;
  int hidden_size = 0;
  int attention_head_count = 0;
  int key_value_head_count = 0;  // 0: attention_head_count
  int head_size = 0;             // 0: hidden_size / attention_head_count
  int feed_forward_size = 0;     // may be 0 if every layer with a feed-forward part has experts
  FeedForwardKind feed_forward_kind = FeedForwardKind::kGelu;
  int sequence_length = 0;
  // The unpadded size; runtimes of the Megatron family pad it to a multiple of 128 x tp.
  int vocabulary_size = 0;
  bool tied_embedding = true;
  // Whether there is a learned table of positions in addition to that of words (GPT, BERT).
  bool learned_positions = false;
  // The next five are those of a mixture of experts; 0 if there is none.
  int expert_count = 0;
  int experts_per_token = 0;
  int expert_feed_forward_size = 0;
  int shared_expert_feed_forward_size = 0;
  int expert_latent_size = 0;
  // Layers with experts: from `dense_layer_count` on, each `expert_layer_interval`-th.
  int dense_layer_count = 0;
  int expert_layer_interval = 1;
  // Attention over narrow vectors; `head_size` is then the width of a query.
  std::optional<LatentAttention> latent_attention;
  // One letter a layer if each has one part only: `M` a state space, `*` attention, `E` experts,
  // `-` a dense feed-forward part. Empty: blocks of attention and feed-forward part.
  std::string layer_pattern;
  std::optional<StateSpace> state_space;
  // Layers behind the last one that each predict a further token.
  int prediction_layer_count = 0;
  // Whether these have experts; of a model with a `layer_pattern` only, since others are like the
  // last layer.
  bool prediction_has_experts = false;
  // Whether several of them are one layer with the same weights. `QuestionOf` gives each weights of
  // its own, since a `ModelSpec` has no such layers.
  bool predictions_share_weights = false;
  // Whether weights are frozen, so that only adapters are trained.
  bool frozen = false;
  // Ranks of adapters beside the linear maps of attention, and of the feed-forward part; 0: none.
  int attention_adapter_rank = 0;
  int feed_forward_adapter_rank = 0;
  // Tokens that attention reads in each `window_interval`-th layer from the first on; 0: all.
  int attention_window = 0;
  int window_interval = 1;
};

// The devices and links of the run, in the words of its source.
struct PublishedHardware {
  // The published name, for example `A100-SXM-80GB`.
  std::string device_name;
  double memory_gb = 0.0;    // 10^9 bytes of one device, within a tenth; 0: not said
  int devices_per_node = 0;  // 0: not said
  int device_count = 0;
  // Whether the count is that of the usual machine instead of the run's.
  bool device_count_assumed = false;
  // Whether the run used devices of several kinds. A row describes one kind, so `beyond` says so.
  bool heterogeneous = false;
  // The links in the words of the source, read by FabricOf (run_system.h); empty: not said.
  std::string interconnect;
  // All networks of a node in the words of the source, storage and management among them.
  std::string network_text;
  // Devices that NVLink connects, across nodes too; 0: not said.
  int nvlink_domain = 0;
  // The device of the library that is taken if it has none of `device_name`.
  std::string similar_device_name;
  // The next two stand in place of the library's values; 0: those of the library.
  double power_limit_watts = 0.0;
  double memory_terabytes_per_second = 0.0;
};

// How the run divided the model and its samples over the devices.
struct PublishedParallelism {
  int tensor_parallel_degree = 1;
  int pipeline_parallel_degree = 1;
  // Replicas, or replicas times the context-parallel degree: `QuestionOf` accepts both. 0: from the
  // device count.
  int data_parallel_degree = 0;
  int context_parallel_degree = 1;
  int expert_parallel_degree = 1;
  // Tensor-parallel degree of the experts; 0: that of the other layers.
  int expert_tensor_parallel_degree = 0;
  int virtual_stage_count = 1;
  // Micro-batches of a group of interleaved 1F1B; 0: as many as the pipeline degree.
  int micro_batch_group_size = 0;
  // ZeRO level 0 to 3; absent if the row does not say.
  std::optional<int> zero_level;
  // Absent if the row does not say.
  std::optional<bool> sequence_parallel;
  // Layers of each stage; empty if the row does not say.
  std::vector<int> layers_per_stage;
  // Whether embedding and head count as one layer each when layers are split into stages.
  bool ends_count_as_layers = false;
  // How layers are spread over stages in the words of Megatron (`Et*4|(t*4|)*14tmL`) or of the
  // source, read by LayersPerStage (run_stages.h); empty: not said.
  std::string layout;
  ContextKind context_kind = ContextKind::kRing;
};

// Settings of the runtime in the row, apart from its name. Absent: the runtime's default.
struct PublishedRuntime {
  // The kernels of attention. Fields that begin with `overlap`, and `expandable_segments`, mean
  // what those of `RuntimeTraits` (planner/model/runtime_traits.h) mean.
  std::optional<AttentionKernel> attention_kernel;
  std::optional<FlashKernel> flash_kernel;
  // Whether torch.compile is used, which makes one kernel of element-wise operations.
  std::optional<bool> compiled;
  std::optional<bool> overlap_tensor_parallel;
  // Dropout of attention and of hidden states alike.
  std::optional<bool> dropout;
  std::optional<bool> overlap_gradient_sync;
  std::optional<bool> overlap_parameter_gather;
  // Whether gradients are kept and reduced in 4 bytes instead of 2.
  std::optional<bool> fp32_gradients;
  // Whether the host waits for every kernel.
  std::optional<bool> blocking_launches;
  // Whether CUDA graphs launch whole passes or whole layers.
  std::optional<bool> cuda_graphs;
  // Whether weights exist in the narrow format of the products only, and are gathered in it.
  std::optional<bool> narrow_parameters;
  // Whether attention multiplies in 8 bits.
  std::optional<bool> narrow_attention;
  // Whether optimizer states take fewer than 4 bytes.
  std::optional<bool> narrow_optimizer_states;
  // Whether tokens travel to experts while another micro-batch computes.
  std::optional<bool> hides_expert_exchange;
  // Whether every expert gets as many tokens as the others, padded or cut.
  std::optional<bool> fixed_expert_counts;
  std::optional<bool> expandable_segments;
  // Whether the loss writes the gradients of 16-bit logits over these.
  std::optional<bool> in_place_loss;
};

// The kind of peak that a source published, with which the prediction is compared.
enum class MemoryView {
  // Allocated tensors on the last rank: Megatron's tests write that rank's
  // `torch.cuda.max_memory_allocated`.
  kAllocatedLastRank = 1,
  // The same on the fullest rank.
  kAllocatedMax = 2,
  // The same including unused memory that the caching allocator holds (`max_memory_reserved`).
  kReservedMax = 3,
  // All of the device that is not free, as nvidia-smi shows it.
  kDeviceTotal = 4,
  // Like `kReservedMax`, but on the first rank: nanotron's benchmark writes the
  // `max_memory_reserved` of rank 0 of the world (helpers.py, log_throughput), which is on the
  // first stage.
  kReservedFirstRank = 5,
  // Like `kAllocatedMax`, but on the first rank: MLPerf's loggers write on rank 0 only (`get_rank()
  // == 0` in the callbacks of the reference implementation of Llama 3.1).
  kAllocatedFirstRank = 6,
};

// One row of the file.
struct PublishedRun {
  // Name of the row, unique in the file, and the data set it belongs to.
  std::string id;
  std::string source;
  // The use of the row, in words of the file: rows of `memory-validation` count for memory only,
  // because their models are too small to say anything about time. Others are not interpreted.
  std::string split;
  // The program that trained, in the words of the row, read by `RuntimeOf` (run_runtime.h); empty:
  // not said.
  std::string framework;
  // Remarks of whoever wrote the row, on its memory too. Words such as `nvidia-smi` or `last rank`
  // set the kind of memory figure if `memory_view` is absent.
  std::string note;
  // The place of the figures in the literature or a repository, in words of the row; empty: not
  // said.
  std::string cite;
  PublishedModel model;
  PublishedHardware hardware;
  PublishedParallelism parallelism;
  PublishedRuntime runtime;
  // Samples per micro-batch of one data-parallel rank, at least 1, and per step of the job.
  int micro_batch_size = 0;
  int64_t global_batch_size = 0;  // 0: not said
  // `none`, `full`, `selective`; other texts are kept for `QuestionOf` to judge; empty: not said.
  std::string recompute;
  // Layers of each virtual stage that recompute, which are its first ones; 0: all.
  int recompute_layer_count = 0;
  // The modules that selective recomputation repeats, by Megatron's names; empty: attention.
  std::vector<std::string> recompute_modules;
  // Layers whose activations are kept on the host.
  int offloaded_layer_count = 0;
  // `fp16`, `bf16`, `fp32`, `bf16+fp32 grad accumulation`, `mxfp8`, other texts.
  std::string precision;
  // Present if the row names the kind of its memory figure, or the figure is one of reserved memory
  // by its name, which then counts more.
  std::optional<MemoryView> memory_view;

  // Time of one step, from 1 ns to 3e7 s, and the peak of one device, at most 1e15 bytes; absent if
  // the row has none or one beyond these limits. A row without a time but with a rate of tokens or
  // samples has the time that follows from it. Figures in `gb` and `gib` of rows are both GiB.
  std::optional<Seconds> step;
  std::optional<Bytes> peak_memory;
  // Whether the row gives the peak in bytes instead of rounded.
  bool peak_memory_to_the_byte = false;
  // Memory that stays allocated between steps.
  std::optional<Bytes> allocated_memory;
  // Absent if the source does not say.
  std::optional<bool> out_of_memory;
  // The run gave no figure, for lack of memory or another reason.
  bool failed = false;
  // The way tokens reach experts: `alltoall`, `deepep`, `hybridep`; empty: not said.
  std::string expert_dispatcher;
  // The machine it ran on, by the name that calibrations know; empty: not said.
  std::string cluster;
  // The repository that publishes the run, as OWNER/NAME; empty: not said.
  std::string repository;

  // Reasons why the run is not predicted, one sentence per entry.
  std::vector<std::string> beyond;
};

// A row that is not predicted.
struct SkippedRun {
  // `PublishedRun::id` and `PublishedRun::source`, and a sentence that says why.
  std::string id;
  std::string source;
  std::string reason;
};

// The rows of a file: those that can be predicted, and the others.
struct PublishedRuns {
  std::vector<PublishedRun> runs;  // in the order of the file
  std::vector<SkippedRun> skipped;
};

// Reads a file. Unknown members are ignored and nulls count as absent. A row in which a known
// member has another type, or a member without default is absent, is skipped with a reason that
// names it, for example `model.layers is missing`; so is a row with something in `beyond`, whose
// first entry is the reason, also if a member is at fault. Rows without a measured figure are kept.
// Returns INVALID_ARGUMENT (SPEC_INVALID) with file and field if the file is not a JSON object of
// at most 64 MiB, has another schema, no list `runs`, a row that is no object or has no id or
// source, or two rows with the same id.
absl::StatusOr<PublishedRuns> ReadPublishedRuns(const NamedText& file);

}  // namespace parplan::accuracy

#endif  // PARPLAN_CLIENTS_CALIBRATE_PUBLISHED_RUN_H_
