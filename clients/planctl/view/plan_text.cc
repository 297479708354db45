#include "clients/planctl/view/plan_text.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/quantity_text.h"
#include "clients/planctl/view/text_layout.h"
#include "clients/report/html.h"
#include "proto/wire/rules_wire.h"

namespace parplan::planctl {
namespace {

using report::Name;
using report::Percent;

// Columns of a layer's name at most.
constexpr int kMaxNameColumns = 24;

std::string Padded(std::string text, int columns) {
  const int missing = columns - ColumnCount(text);
  if (missing > 0) text.append(static_cast<size_t>(missing), ' ');
  return text;
}

// `1F1B`, `GPipe`, `V=4` for interleaved stages.
std::string ShortName(const Plan& plan) {
  const ScheduleTraits& traits = TraitsOf(plan.schedule);
  if (traits.has_virtual_stages) return absl::StrCat("V=", plan.virtual_stage_count);
  return std::string(traits.title);
}

std::string LayerName(const v1::StageLayerRun& run) {
  return report::Shorten(run.layer_definition_id(), kMaxNameColumns);
}

// Widths of the columns of layer names and notations over all stages.
struct RunColumns {
  int name = 0;
  int notation = 0;
};

RunColumns ColumnsOf(const PlanView& view) {
  RunColumns columns;
  const int depth = view.plan.pipeline_parallel_degree();
  for (const StagePlan& stage : view.plan.stages) {
    for (const StageLayerRun& run : stage.layer_runs) {
      columns.notation =
          std::max(columns.notation, ColumnCount(StrategyNotation(depth, run.strategy)));
    }
  }
  for (const v1::StagePlan& stage : view.payload.stages()) {
    for (const v1::StageLayerRun& run : stage.layer_runs()) {
      columns.name = std::max(columns.name, ColumnCount(LayerName(run)));
    }
  }
  return columns;
}

std::string RanksText(const StagePlan& stage) {
  if (stage.rank_count == 1) return absl::StrCat("rank ", stage.first_rank);
  return absl::StrCat("ranks ", stage.first_rank, "-", stage.first_rank + stage.rank_count - 1);
}

std::string MemoryText(const StagePrediction& prediction, Bytes usable) {
  std::string text = absl::StrFormat("  memory %s of %s, %d micro-batch%s in flight\n",
                                     SizeText(prediction.peak_memory()), SizeText(usable),
                                     prediction.in_flight_micro_batch_count,
                                     prediction.in_flight_micro_batch_count == 1 ? "" : "es");
  constexpr int kBarColumns = 40;
  // Wide enough for all names but `gathered parameters`, which few plans have.
  int name_columns = 17;
  for (int kind = 0; kind < kMemoryItemKindCount; ++kind) {
    if (prediction.memory.size[kind] == Bytes()) continue;
    name_columns = std::max(name_columns, ColumnCount(Name(static_cast<MemoryItemKind>(kind))));
  }
  for (int kind = 0; kind < kMemoryItemKindCount; ++kind) {
    const Bytes size = prediction.memory.size[kind];
    if (size == Bytes()) continue;
    const double share = size.as_double() / usable.as_double();
    const int bar = static_cast<int>(std::lround(std::clamp(share, 0.0, 1.0) * kBarColumns));
    absl::StrAppendFormat(&text, "    %-*s %8s", name_columns,
                          Name(static_cast<MemoryItemKind>(kind)), SizeText(size));
    if (bar > 0) absl::StrAppend(&text, "  ", std::string(static_cast<size_t>(bar), '#'));
    text += "\n";
  }
  return text;
}

std::string StageText(const PlanView& view, int index, const RunColumns& columns) {
  const StagePlan& stage = view.plan.stages[index];
  const v1::StagePlan& named = view.payload.stages(index);
  const int depth = view.plan.pipeline_parallel_degree();
  // One prediction serves all virtual stages of a device.
  const StagePrediction& prediction = view.prediction.stages[index % depth];
  std::string text = absl::StrFormat("\nstage %d   %s", index, RanksText(stage));
  if (index < depth) {
    const bool has_several = view.plan.virtual_stage_count > 1;
    const std::string of_all =
        has_several ? absl::StrCat(" over ", view.plan.virtual_stage_count, " stages") : "";
    std::string backward = TimeText(prediction.backward);
    if (prediction.backward_weights > Seconds()) {
      absl::StrAppend(&backward, " (", TimeText(prediction.backward_weights), " for weights)");
    }
    absl::StrAppendFormat(&text, "%sper micro-batch%s: forward %s, backward %s   waits %s",
                          has_several ? "\n  " : "   ", of_all, TimeText(prediction.forward),
                          backward, Percent(prediction.idle_ratio));
  }
  text += "\n";
  if (stage.is_empty()) text += "  no layers: hands on what it receives\n";
  for (size_t i = 0; i < stage.layer_runs.size(); ++i) {
    const StageLayerRun& run = stage.layer_runs[i];
    const int last = run.first_layer_index + run.layer_count - 1;
    const std::string range = run.layer_count == 1
                                  ? absl::StrCat("layer ", run.first_layer_index)
                                  : absl::StrCat("layers ", run.first_layer_index, "-", last);
    const std::string start =
        absl::StrCat("  ", Padded(range, 14), "  ",
                     Padded(LayerName(named.layer_runs(static_cast<int>(i))), columns.name), "  ",
                     Padded(StrategyNotation(depth, run.strategy), columns.notation), "  ");
    absl::StrAppend(&text, start, Wrap(report::StrategyWords(run.strategy), ColumnCount(start)),
                    "\n");
  }
  if (index >= depth) return text;
  return text + MemoryText(prediction, view.prediction.usable_memory);
}

std::string SearchText(const PlanView& view) {
  if (view.payload.planner() == kGivenPlanner) return "none: the plan was given";
  std::string text = absl::StrCat(view.payload.planner(), ": ");
  if (view.search.termination == Termination::kOptimal) {
    // Only the default planner searches all of the declared space; others have spaces of their own.
    absl::StrAppend(&text, "OPTIMAL in ",
                    view.payload.planner() == kDefaultPlanner ? "the declared space"
                                                              : "the space of this planner",
                    " (bound = prediction)");
  } else {
    if (view.search.bound > Seconds()) {
      absl::StrAppend(&text, "FEASIBLE, at most ", Percent(view.search.gap_ratio),
                      " from the proved bound of ", TimeText(view.search.bound));
    } else {
      text += "FEASIBLE, with no bound proved";
    }
    const std::string end = report::EndOfSearch(view.search.limit);
    if (!end.empty()) absl::StrAppend(&text, ", ended by ", end);
  }
  absl::StrAppend(&text, ", ", view.search.candidate_count, " candidates, ",
                  view.search.expanded_state_count, " states");
  if (view.wall_seconds.has_value()) {
    absl::StrAppend(&text, ", ", TimeText(Seconds::Of(*view.wall_seconds)));
  }
  if (view.from_cache) text += " (answered from the cache)";
  return text;
}

// Plans as a table, each beside that of `view`.
std::string PlansTable(const std::vector<PlanBeside>& plans, const PlanView& view) {
  // The column at which the last one starts.
  constexpr int kPlanColumn = 61;
  std::string text = absl::StrFormat("  %9s %9s %9s %9s  %-17s  %s\n", "step", "a sample", "peak",
                                     "memory", "batch", "plan");
  for (const PlanBeside& beside : plans) {
    const double memory = beside.peak_memory.as_double() / view.prediction.peak_memory.as_double();
    const std::string batch =
        absl::StrCat(beside.plan.micro_batch_count, " x ", beside.plan.micro_batch_size(), " ",
                     ShortName(beside.plan));
    absl::StrAppend(
        &text, "  ", PaddedLeft(TimeText(beside.step), 9), " ",
        PaddedLeft(report::Change(beside.SlowerThan(view.prediction.samples_per_second)), 9), " ",
        PaddedLeft(SizeText(beside.peak_memory), 9), " ",
        PaddedLeft(report::Change(memory - 1.0), 9), "  ", Padded(batch, 17), "  ",
        WrapGist(PlanGist(beside.plan), kPlanColumn), "\n");
  }
  return text;
}

}  // namespace

std::string BesideText(const PlanView& view) {
  std::string text;
  if (!view.alternatives.empty()) {
    absl::StrAppend(&text, "\nnext best plans, beside this one\n",
                    PlansTable(view.alternatives, view));
  }
  if (!view.memory_front.empty()) {
    absl::StrAppend(&text,
                    "\ntime against memory: no plan of the search beats one of these in both\n",
                    PlansTable(view.memory_front, view));
  }
  if (!view.notes.empty()) {
    text += "\nthe planner says\n";
    for (const std::string& note : view.notes) {
      absl::StrAppend(&text, "  - ", Wrap(note, 4), "\n");
    }
  }
  return text;
}

std::string PlanText(const PlanView& view) {
  const Prediction& prediction = view.prediction;
  std::string text;
  const auto line = [&text](const char* label, const std::string& value) {
    absl::StrAppendFormat(&text, "%-12s %s\n", label, value);
  };
  const auto wrapped = [&line](const char* label, const std::string& value) {
    line(label, Wrap(value, kValueColumn));
  };
  if (!view.payload.plan().empty()) line("plan", view.payload.plan());
  if (!view.model_id.empty()) {
    wrapped("question", absl::StrCat(view.model_id, " on ", view.devices, ", ",
                                     view.plan.global_batch_size, " samples a step"));
  }
  line("answer", WrapGist(PlanGist(view.plan), kValueColumn));
  line("", absl::StrCat(view.plan.micro_batch_count, " micro-batch",
                        view.plan.micro_batch_count == 1 ? "" : "es", " of ",
                        view.plan.micro_batch_size(),
                        view.plan.micro_batch_size() == 1 ? " sample, " : " samples, ",
                        TraitsOf(view.plan.schedule).title, report::GroupsText(view.plan)));
  line("step time",
       absl::StrCat(TimeText(prediction.step), ", likely ", TimeText(prediction.step_lower), " to ",
                    TimeText(prediction.step_upper)));
  line("throughput", absl::StrFormat("%.2f samples/s", prediction.samples_per_second));
  line("peak memory", absl::StrCat(SizeText(prediction.peak_memory), ", at most ",
                                   SizeText(prediction.peak_memory_upper), " of ",
                                   SizeText(prediction.usable_memory), " usable per device",
                                   prediction.fits() ? "" : ": does not fit"));
  if (!prediction.range_basis.empty()) wrapped("ranges from", prediction.range_basis);
  wrapped("limited by", prediction.bottleneck_text);
  wrapped("search", SearchText(view));
  if (!view.signature.empty()) wrapped("signature", view.signature);
  const RunColumns columns = ColumnsOf(view);
  for (int i = 0; i < static_cast<int>(view.plan.stages.size()); ++i) {
    text += StageText(view, i, columns);
  }
  text += BesideText(view);
  if (!view.comparisons.empty()) {
    absl::StrAppend(&text, "\ncompared with plain strategies\n", ComparisonText(view.comparisons));
  }
  if (!prediction.estimated_items.empty()) {
    text += "\nnot measured\n";
    for (const std::string& item : JoinSubjects(prediction.estimated_items)) {
      absl::StrAppend(&text, "  - ", Wrap(item, 4), "\n");
    }
  }
  return text;
}

std::string ComparisonText(const std::vector<v1::PlannerComparison>& comparisons) {
  double best = 0.0;
  for (const v1::PlannerComparison& rival : comparisons) {
    best = std::max(best, rival.samples_per_second());
  }
  int name_columns = 15;
  for (const v1::PlannerComparison& rival : comparisons) {
    name_columns = std::max(name_columns, ColumnCount(rival.planner()));
  }
  // The column at which the last one starts.
  const int plan_column = 35 + name_columns;
  std::string text = absl::StrFormat("  %-*s %9s %8s %10s  %s\n", name_columns, "planner",
                                     "samples/s", "of best", "peak", "plan");
  for (const v1::PlannerComparison& rival : comparisons) {
    if (!rival.feasible()) {
      std::string why = "no such plan for these devices, heads and batch";
      if (rival.smallest_device_memory_bytes() > 0) {
        why = absl::StrCat("needs ", SizeText(Bytes::Of(rival.smallest_device_memory_bytes())),
                           " per device");
        if (rival.smallest_device_count() > 0) {
          absl::StrAppend(&why, ", or ", rival.smallest_device_count(), " devices");
        }
      }
      if (rival.stopped_early()) why = "stopped before any plan was found";
      absl::StrAppendFormat(&text, "  %-*s %9s %8s %10s  %s\n", name_columns, rival.planner(), "-",
                            "-", "-", why);
      continue;
    }
    absl::StrAppendFormat(&text, "  %-*s %9.2f %7.0f%% %10s  %s\n", name_columns, rival.planner(),
                          rival.samples_per_second(), 100.0 * rival.samples_per_second() / best,
                          SizeText(Bytes::Of(rival.peak_memory_bytes())),
                          WrapGist(rival.gist(), plan_column - 1));
  }
  return text;
}

}  // namespace parplan::planctl
