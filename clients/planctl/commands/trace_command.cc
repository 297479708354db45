// `planctl trace`: the predicted step of a plan as a trace of Chrome and Perfetto.

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "clients/planctl/commands/command.h"
#include "clients/planctl/commands/show_view.h"
#include "clients/planctl/files.h"
#include "clients/report/step_spans.h"
#include "planner/model/runtime_traits.h"

namespace parplan::planctl {
namespace {

using Json = nlohmann::ordered_json;
using report::SpanKind;
using report::StepSpan;

// The process of predicted spans in a trace; measured ones are in another.
constexpr int kPredictedProcess = 1;

struct TraceFlags {
  std::string plan_path;
  std::string output_path;
};

const char* CategoryOf(SpanKind kind) {
  switch (kind) {
    case SpanKind::kForward:
      return "forward";
    case SpanKind::kBackward:
      return "backward";
    case SpanKind::kMessage:
      return "message";
    case SpanKind::kGradients:
      return "gradients";
    case SpanKind::kOptimizer:
      return "optimizer";
    case SpanKind::kStep:
      return "step";
  }
  return "";
}

// Rows of a trace: 0 is the whole step, then come passes and messages of each place.
int RowOf(const StepSpan& span) {
  if (span.kind == SpanKind::kStep) return 0;
  return 1 + 2 * span.place + (span.kind == SpanKind::kMessage ? 1 : 0);
}

std::string RowName(const Plan& plan, int row) {
  if (row == 0) return "step";
  const StagePlan& stage = plan.stages[(row - 1) / 2];
  const int last = stage.first_rank + stage.rank_count - 1;
  return absl::StrCat(row % 2 == 1 ? "" : "messages of ",
                      last == stage.first_rank
                          ? absl::StrCat("rank ", last)
                          : absl::StrCat("ranks ", stage.first_rank, "-", last));
}

Json Metadata(const char* name, int row, const char* member, Json value) {
  return {{"ph", "M"},
          {"name", name},
          {"pid", kPredictedProcess},
          {"tid", row},
          {"args", {{member, std::move(value)}}}};
}

// Returns the trace as its viewers read it: times in microseconds, a row for each thread.
Json TraceJson(const PlanView& view, const std::vector<StepSpan>& spans) {
  constexpr double kMicroseconds = 1e6;
  Json events = Json::array();
  events.push_back(Metadata("process_name", 0, "name", "predicted"));
  events.push_back(Metadata("process_sort_index", 0, "sort_index", kPredictedProcess));
  std::set<int> rows;
  for (const StepSpan& span : spans) rows.insert(RowOf(span));
  for (const int row : rows) {
    events.push_back(Metadata("thread_name", row, "name", RowName(view.plan, row)));
    events.push_back(Metadata("thread_sort_index", row, "sort_index", row));
  }
  for (const StepSpan& span : spans) {
    Json event = {{"ph", "X"},
                  {"name", span.name},
                  {"cat", CategoryOf(span.kind)},
                  {"pid", kPredictedProcess},
                  {"tid", RowOf(span)},
                  {"ts", span.start.value() * kMicroseconds},
                  {"dur", span.duration.value() * kMicroseconds}};
    if (span.stage_index >= 0) {
      event["args"] = {{"stage", span.stage_index}, {"micro_batch", span.micro_batch_index}};
    }
    events.push_back(std::move(event));
  }
  return {{"traceEvents", std::move(events)},
          {"displayTimeUnit", "ms"},
          {"otherData",
           {{"plan", view.payload.plan()},
            {"runtime_id", view.payload.runtime_id()},
            {"predicted_step_seconds", view.prediction.step.value()}}}};
}

absl::Status Trace(const Session& session, const TraceFlags& flags) {
  PARPLAN_ASSIGN_OR_RETURN(const PlanView view, ReadView(flags.plan_path));
  const RuntimeTraits* const runtime = FindRuntime(view.payload.runtime_id());
  const bool blocking = runtime != nullptr && runtime->blocking_pipeline_messages;
  const bool serial = runtime != nullptr && runtime->serial_pipeline_messages;
  PARPLAN_ASSIGN_OR_RETURN(const std::vector<StepSpan> spans,
                           report::PredictedSpans(view.plan, view.prediction, blocking, serial));
  PARPLAN_RETURN_IF_ERROR(WriteFile(
      flags.output_path,
      TraceJson(view, spans).dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"));
  if (session.json) {
    const Json object = {{"trace", flags.output_path}, {"spans", spans.size()}};
    return Print(session, object.dump(2) + "\n");
  }
  Note(session, "trace in " + flags.output_path);
  return absl::OkStatus();
}

}  // namespace

void AddTraceCommand(Command app, const Session& session, Action& action) {
  auto flags = std::make_shared<TraceFlags>();
  Command command =
      app.AddCommand("trace", "Write the predicted step as a trace of Chrome and Perfetto");
  command.Footer(
      "Open the file in https://ui.perfetto.dev or chrome://tracing. `parplan-torch trace "
      "--predicted` puts a measured step beside it.\n"
      "Example:\n  planctl trace plan.dsse.json --out predicted.trace.json");
  command.AddOption("plan", flags->plan_path, "Plan file: an envelope or an unsigned plan")
      .Required();
  command.AddOption("--out", flags->output_path, "The trace (JSON)").Required();
  command.OnChosen([&session, &action, flags] {
    action = [&session, flags] { return Trace(session, *flags); };
  });
}

}  // namespace parplan::planctl
