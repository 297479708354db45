// `planctl shape`: how many devices a job can and should ask for, before it has
// any.

#include <memory>
#include <string>

#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/error.h"
#include "base/quantity_text.h"
#include "base/status_macros.h"
#include "clients/cpp/plan_client.h"
#include "clients/planctl/commands/command.h"
#include "clients/planctl/commands/question_flags.h"
#include "clients/planctl/commands/server_flags.h"
#include "clients/planctl/commands/shape_request.h"
#include "clients/planctl/view/duration_seconds.h"
#include "clients/planctl/view/text_layout.h"

namespace parplan::planctl {
namespace {

struct ShapeFlags {
  QuestionFlags question;
  ServerFlags server;
  int min_device_count = 1;
  int max_device_count = 0;
};

std::string ShapesText(const v1::ShapePlanResponse& response) {
  // Columns at which the last one starts, with and without a plan.
  constexpr int kPlanColumn = 56;
  constexpr int kReasonColumn = 11;
  std::string text = absl::StrFormat("  %7s %10s %12s %10s %9s  %s\n", "devices", "samples/s",
                                     "per device", "peak", "same node", "plan");
  for (int i = 0; i < response.options_size(); ++i) {
    const v1::ShapeOption& option = response.options(i);
    if (!option.feasible()) {
      absl::StrAppendFormat(&text, "  %7d  %s\n", option.device_count(),
                            Wrap(option.infeasible_reason(), kReasonColumn));
      continue;
    }
    const bool best =
        response.has_recommended_option_index() && response.recommended_option_index() == i;
    absl::StrAppendFormat(&text, "%s %7d %10.2f %12.2f %10s %9d  %s\n", best ? "*" : " ",
                          option.device_count(), option.samples_per_second(),
                          option.samples_per_second() / option.device_count(),
                          SizeText(Bytes::Of(option.peak_memory_bytes())),
                          option.same_node_device_count(), WrapGist(option.gist(), kPlanColumn));
  }
  if (!response.infeasible_reason().empty()) {
    absl::StrAppend(&text, Wrap(response.infeasible_reason(), 0), "\n");
  } else {
    text += "* what to ask for\n";
  }
  return text;
}

std::string JsonText(const v1::ShapePlanResponse& response) {
  nlohmann::ordered_json object;
  object["options"] = nlohmann::ordered_json::array();
  for (const v1::ShapeOption& option : response.options()) {
    nlohmann::ordered_json row;
    row["offer_index"] = option.offer_index();
    row["device_count"] = option.device_count();
    row["feasible"] = option.feasible();
    if (option.feasible()) {
      row["step_seconds"] = SecondsOf(option.step_duration());
      row["samples_per_second"] = option.samples_per_second();
      row["peak_memory_bytes"] = option.peak_memory_bytes();
      row["pipeline_parallel_degree"] = option.pipeline_parallel_degree();
      row["gist"] = option.gist();
      row["same_node_device_count"] = option.same_node_device_count();
      row["same_switch_device_count"] = option.same_switch_device_count();
      row["confidence"] = absl::AsciiStrToLower(
          v1::Confidence_Name(option.confidence()).substr(sizeof("CONFIDENCE_") - 1));
    } else {
      row["infeasible_reason"] = option.infeasible_reason();
      row["smallest_device_memory_bytes"] = option.smallest_device_memory_bytes();
    }
    object["options"].push_back(std::move(row));
  }
  if (response.has_recommended_option_index()) {
    object["recommended_option_index"] = response.recommended_option_index();
  }
  if (!response.infeasible_reason().empty()) {
    object["infeasible_reason"] = response.infeasible_reason();
  }
  object["from_cache"] = response.from_cache();
  return object.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

absl::Status Shape(const Session& session, const ShapeFlags& flags) {
  PARPLAN_ASSIGN_OR_RETURN(const v1::PlanSpec spec, flags.question.ReadSpec());
  const v1::ShapePlanRequest request = ShapeRequestOf(spec, [&flags](const v1::NodeGroup& group) {
    return DeviceRange{flags.min_device_count, flags.max_device_count > 0
                                                   ? flags.max_device_count
                                                   : group.node_count() * group.devices_per_node()};
  });
  PARPLAN_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel, flags.server.Connect());
  PARPLAN_ASSIGN_OR_RETURN(const v1::ShapePlanResponse response,
                           PlanClient(channel).ShapePlan(request, flags.server.Call()));
  return Print(session, session.json ? JsonText(response) : ShapesText(response));
}

}  // namespace

void AddShapeCommand(Command app, const Session& session, Action& action) {
  auto flags = std::make_shared<ShapeFlags>();
  Command command =
      app.AddCommand("shape", "Say how many devices of a cluster a job can and should ask for");
  command.Footer(
      "Every node group of the cluster file is an offer.\nExample:\n"
      "  planctl shape --model m.model.json --cluster c.cluster.json --batch 64 --max-devices 64");
  flags->question.AddTo(command, /*with_planner=*/true);
  // A shape rests on what the server has.
  command.RemoveOption("--profile");
  command.RemoveOption("--calibration");
  command.AddOption("--min-devices", flags->min_device_count, "Fewest devices [1]")
      .Check(shell::Positive());
  command
      .AddOption("--max-devices", flags->max_device_count,
                 "Most devices [those of the cluster file]")
      .Check(shell::Positive());
  flags->server.AddTo(command);
  command.OnChosen([&session, &action, flags] {
    action = [&session, flags] { return Shape(session, *flags); };
  });
}

}  // namespace parplan::planctl
