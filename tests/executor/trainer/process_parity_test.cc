// The same parity with ranks as processes, as a job has them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "executor/device/ranks/rank_environment.h"
#include "executor/device/ranks/rank_processes.h"
#include "tests/executor/trainer/plan_cases.h"
#include "tests/executor/trainer/run_plan.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

// Environment variable that makes a process of this program a rank, and names its plan.
constexpr char kCaseVariable[] = "PARPLAN_TEST_PLAN_CASE";

// Losses and parameters as bytes: the rank is this program, so layouts follow from the plan.
void Append(const std::vector<double>& values, std::string& bytes) {
  bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double));
}

std::vector<double> Take(size_t count, absl::string_view& bytes) {
  std::vector<double> values(count);
  EXPECT_GE(bytes.size(), count * sizeof(double));
  if (bytes.size() < count * sizeof(double)) return values;
  std::memcpy(values.data(), bytes.data(), count * sizeof(double));
  bytes.remove_prefix(count * sizeof(double));
  return values;
}

// The tensors of a rank, in the order in which a trainer visits them.
std::vector<RankPart::Piece> PiecesOf(const PlanCase& c, int rank) {
  const ModelSpec model = c.Model();
  std::vector<RankPart::Piece> pieces;
  const absl::StatusOr<RankProgram> program = RankProgram::Create(c.plan, model, rank);
  EXPECT_OK(program.status());
  for (const StageProgram& stage : program->stages) {
    for (const LayerProgram& layer : stage.layers) {
      const ParameterLayout layout =
          LayoutOfParameters(model.layer(layer.layer_index), layer.strategy.tensor_parallel_degree,
                             layer.place.tensor);
      for (const ParameterTensor& tensor : layout.tensors) {
        pieces.push_back({layer.layer_index, tensor, {}});
      }
    }
  }
  return pieces;
}

TEST(RankOfParity, DoesItsPart) {
  const char* const name = std::getenv(kCaseVariable);
  if (name == nullptr) GTEST_SKIP() << "this is no rank";
  ASSERT_OK_AND_ASSIGN(const std::optional<RankEnvironment> self,
                       RankEnvironment::FromEnvironment());
  ASSERT_TRUE(self.has_value());
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<JobFabric> fabric,
                       JobFabric::Join(self->ToFabricOptions()));
  const PlanCase c = PlanCaseNamed(name);
  ASSERT_OK_AND_ASSIGN(const RankPart part, RunRank(*fabric, c.plan, c.Model(), {}));
  std::string bytes;
  Append(part.losses, bytes);
  for (const RankPart::Piece& piece : part.pieces) Append(piece.values, bytes);
  absl::string_view rest = bytes;
  while (!rest.empty()) {
    const ssize_t written = ::write(self->result_descriptor, rest.data(), rest.size());
    ASSERT_GT(written, 0);
    rest.remove_prefix(static_cast<size_t>(written));
  }
}

class ProcessParity : public testing::TestWithParam<const char*> {};

TEST_P(ProcessParity, IsAsOneRankAlone) {
  const PlanCase c = PlanCaseNamed(GetParam());
  ASSERT_OK_AND_ASSIGN(
      const std::unique_ptr<RankProcesses> ranks,
      RankProcesses::Start({.rank_count = c.plan.device_count,
                            .argv = {"/proc/self/exe", "--gtest_filter=RankOfParity.*"},
                            .environment = {{kCaseVariable, GetParam()}},
                            // Ranks of tests beside this one would be bound to the same cores.
                            .pins = false}));
  ASSERT_OK(ranks->Wait());
  std::vector<RankPart> parts;
  for (int rank = 0; rank < c.plan.device_count; ++rank) {
    absl::string_view bytes = ranks->results()[rank];
    RankPart part;
    part.losses = Take(RunOptions().step_count, bytes);
    part.pieces = PiecesOf(c, rank);
    for (RankPart::Piece& piece : part.pieces) {
      piece.values = Take(piece.tensor.local_size(), bytes);
    }
    EXPECT_TRUE(bytes.empty());
    parts.push_back(std::move(part));
  }
  const RunOutcome parallel = PutTogether(parts);
  EXPECT_TRUE(parallel.ranks_agree);
  EXPECT_LE(DifferenceOf(parallel, RunSerially(c.plan, c.Model(), {}), ElementType::kFloat64),
            1e-10);
}

INSTANTIATE_TEST_SUITE_P(Plans, ProcessParity,
                         testing::Values("Dp2Zero3", "Tp2Sequence", "Pp2", "Ring2",
                                         "Tp2SequenceDp2Zero2", "Pp2Dp2", "AllKindsOfFour"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace parplan
