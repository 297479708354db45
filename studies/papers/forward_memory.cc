#include "studies/papers/forward_memory.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "studies/papers/paper_search.h"

namespace parplan::papers {
namespace {

// Rates whose relative difference is smaller are equal: sums round.
constexpr double kSame = 1e-6;

// Returns the optimum of one stage with a MiB less for each layer: the dynamic program, which
// rounds no layer up by more, has every plan that fits there.
Answer OptimumWithoutRounding(const PlanningProblem& problem) {
  const int64_t most = static_cast<int64_t>(problem.model().layer_count() + 1) << 20;
  const Bytes memory = problem.usable_memory();
  return Ask(problem.WithUsableMemory(Bytes::Of(memory.count() - most)), kTreeOptimum);
}

void Count(const PlanningProblem& problem, const std::string& question, ForwardMemoryRow& row) {
  const Answer optimum = Ask(problem, kTreeOptimum);
  if (!optimum.fits) return;
  const Answer found = AskDynamicProgram(problem);
  ++row.question_count;
  if (!found.fits) {
    ++row.no_plan_count;
    return;
  }
  const double loss = 1.0 - found.rate / optimum.rate;
  row.mean_loss += std::max(loss, 0.0);
  if (loss <= kSame) {
    ++row.equal_count;
    return;
  }
  if (loss > row.worst_loss) {
    row.worst_loss = loss;
    row.worst_question = question;
  }
  const Answer rounded = OptimumWithoutRounding(problem);
  if (rounded.fits && found.rate < rounded.rate * (1.0 - kSame)) {
    ++row.decoupling_count;
  } else {
    ++row.rounding_count;
  }
}

}  // namespace

ForwardMemoryRow ForwardMemoryRowOf(Family family, int layer_count) {
  ForwardMemoryRow row{.model = ModelName(family, layer_count)};
  for (int memory_gb = 8; memory_gb <= 20; memory_gb += 2) {
    for (const int64_t batch : {8, 16, 32, 64}) {
      const PlanningProblem problem =
          ProblemOf(ModelOf(family, layer_count), {.count = 8, .memory_gb = memory_gb}, {0, batch});
      for (const int64_t micro_batch_count : {1, 2, 4, 8}) {
        if (micro_batch_count > batch) continue;
        PlanningRules rules = problem.rules();
        rules.max_pipeline_parallel_degree = 1;
        rules.micro_batch_count = micro_batch_count;
        Count(problem.WithRules(rules),
              absl::StrCat(memory_gb, " GB, batch ", batch, " in ", micro_batch_count), row);
      }
    }
  }
  const int both = row.question_count - row.no_plan_count;
  if (both > 0) row.mean_loss = SixDigits(row.mean_loss / both);
  row.worst_loss = SixDigits(row.worst_loss);
  return row;
}

}  // namespace parplan::papers
