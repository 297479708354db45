// A plan, and the prediction of the cost model for it. `PredictPlan` (planner/cost/predict_plan.h)
// makes the prediction.

#ifndef PARPLAN_PLANNER_MODEL_PLAN_H_
#define PARPLAN_PLANNER_MODEL_PLAN_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/units.h"
#include "planner/model/schedule_traits.h"
#include "planner/model/strategy.h"

namespace parplan {

// A run of consecutive layers of one definition under one strategy.
struct StageLayerRun {
  // Place of the first layer in the model, from 0, and the number of layers.
  int first_layer_index = 0;
  int layer_count = 0;
  Strategy strategy;
  friend bool operator==(const StageLayerRun&, const StageLayerRun&) = default;
};

// One pipeline stage: consecutive layers on consecutive ranks. Ranks and layers count from 0,
// layers over the whole model.
struct StagePlan {
  int first_rank = 0;
  int rank_count = 0;
  // The layers in order. Adjacent runs differ in definition or strategy. A stage without layers
  // hands on what it receives, which only some runtimes do (`RuntimeTraits::runs_empty_stages`);
  // the first and the last stage of a plan have layers.
  std::vector<StageLayerRun> layer_runs;

  // Returns whether the stage has no layers.
  bool is_empty() const { return layer_runs.empty(); }
  // Returns the first layer's index in the model. REQUIRES, unchecked: the stage is not empty.
  int first_layer_index() const { return layer_runs.front().first_layer_index; }
  // Returns the number of layers of all runs; 0 for an empty stage.
  int layer_count() const {
    int count = 0;
    for (const StageLayerRun& run : layer_runs) count += run.layer_count;
    return count;
  }
  friend bool operator==(const StagePlan&, const StagePlan&) = default;
};

// The way to train a model on some devices: the answer of every planner. Plain data; `CheckPlan`
// (planner/check/plan_check.h) finds out whether it is a valid answer to a problem. Its functions
// divide by `virtual_stage_count` and `micro_batch_count`, which must not be 0.
struct Plan {
  // Devices, or ranks, of the job: those of each stage times `pipeline_parallel_degree()`.
  int device_count = 0;
  // Samples of one step.
  int64_t global_batch_size = 0;
  // Micro-batches of one step; divides `global_batch_size`.
  int64_t micro_batch_count = 1;
  Schedule schedule = kDefaultSchedule;
  // Stages on each device; above 1 only if the schedule has virtual stages and the pipeline has
  // several devices. Stage j is on the same ranks as stage j - pipeline_parallel_degree().
  int virtual_stage_count = 1;
  // Micro-batches that go through one virtual stage before the next one of the device takes its
  // turn (planner/model/pass_order.h): above the pipeline degree and only with several virtual
  // stages (`IsGroupSize`), or 0 for as many as the pipeline degree.
  int64_t micro_batch_group_size = 0;
  // At least one, in the order of the model.
  std::vector<StagePlan> stages;

  // Returns the number of devices that a micro-batch passes one after the other: the stages divided
  // by `virtual_stage_count`.
  int pipeline_parallel_degree() const {
    return static_cast<int>(stages.size()) / virtual_stage_count;
  }
  // Returns the samples of one micro-batch over all data-parallel replicas of a stage.
  int64_t micro_batch_size() const { return global_batch_size / micro_batch_count; }
  friend bool operator==(const Plan&, const Plan&) = default;
};

// Returns the run whose last layer makes what stage `stage_index` sends to the next one: the last
// run of the stage or, if it is empty, of the nearest stage before it that has layers. REQUIRES,
// unchecked: the plan has the stage, and its first stage is not empty. O(empty stages before it).
const StageLayerRun& SentRun(const Plan& plan, int stage_index);

// Returns the strategy under which stage `stage_index` reads what it receives: that of its first
// layer or, if it is empty, that of `SentRun`, because it changes nothing. REQUIRES, unchecked:
// what `SentRun` does.
const Strategy& ReceivingStrategy(const Plan& plan, int stage_index);

// Largest number of forward passes of one step over all stages in a plan. Schedules are simulated
// pass by pass, so this bounds the time of a prediction and the memory of `PassOrder` and
// `PipelineEvents`, some 80 bytes per forward pass and its backward pass. Not measured: a larger
// limit only makes the largest plans slower to predict.
inline constexpr int64_t kMaxForwardPassCount = int64_t{1} << 22;

// Returns the plan in one line, for example `2-4-1-c x16 | 2-4-1-c x15, 2-4-1 x1`: stages are
// divided by bars, and layers of several definitions under one strategy are counted together. A
// stage without layers is `empty`.
std::string PlanGist(const Plan& plan);

// Returns the number of micro-batches whose activations stage `stage_index` of
// `pipeline_parallel_degree` keeps at once (docs/papers.md 2.3): min(P - i, m) for 1F1B, m for
// GPipe, min(P, m) for ZB-H1, which keeps them until their weight pass. One stage is no pipeline:
// under every schedule it takes one micro-batch after the other.
// For one stage per device; planner/model/in_flight.h has the interleaved count. Aborts if the
// pipeline does not have the stage, or if a count is not above 0.
int64_t InFlightMicroBatchCount(Schedule schedule, int pipeline_parallel_degree, int stage_index,
                                int64_t micro_batch_count);

// Kinds of memory. The numbers are those of `MemoryItemKind` in proto/parplan/v1/plan.proto less
// one, so that they index an array.
enum class MemoryItemKind {
  // Weights in the storage format of the precision, held all the time.
  kParameters,
  // The buffer in which gradients are summed up.
  kGradients,
  // Moments of the optimizer.
  kOptimizerStates,
  // Kept from forward to backward by layers that do not recompute.
  kActivations,
  // Inputs of layers that recompute, kept from forward to backward.
  kCheckpoints,
  // The largest memory that exists only while one layer runs, such as the activations of a
  // recomputed layer.
  kTransient,
  // Driver and libraries.
  kContext,
  // fp32 copies of 16-bit weights.
  kMasterParameters,
  // Sharded parameters while they are whole.
  kGatheredParameters,
  // Logits, their gradient and the loss.
  kLogits,
  // Buffers of communicators.
  kCommunicators,
  // Workspaces of the matrix library.
  kWorkspace,
  // Memory that the allocator holds unused.
  kFragmentation,
};
inline constexpr int kMemoryItemKindCount = 13;
// Kinds of time of one device's passes. The numbers are those of `TimeItemKind` in
// proto/parplan/v1/plan.proto less one, so that they index an array.
enum class TimeItemKind {
  // Computation of forward and of backward passes, and forward computation that is done again
  // before the backward pass.
  kForwardCompute,
  kBackwardCompute,
  kRecompute,
  // Collectives of tensor-parallel ranks.
  kTensorParallel,
  // Gathering sharded parameters and scattering gradients, without the part that computation hides.
  kShardedDataParallel,
  // Re-arranging activations between layers of different strategies.
  kResharding,
  // The part of launching kernels for which devices wait.
  kLaunch,
  // Exchanging keys and values between context-parallel ranks.
  kContextParallel,
  // Exchanging tokens between expert-parallel ranks.
  kExpertParallel,
};
inline constexpr int kTimeItemKindCount = 9;

// The main cause that a step is not faster: the largest of the costs below on the busiest device if
// it takes a tenth of the step or more, else `kCompute`. The numbers are those of
// proto/parplan/v1/plan.proto.
enum class Bottleneck {
  // Devices compute, and the plan is close to their limit.
  kCompute = 1,
  // Recomputation and the exchange of what is sharded, which save memory: with more of it a faster
  // plan might fit.
  kMemory = 2,
  // Tensor-parallel collectives, and activations that change their layout.
  kTensorParallel = 3,
  // The gradient synchronisation that nothing hides.
  kDataParallel = 4,
  // The device waits for other stages.
  kPipelineBubble = 5
};

// The part of a prediction that rests on measurements. The numbers are those of
// proto/parplan/v1/plan.proto.
enum class Confidence {
  // Every number was measured or derived from a measurement.
  kMeasured = 1,
  // Some were; `Prediction::estimated_items` lists the others.
  kMixed = 2,
  // No time of a layer was measured.
  kEstimated = 3
};

// Memory of one device by kind, which adds up to its peak.
struct MemoryItems {
  std::array<Bytes, kMemoryItemKindCount> size = {};
  Bytes& operator[](MemoryItemKind kind) { return size[static_cast<int>(kind)]; }
  Bytes operator[](MemoryItemKind kind) const { return size[static_cast<int>(kind)]; }
  Bytes Total() const {
    Bytes total;
    for (Bytes bytes : size) total += bytes;
    return total;
  }
  friend bool operator==(const MemoryItems&, const MemoryItems&) = default;
};

// Time by kind.
struct TimeItems {
  std::array<Seconds, kTimeItemKindCount> duration = {};
  Seconds& operator[](TimeItemKind kind) { return duration[static_cast<int>(kind)]; }
  Seconds operator[](TimeItemKind kind) const { return duration[static_cast<int>(kind)]; }
  Seconds Total() const {
    Seconds total;
    for (Seconds seconds : duration) total += seconds;
    return total;
  }
  friend bool operator==(const TimeItems&, const TimeItems&) = default;
};

// The prediction for one stage, or for all virtual stages of one device together. Times are per
// micro-batch unless named otherwise.
struct StagePrediction {
  // Busy time of the device, communication within the stage included.
  Seconds forward;
  Seconds backward;
  Seconds gradient_sync;   // exposed, once per step
  Seconds optimizer_step;  // once per step
  // Part of `backward` in a weight pass of its own; 0 unless the schedule splits backward passes.
  Seconds backward_weights;
  // Messages to the next stage, one way; 0 for the last stage of the model. Those of all virtual
  // stages of the device are added up.
  Seconds send;
  // Share of the step in which the stage waits, from 0 to 1. Time of a step outside the layers is
  // no waiting.
  double idle_ratio = 0.0;
  // Micro-batches whose activations the device keeps in its first virtual stage before the backward
  // pass that needs most memory; without virtual stages the most it ever keeps.
  int64_t in_flight_micro_batch_count = 0;
  // Memory of one device of the stage at its peak.
  MemoryItems memory;
  TimeItems time;  // adds up to forward + backward
  // Returns the memory of that device at its peak.
  Bytes peak_memory() const { return memory.Total(); }
};

// The prediction for a plan.
struct Prediction {
  // Time of one step, and the samples of the batch divided by it.
  Seconds step;
  double samples_per_second = 0.0;
  Bytes peak_memory;    // of the fullest device
  Bytes usable_memory;  // of the smallest device
  // The range in which nine of ten measured steps lie. Measured memory lies above its range with at
  // most the problem's `out_of_memory_risk` (docs/calibration.md).
  Seconds step_lower;
  Seconds step_upper;
  Bytes peak_memory_lower;
  Bytes peak_memory_upper;
  // Description of the class of predictions from which the ranges come.
  std::string range_basis;
  // [position of the device in the pipeline]; `Plan::pipeline_parallel_degree()` entries, and so
  // fewer than `Plan::stages` if devices have several stages.
  std::vector<StagePrediction> stages;
  Bottleneck bottleneck = Bottleneck::kCompute;
  // The bottleneck in one sentence, with numbers.
  std::string bottleneck_text;
  Confidence confidence = Confidence::kMeasured;
  // Every number that was not measured: one sentence per entry, in a stable order.
  std::vector<std::string> estimated_items;

  // Returns whether the plan stays within memory at the accepted risk.
  bool fits() const { return peak_memory_upper <= usable_memory; }
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_MODEL_PLAN_H_
