#include "clients/report/tables.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "base/quantity_text.h"
#include "clients/report/chart.h"
#include "clients/report/html.h"
#include "clients/report/style.h"
#include "planner/model/schedule_traits.h"

namespace parplan::report {
namespace {

constexpr int kMaxPlannerLength = 40;
constexpr int kMaxRunRows = 400;
constexpr int kMaxStageRows = 512;
constexpr int kMaxPlanRows = 200;

// A table row by row. Texts are escaped here, markup is not.
class Table {
 public:
  // `label` is what a screen reader says of the part that scrolls.
  explicit Table(absl::string_view label)
      : html_(absl::StrCat("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"",
                           Escape(label), "\"><table><thead><tr>")) {}

  Table& Head(absl::string_view text, absl::string_view css = "") {
    absl::StrAppend(&html_, "<th scope=\"col\"", Class(css), ">", Escape(text), "</th>");
    return *this;
  }
  // Opens a row; the first closes the head.
  Table& Row(absl::string_view css = "") {
    absl::StrAppend(&html_, in_body_ ? "</tr>" : "</tr></thead><tbody>", "<tr", Class(css), ">");
    in_body_ = true;
    return *this;
  }
  Table& Cell(absl::string_view text, absl::string_view css = "") {
    return Markup(Escape(text), css);
  }
  Table& Markup(absl::string_view html, absl::string_view css = "") {
    absl::StrAppend(&html_, "<td", Class(css), ">", html, "</td>");
    return *this;
  }
  std::string Html() && {
    return absl::StrCat(html_, in_body_ ? "</tr></tbody>" : "</tr></thead>", "</table></div>");
  }

 private:
  static std::string Class(absl::string_view css) {
    return css.empty() ? std::string() : absl::StrCat(" class=\"", css, "\"");
  }

  std::string html_;
  bool in_body_ = false;
};

int StageRowCount(size_t stage_count) {
  return static_cast<int>(std::min<size_t>(stage_count, kMaxStageRows));
}

std::string LeftOut(size_t shown, size_t all, absl::string_view what) {
  if (shown >= all) return "";
  return absl::StrCat("<p class=\"quiet\">The table shows the first ", shown, " of ", all, " ",
                      what, ".</p>");
}

// A row a stage, a column an item of which some stage has any.
template <typename Kind, typename Value, typename Text>
std::string ItemTable(absl::string_view label, const Prediction& prediction, int kind_count,
                      Value value, Text text) {
  Table table(label);
  std::vector<int> used;
  for (int kind = 0; kind < kind_count; ++kind) {
    const bool any = std::any_of(prediction.stages.begin(), prediction.stages.end(),
                                 [&](const StagePrediction& stage) {
                                   return value(stage, kind) != decltype(value(stage, kind))();
                                 });
    if (any) used.push_back(kind);
  }
  table.Head("stage");
  for (const int kind : used) table.Head(Name(static_cast<Kind>(kind)));
  table.Head("together");
  const int rows = StageRowCount(prediction.stages.size());
  for (int i = 0; i < rows; ++i) {
    table.Row().Cell(absl::StrCat(i));
    decltype(value(prediction.stages[i], 0)) total;
    for (int kind = 0; kind < kind_count; ++kind) total += value(prediction.stages[i], kind);
    for (const int kind : used) table.Cell(text(value(prediction.stages[i], kind)));
    table.Cell(text(total));
  }
  return std::move(table).Html() + LeftOut(rows, prediction.stages.size(), "stages");
}

std::string StrategyMark(int index) {
  return absl::StrCat(Swatch(StrategyFillClass(index)), " ", Letter(index));
}

// Layers of all virtual stages on the device of stage `index`; `none` for one without.
std::string LayersOfDevice(const Plan& plan, size_t index) {
  std::string ranges;
  for (size_t i = index; i < plan.stages.size();
       i += static_cast<size_t>(plan.pipeline_parallel_degree())) {
    const StagePlan& stage = plan.stages[i];
    absl::StrAppend(
        &ranges, ranges.empty() ? "" : ", ",
        stage.is_empty() ? "none" : Range(stage.first_layer_index(), stage.layer_count()));
  }
  return ranges;
}

int IndexOf(const std::vector<Strategy>& strategies, const Strategy& strategy) {
  return static_cast<int>(std::find(strategies.begin(), strategies.end(), strategy) -
                          strategies.begin());
}

}  // namespace

std::string StageTable(const Plan& plan, const Prediction& prediction) {
  Table table("Stages");
  for (const char* name : {"stage", "devices", "layers", "forward", "backward", "send", "sync",
                           "update", "waiting", "in flight", "peak memory"}) {
    table.Head(name);
  }
  const int rows = StageRowCount(prediction.stages.size());
  for (int i = 0; i < rows; ++i) {
    const StagePrediction& stage = prediction.stages[i];
    const StagePlan& part = plan.stages[i];
    table.Row()
        .Cell(absl::StrCat(i))
        .Cell(Range(part.first_rank, part.rank_count))
        .Cell(LayersOfDevice(plan, static_cast<size_t>(i)))
        .Cell(TimeText(stage.forward))
        .Cell(TimeText(stage.backward))
        .Cell(TimeText(stage.send))
        .Cell(TimeText(stage.gradient_sync))
        .Cell(TimeText(stage.optimizer_step))
        .Cell(Percent(stage.idle_ratio))
        .Cell(absl::StrCat(stage.in_flight_micro_batch_count))
        .Cell(SizeText(stage.peak_memory()),
              stage.peak_memory() > prediction.usable_memory ? "bad" : "");
  }
  return std::move(table).Html() + LeftOut(rows, prediction.stages.size(), "stages");
}

std::string MemoryTable(const Prediction& prediction) {
  return ItemTable<MemoryItemKind>(
      "Memory items", prediction, kMemoryItemKindCount,
      [](const StagePrediction& stage, int kind) { return stage.memory.size[kind]; }, SizeText);
}

std::string TimeTable(const Prediction& prediction) {
  return ItemTable<TimeItemKind>(
      "Time items", prediction, kTimeItemKindCount,
      [](const StagePrediction& stage, int kind) { return stage.time.duration[kind]; }, TimeText);
}

std::string StrategyTable(const Plan& plan, const std::vector<Strategy>& strategies) {
  std::vector<int> layer_counts(strategies.size(), 0);
  for (const StagePlan& stage : plan.stages) {
    for (const StageLayerRun& run : stage.layer_runs) {
      layer_counts[IndexOf(strategies, run.strategy)] += run.layer_count;
    }
  }
  Table table("Strategies");
  table.Head("strategy").Head("notation", "left").Head("layers").Head("what it does", "left");
  for (size_t i = 0; i < strategies.size(); ++i) {
    table.Row()
        .Markup(StrategyMark(static_cast<int>(i)))
        .Cell(StrategyNotation(plan.pipeline_parallel_degree(), strategies[i]), "left code")
        .Cell(absl::StrCat(layer_counts[i]))
        .Cell(StrategyWords(strategies[i]), "left words");
  }
  return std::move(table).Html();
}

std::string LayerTable(const Plan& plan, const std::vector<Strategy>& strategies,
                       const std::vector<std::string>& layer_names) {
  Table table("Layers");
  table.Head("stage").Head("layers").Head("strategy", "left").Head("kind of layer", "left");
  size_t run_count = 0;
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    for (const StageLayerRun& run : plan.stages[i].layer_runs) {
      if (++run_count > kMaxRunRows) continue;
      const size_t layer = static_cast<size_t>(run.first_layer_index);
      table.Row()
          .Cell(absl::StrCat(i))
          .Cell(Range(run.first_layer_index, run.layer_count))
          .Markup(StrategyMark(IndexOf(strategies, run.strategy)), "left")
          .Cell(layer < layer_names.size() ? Shorten(layer_names[layer], kMaxNameLength) : "–",
                "left words");
    }
  }
  return std::move(table).Html() + LeftOut(kMaxRunRows, run_count, "runs of layers");
}

std::string PlanTable(const std::vector<PlanBeside>& plans, const Prediction& prediction) {
  Table table("Plans");
  for (const char* name :
       {"step", "time a sample", "peak memory", "memory", "batch", "micro-batches"}) {
    table.Head(name);
  }
  table.Head("schedule", "left").Head("plan", "left");
  const size_t rows = std::min<size_t>(plans.size(), kMaxPlanRows);
  for (size_t i = 0; i < rows; ++i) {
    const PlanBeside& beside = plans[i];
    const double memory = beside.peak_memory.as_double() / prediction.peak_memory.as_double();
    table.Row()
        .Cell(TimeText(beside.step))
        .Cell(Change(beside.SlowerThan(prediction.samples_per_second)))
        .Cell(SizeText(beside.peak_memory))
        .Cell(Change(memory - 1.0))
        .Cell(absl::StrCat(beside.plan.global_batch_size))
        .Cell(absl::StrCat(beside.plan.micro_batch_count))
        .Cell(absl::StrCat(TraitsOf(beside.plan.schedule).title, GroupsText(beside.plan)), "left")
        .Cell(Shorten(PlanGist(beside.plan), kMaxGistLength), "left words code");
  }
  return std::move(table).Html() + LeftOut(rows, plans.size(), "plans");
}

std::string RivalTable(const std::vector<ReportRival>& rivals, const std::string& planner) {
  double best = 0.0;
  for (const ReportRival& rival : rivals) {
    if (rival.feasible) best = std::max(best, rival.samples_per_second);
  }
  Table table("Rivals");
  table.Head("planner")
      .Head("samples/s")
      .Head("")
      .Head("step")
      .Head("peak memory")
      .Head("plan", "left");
  for (const ReportRival& rival : rivals) {
    table.Row(rival.planner == planner ? "best" : "")
        .Cell(Shorten(rival.planner, kMaxPlannerLength), "name");
    if (!rival.feasible) {
      table.Cell("–")
          .Cell("")
          .Cell("–")
          .Cell(rival.stopped_early ? "not known" : "does not fit", "bad")
          .Cell(rival.stopped_early
                    ? std::string("a limit ended its search before any plan was found")
                : rival.smallest_device_memory > Bytes()
                    ? absl::StrCat("would need ", SizeText(rival.smallest_device_memory),
                                   " per device")
                    : std::string("no degrees divide devices, heads and batch"),
                "left words");
      continue;
    }
    const double share = best > 0.0 ? rival.samples_per_second / best : 0.0;
    table.Cell(Rate(rival.samples_per_second))
        .Markup(absl::StrFormat("<svg class=\"plot\" width=\"100%%\" height=\"12\" "
                                "aria-hidden=\"true\"><rect class=\"f00\" x=\"0\" y=\"1\" "
                                "width=\"%.2f%%\" height=\"10\"/></svg>",
                                100.0 * std::clamp(share, 0.0, 1.0)),
                "bar")
        .Cell(TimeText(rival.step))
        .Cell(SizeText(rival.peak_memory))
        .Cell(Shorten(rival.gist, kMaxGistLength), "left words code");
  }
  return std::move(table).Html();
}

}  // namespace parplan::report
