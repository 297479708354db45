// A small model that is trained while it is measured. `ProbeLayers` times its phases by `ProbeRun`;
// `ProbeMemory` makes a trainer of its own from `MakeProbeJob`.

#ifndef PARPLAN_EXECUTOR_LAYER_PROBE_PROBE_RUN_H_
#define PARPLAN_EXECUTOR_LAYER_PROBE_PROBE_RUN_H_

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "executor/device/comm/timed_communicator.h"
#include "executor/layer_probe/layer_probe.h"
#include "executor/layer_probe/phase_recorder.h"
#include "executor/trainer/rank_trainer.h"
#include "planner/program/rank_program.h"

namespace parplan {

// Kinds of layers of such a model: the embedding, the layers between, and the head.
enum class ProbedKind { kEmbedding, kMiddle, kHead };
inline constexpr int kProbedKindCount = 3;

// Seed of the parameters and tokens of such models.
inline constexpr uint64_t kProbeSeed = 1;

// Times of one step, summed over all layers of a kind, without those spent in communicators.
struct ProbedTimes {
  // Passes over one micro-batch, as means over those of the step.
  absl::Duration forward;
  absl::Duration backward;
  // The optimizer's step, which is one for all micro-batches.
  absl::Duration optimizer_step;
};

// A model that is trained to measure it, and the program of one rank.
struct ProbeJob {
  ModelSpec model;
  RankProgram program;
  // Makes groups of the program, whose ranks are counted from the first of those that share
  // matrices.
  std::function<absl::StatusOr<std::unique_ptr<Communicator>>(const GroupSpec& group)> make_group;
};
// Makes a job whose model is the embedding of `model`, `depth` layers (at least 1) of definition
// `middle_index`, and the head, in micro-batches of `shape`; only the middle layers recompute. The
// job keeps of `setting` a copy of its `make_group` and nothing else. INVALID_ARGUMENT if the
// executor cannot run it. REQUIRES, unchecked: CheckProbeShape takes `shape`, and `middle_index` is
// one into `ModelSpec::layer_definitions`.
absl::StatusOr<ProbeJob> MakeProbeJob(const ModelSpec& model, int middle_index, int depth,
                                      RecomputeLevel recompute_level, const LayerProbeShape& shape,
                                      const LayerProbeSetting& setting);

// One rank of a job that trains such a model. Used by one thread.
class ProbeRun {
 public:
  // Makes the job of MakeProbeJob without recomputation, and a trainer that runs it. Collective.
  // Makes a run whose objects that `setting` points to must outlive it. Returns INVALID_ARGUMENT if
  // the executor cannot run the model, and the errors of RankTrainer::Create.
  static absl::StatusOr<std::unique_ptr<ProbeRun>> Create(const ModelSpec& model, int middle_index,
                                                          int depth, const LayerProbeShape& shape,
                                                          const LayerProbeSetting& setting);

  // Makes one step of two micro-batches and returns [ProbedKind] its times. Collective. Returns the
  // errors of RankTrainer::Step, after which the run must be destroyed.
  absl::StatusOr<std::array<ProbedTimes, kProbedKindCount>> Step();

  // Returns the number of parameters of one layer of a kind on this rank.
  int64_t ParameterCount(ProbedKind kind) const;

 private:
  ProbeRun(ModelSpec model, RankProgram program, const LayerProbeSetting& setting);

  const ModelSpec model_;
  const RankProgram program_;
  WaitMeter meter_;
  ArrayPool pool_;
  const std::unique_ptr<TokenSource> tokens_;
  PhaseRecorder recorder_;
  std::unique_ptr<RankTrainer> trainer_;
};

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_LAYER_PROBE_PROBE_RUN_H_
