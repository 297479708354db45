// Runs plans, and compares what came of it.

#ifndef PARPLAN_TESTS_EXECUTOR_TRAINER_RUN_PLAN_H_
#define PARPLAN_TESTS_EXECUTOR_TRAINER_RUN_PLAN_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/device/comm/job_fabric.h"
#include "executor/device/kernels/array_pool.h"
#include "executor/trainer/rank_trainer.h"

namespace parplan {

struct RunOptions {
  ElementType type = ElementType::kFloat64;
  OptimizerSettings optimizer = AdamSettings{};
  int step_count = 3;
  // As in TrainerSetting.
  bool communicates_ahead = false;
  bool rehearses = false;
  // The ranks of a group in place of its own; may be empty.
  std::function<std::vector<int>(const GroupSpec& group, int rank)> regroup;
  // Wrappers that tests put around communicators and kernels of a rank; may be empty.
  std::function<std::unique_ptr<Communicator>(const GroupSpec& group,
                                              std::unique_ptr<Communicator> inner)>
      wrap_group;
  std::function<std::unique_ptr<LayerKernels>(int rank, std::unique_ptr<LayerKernels> inner)>
      wrap_kernels;
};

struct RunOutcome {
  std::vector<double> losses;
  // [layer][name] whole tensors, by row and column; NaN where no rank has an element.
  std::map<std::pair<int, std::string>, std::vector<double>> parameters;
  // Whether ranks that have the same have it alike: losses and parameters.
  bool ranks_agree = true;
  // [rank] what arrays held when most was held, from the second step on.
  std::vector<ArrayUsage> peaks;
};

// The state of one rank at the end.
struct RankPart {
  struct Piece {
    int layer = 0;
    // Layout as LayoutOfParameters makes it: the part's place in the whole tensor.
    ParameterTensor tensor;
    std::vector<double> values;
  };
  std::vector<double> losses;
  std::vector<Piece> pieces;
  ArrayUsage peak;
};

// One rank's part, on its own thread. After an error the job is of no more use.
absl::StatusOr<RankPart> RunRank(JobFabric& fabric, const Plan& plan, const ModelSpec& model,
                                 const RunOptions& options);

// The pieces that `trainer` has. Of the thread of the rank; others of its groups call it too.
absl::StatusOr<std::vector<RankPart::Piece>> PiecesOf(RankTrainer& trainer, LayerKernels& kernels);

// [rank] the parts of all ranks.
RunOutcome PutTogether(const std::vector<RankPart>& parts);

// With ranks as threads. Fails the test where a rank comes to no end.
RunOutcome RunPlan(const Plan& plan, const ModelSpec& model, const RunOptions& options);

// The same steps on one rank, in one micro-batch each.
RunOutcome RunSerially(const Plan& plan, const ModelSpec& model, RunOptions options);

// How far apart two runs are: the larger of the relative differences of losses and of
// parameters. In single precision biases that have hardly left 0 differ by rounding alone, so
// there it is the parameters of a layer together.
double DifferenceOf(const RunOutcome& parallel, const RunOutcome& serial, ElementType type);

}  // namespace parplan

#endif  // PARPLAN_TESTS_EXECUTOR_TRAINER_RUN_PLAN_H_
