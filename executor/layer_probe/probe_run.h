// One model that is trained while its phases are timed.

#ifndef PARPLAN_EXECUTOR_LAYER_PROBE_PROBE_RUN_H_
#define PARPLAN_EXECUTOR_LAYER_PROBE_PROBE_RUN_H_

#include <array>
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

// The three kinds of layers of such a model.
enum class ProbedKind { kEmbedding, kMiddle, kHead };
inline constexpr int kProbedKindCount = 3;

// Of one step: all layers of a kind together.
struct ProbedTimes {
  // One micro-batch.
  absl::Duration forward;
  absl::Duration backward;
  absl::Duration optimizer_step;
};

// A model of the first and the last definition of `model` and `depth` layers of `middle_index`
// between them, which recompute as told, and what a rank does to train it.
struct ProbeJob {
  ModelSpec model;
  RankProgram program;
  // Of groups of the program, which counts ranks from the first of those that share matrices.
  std::function<absl::StatusOr<std::unique_ptr<Communicator>>(const GroupSpec& group)> make_group;
};
absl::StatusOr<ProbeJob> MakeProbeJob(const ModelSpec& model, int middle_index, int depth,
                                      RecomputeLevel recompute_level, const LayerProbeShape& shape,
                                      const LayerProbeSetting& setting);

class ProbeRun {
 public:
  // Of the job that the arguments make, without recomputation. Errors as of `ProbeLayers`.
  static absl::StatusOr<std::unique_ptr<ProbeRun>> Create(const ModelSpec& model, int middle_index,
                                                          int depth, const LayerProbeShape& shape,
                                                          const LayerProbeSetting& setting);

  // One step; the times of it.
  absl::StatusOr<std::array<ProbedTimes, kProbedKindCount>> Step();

  // Of one layer of a kind on this rank.
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
