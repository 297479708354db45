// PlanText and ComparisonText.

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "clients/planctl/plan_view.h"
#include "clients/planctl/report/html.h"

namespace parplan::planctl {
namespace {

using report::Name;
using report::Percent;
using report::Size;
using report::Time;

// What a strategy does, in words.
std::string StrategyWords(const Strategy& strategy) {
  std::vector<std::string> words;
  if (strategy.tensor_parallel_degree > 1) {
    words.push_back(absl::StrCat("tensor parallel ", strategy.tensor_parallel_degree));
  }
  if (strategy.data_parallel_degree > 1) {
    words.push_back(absl::StrCat(strategy.sharding_level == ShardingLevel::kParameters
                                     ? "sharded data parallel "
                                     : "data parallel ",
                                 strategy.data_parallel_degree));
  }
  if (words.empty()) words.push_back("one device");
  if (strategy.recompute_level == RecomputeLevel::kFull) words.push_back("recomputed");
  return absl::StrJoin(words, ", ");
}

std::string StageText(const PlanView& view, int index) {
  const StagePlan& stage = view.plan.stages[index];
  const v1::StagePlan& named = view.payload.stages(index);
  const StagePrediction& prediction = view.prediction.stages[index];
  const int depth = view.plan.pipeline_parallel_degree();
  std::string text = absl::StrFormat(
      "\nstage %d   ranks %d-%d   forward %s, backward %s per micro-batch   waits %s\n", index,
      stage.first_rank, stage.first_rank + stage.rank_count - 1, Time(prediction.forward),
      Time(prediction.backward), Percent(prediction.idle_ratio));
  for (size_t i = 0; i < stage.layer_runs.size(); ++i) {
    const StageLayerRun& run = stage.layer_runs[i];
    const int last = run.first_layer_index + run.layer_count - 1;
    const std::string range = run.layer_count == 1
                                  ? absl::StrCat("layer ", run.first_layer_index)
                                  : absl::StrCat("layers ", run.first_layer_index, "-", last);
    absl::StrAppendFormat(&text, "  %-14s %-12s %-14s %s\n", range,
                          named.layer_runs(static_cast<int>(i)).layer_definition_id(),
                          StrategyNotation(depth, run.strategy), StrategyWords(run.strategy));
  }
  absl::StrAppendFormat(&text, "  memory %s of %s   (%d micro-batch%s in flight)\n",
                        Size(prediction.peak_memory()), Size(view.prediction.usable_memory),
                        prediction.in_flight_micro_batch_count,
                        prediction.in_flight_micro_batch_count == 1 ? "" : "es");
  for (int kind = 0; kind < kMemoryItemKindCount; ++kind) {
    const Bytes size = prediction.memory.size[kind];
    if (size == Bytes()) continue;
    const double share = size.as_double() / view.prediction.usable_memory.as_double();
    const int bar = std::clamp(static_cast<int>(share * 40 + 0.5), 0, 40);
    absl::StrAppendFormat(&text, "    %-17s %9s  %s\n", Name(static_cast<MemoryItemKind>(kind)),
                          Size(size), std::string(static_cast<size_t>(bar), '#'));
  }
  return text;
}

std::string SearchText(const PlanView& view) {
  std::string text;
  if (view.search.termination == Termination::kOptimal) {
    text = "optimal in the declared space (bound = prediction)";
  } else {
    text = absl::StrCat("at most ", Percent(view.search.gap_ratio), " from the proved bound of ",
                        Time(view.search.bound));
  }
  absl::StrAppend(&text, ", ", view.search.candidate_count, " candidates, ",
                  view.search.expanded_state_count, " states");
  if (view.wall_seconds.has_value()) {
    absl::StrAppend(&text, ", ", Time(Seconds::Of(*view.wall_seconds)));
  }
  if (view.from_cache) text += " (answered from the cache)";
  return text;
}

}  // namespace

std::string PlanText(const PlanView& view) {
  const Prediction& prediction = view.prediction;
  std::string text;
  const auto line = [&text](const char* label, const std::string& value) {
    absl::StrAppendFormat(&text, "%-12s %s\n", label, value);
  };
  if (!view.payload.plan().empty()) line("plan", view.payload.plan());
  if (!view.model_id.empty()) {
    line("question", absl::StrCat(view.model_id, " on ", view.devices, ", ",
                                  view.plan.global_batch_size, " samples a step"));
  }
  line("answer", PlanGist(view.plan));
  line("", absl::StrCat(view.plan.micro_batch_count, " micro-batches of ",
                        view.plan.micro_batch_size(), " samples, ",
                        view.plan.schedule == Schedule::kGpipe ? "GPipe" : "1F1B"));
  line("step time", Time(prediction.step));
  line("throughput", absl::StrFormat("%.2f samples/s", prediction.samples_per_second));
  line("peak memory", absl::StrCat(Size(prediction.peak_memory), " of ",
                                   Size(prediction.usable_memory), " usable per device"));
  line("limited by", prediction.bottleneck_text);
  line("search", absl::StrCat(view.payload.planner(), ": ", SearchText(view)));
  if (!view.signature.empty()) line("signature", view.signature);
  for (int i = 0; i < view.plan.pipeline_parallel_degree(); ++i) text += StageText(view, i);
  if (!view.comparisons.empty()) {
    absl::StrAppend(&text, "\ncompared with plain strategies\n", ComparisonText(view.comparisons));
  }
  if (!prediction.estimated_items.empty()) {
    text += "\nnot measured\n";
    for (const std::string& item : prediction.estimated_items) {
      absl::StrAppend(&text, "  - ", item, "\n");
    }
  }
  return text;
}

std::string ComparisonText(const std::vector<v1::PlannerComparison>& comparisons) {
  double best = 0.0;
  for (const v1::PlannerComparison& rival : comparisons) {
    best = std::max(best, rival.samples_per_second());
  }
  std::string text = absl::StrFormat("  %-15s %10s %8s %10s  %s\n", "planner", "samples/s",
                                     "of best", "peak", "plan");
  for (const v1::PlannerComparison& rival : comparisons) {
    if (!rival.feasible()) {
      absl::StrAppendFormat(&text, "  %-15s %10s %8s %10s  needs %s per device\n",
                            rival.planner(), "-", "-", "too much",
                            Size(Bytes::Of(rival.smallest_device_memory_bytes())));
      continue;
    }
    absl::StrAppendFormat(&text, "  %-15s %10.2f %7.0f%% %10s  %s\n", rival.planner(),
                          rival.samples_per_second(),
                          100.0 * rival.samples_per_second() / best,
                          Size(Bytes::Of(rival.peak_memory_bytes())), rival.gist());
  }
  return text;
}

}  // namespace parplan::planctl
