#include "tests/executor/trainer/run_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "executor/device/comm/job_fabric.h"
#include "executor/device/kernels/host_elements.h"
#include "executor/trainer/token_source.h"
#include "tests/executor/device/comm/rank_threads.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

// Adds the elements of a rank. Where several ranks have one it ought to be the same.
void AddPart(const RankPart::Piece& piece, std::vector<double>& whole, bool& agrees) {
  const ParameterTensor& tensor = piece.tensor;
  whole.resize(tensor.row_count * tensor.column_count, std::nan(""));
  int64_t index = 0;
  for (int64_t row = 0; row < tensor.local_row_count; ++row) {
    for (int64_t column = 0; column < tensor.local_column_count; ++column) {
      double& element =
          whole[(tensor.first_row + row) * tensor.column_count + tensor.first_column + column];
      const double value = piece.values[index++];
      if (!std::isnan(element) && element != value) agrees = false;
      element = value;
    }
  }
}

// Squares of differences and of the values themselves.
struct Distance {
  void Add(const std::vector<double>& a, const std::vector<double>& b) {
    for (size_t i = 0; i < b.size(); ++i) {
      // No rank had it: the largest possible deviation.
      difference += std::isnan(a[i]) ? HUGE_VAL : (a[i] - b[i]) * (a[i] - b[i]);
      size += b[i] * b[i];
    }
  }
  double Relative() const { return std::sqrt(difference / std::max(size, 1e-30)); }
  double difference = 0.0;
  double size = 0.0;
};

}  // namespace

absl::StatusOr<std::vector<RankPart::Piece>> PiecesOf(RankTrainer& trainer, LayerKernels& kernels) {
  std::vector<RankPart::Piece> pieces;
  absl::Status status;
  PARPLAN_RETURN_IF_ERROR(
      trainer.VisitParameters([&](int layer, const ParameterTensor& tensor, const void* data) {
        absl::StatusOr<std::vector<double>> values =
            ReadElements(kernels, kernels.type(), data, tensor.local_size());
        if (!values.ok()) {
          status = values.status();
          return;
        }
        pieces.push_back({layer, tensor, *std::move(values)});
      }));
  PARPLAN_RETURN_IF_ERROR(status);
  return pieces;
}

absl::StatusOr<RankPart> RunRank(JobFabric& fabric, const Plan& plan, const ModelSpec& model,
                                 const RunOptions& options) {
  std::unique_ptr<LayerKernels> kernels = MakeCpuKernels(options.type);
  if (options.wrap_kernels) kernels = options.wrap_kernels(fabric.rank(), std::move(kernels));
  const std::unique_ptr<DeviceMemory> memory = MakeHostMemory();
  ArrayPool pool(*memory);
  const std::unique_ptr<TokenSource> tokens = MakeSyntheticTokens(96, 7);
  const auto make_group =
      [&](const GroupSpec& group) -> absl::StatusOr<std::unique_ptr<Communicator>> {
    PARPLAN_ASSIGN_OR_RETURN(
        std::unique_ptr<Communicator> inner,
        fabric.MakeGroup(group.purpose,
                         options.regroup ? options.regroup(group, fabric.rank()) : group.ranks));
    if (!options.wrap_group) return inner;
    return options.wrap_group(group, std::move(inner));
  };
  PARPLAN_ASSIGN_OR_RETURN(const RankProgram program,
                           RankProgram::Create(plan, model, fabric.rank()));
  PARPLAN_ASSIGN_OR_RETURN(const std::unique_ptr<RankTrainer> trainer,
                           RankTrainer::Create(program, model,
                                               {.kernels = kernels.get(),
                                                .pool = &pool,
                                                .tokens = tokens.get(),
                                                .make_group = make_group,
                                                .optimizer = options.optimizer,
                                                .communicates_ahead = options.communicates_ahead,
                                                .rehearses = options.rehearses}));
  RankPart part;
  for (int step = 0; step < options.step_count; ++step) {
    if (step == 1) pool.ResetPeaks();
    PARPLAN_ASSIGN_OR_RETURN(part.losses.emplace_back(), trainer->Step());
  }
  part.peak = pool.at_peak();
  // Nothing is kept from one step to the next but what belongs there.
  EXPECT_EQ(pool.usage()[ArrayUse::kActivations], Bytes());
  EXPECT_EQ(pool.usage()[ArrayUse::kCheckpoints], Bytes());
  EXPECT_EQ(pool.usage()[ArrayUse::kTransient], Bytes());
  EXPECT_EQ(pool.usage()[ArrayUse::kLogits], Bytes());
  EXPECT_EQ(pool.usage()[ArrayUse::kGatheredParameters], Bytes());
  PARPLAN_ASSIGN_OR_RETURN(part.pieces, PiecesOf(*trainer, *kernels));
  return part;
}

RunOutcome PutTogether(const std::vector<RankPart>& parts) {
  RunOutcome outcome;
  for (const RankPart& part : parts) {
    outcome.peaks.push_back(part.peak);
    if (outcome.losses.empty()) outcome.losses = part.losses;
    if (outcome.losses != part.losses) outcome.ranks_agree = false;
    for (const RankPart::Piece& piece : part.pieces) {
      AddPart(piece, outcome.parameters[{piece.layer, piece.tensor.name}], outcome.ranks_agree);
    }
  }
  return outcome;
}

RunOutcome RunPlan(const Plan& plan, const ModelSpec& model, const RunOptions& options) {
  std::vector<RankPart> parts(plan.device_count);
  RunRanks(plan.device_count, {.spin_count = 50}, [&](JobFabric& fabric) {
    absl::StatusOr<RankPart> part = RunRank(fabric, plan, model, options);
    EXPECT_OK(part.status());
    if (part.ok()) {
      parts[fabric.rank()] = *std::move(part);
    } else {
      // Keeps other ranks from waiting for this one.
      fabric.Abort(std::string(part.status().message()));
    }
  });
  return PutTogether(parts);
}

RunOutcome RunSerially(const Plan& plan, const ModelSpec& model, RunOptions options) {
  Plan serial{
      .device_count = 1, .global_batch_size = plan.global_batch_size, .micro_batch_count = 1};
  StagePlan stage{.first_rank = 0, .rank_count = 1};
  for (int layer = 0; layer < model.layer_count(); ++layer) {
    stage.layer_runs.push_back({layer, 1, Strategy()});
  }
  serial.stages.push_back(std::move(stage));
  options.regroup = nullptr;
  options.wrap_group = nullptr;
  options.wrap_kernels = nullptr;
  return RunPlan(serial, model, options);
}

double DifferenceOf(const RunOutcome& parallel, const RunOutcome& serial, ElementType type) {
  if (parallel.losses.size() != serial.losses.size()) return HUGE_VAL;
  for (const auto& [key, whole] : parallel.parameters) {
    if (serial.parameters.contains(key)) continue;
    // A head's copy of the embedding's table, which must be the same.
    const auto table = parallel.parameters.find({0, "table"});
    if (key.second != "table" || table == parallel.parameters.end() || table->second != whole) {
      return HUGE_VAL;
    }
  }
  double most = 0.0;
  for (size_t step = 0; step < serial.losses.size(); ++step) {
    const double difference =
        std::abs(parallel.losses[step] - serial.losses[step]) / serial.losses[step];
    if (!(difference <= most)) most = difference;
  }
  std::map<std::string, Distance> distances;
  for (const auto& [key, whole] : serial.parameters) {
    const auto found = parallel.parameters.find(key);
    if (found == parallel.parameters.end() || found->second.size() != whole.size()) {
      return HUGE_VAL;
    }
    const bool is_exact = type == ElementType::kFloat64;
    distances[absl::StrCat("layer ", key.first, is_exact ? key.second : "")].Add(found->second,
                                                                                 whole);
  }
  for (const auto& [unused, distance] : distances) {
    // NaN counts as the largest possible deviation.
    if (!(distance.Relative() <= most)) most = distance.Relative();
  }
  return std::isnan(most) ? HUGE_VAL : most;
}

}  // namespace parplan
