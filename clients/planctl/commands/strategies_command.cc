// `planctl strategies`: the decision tree of the paper planners. Needs no server and no files.

#include <algorithm>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "clients/planctl/commands/command.h"
#include "clients/planctl/files.h"
#include "clients/planctl/view/strategies_view.h"
#include "planner/model/planning_problem.h"

namespace parplan::planctl {
namespace {

// The largest number of devices, 262,144, has 19,792 ordered paths; 221,760 have the most, 977,716,
// which take 0.8 s in the preset `batches`.
struct StrategiesFlags {
  StrategiesQuestion question;
  int max_tensor_parallel = kMaxDeviceCount;
  int pipeline = 0;
  bool no_recompute = false;
  std::string svg_path;
};

absl::Status ListStrategies(const Session& session, const StrategiesFlags& flags) {
  StrategiesQuestion question = flags.question;
  question.recompute = !flags.no_recompute;
  question.limits.max_tensor_parallel_degree = flags.max_tensor_parallel;
  if (flags.pipeline > 0) {
    if (question.device_count % flags.pipeline != 0) {
      return FieldError(Reason::kSpecInvalid, "--pipeline",
                        absl::StrCat("must divide the ", question.device_count, " devices"));
    }
    question.pipeline_parallel_degree = flags.pipeline;
  }
  // Any other limit leaves data parallelism over all devices.
  const auto is_power_of_two = [](int count) { return (count & (count - 1)) == 0; };
  if (question.limits.only_powers_of_two &&
      !(is_power_of_two(question.device_count) && is_power_of_two(std::max(flags.pipeline, 1)))) {
    return FieldError(Reason::kSpecInvalid, "--powers-of-two",
                      absl::StrCat("leaves no strategy, since ", question.device_count,
                                   " devices are not a power of two; leave the flag out"));
  }
  if (!flags.svg_path.empty()) {
    PARPLAN_RETURN_IF_ERROR(WriteFile(flags.svg_path, StrategiesSvg(question)));
    Note(session, absl::StrCat("wrote ", flags.svg_path));
    if (flags.svg_path == "-") return absl::OkStatus();
  }
  return Print(session, session.json ? StrategiesJson(question) : StrategiesText(question));
}

}  // namespace

void AddStrategiesCommand(Command app, const Session& session, Action& action) {
  auto flags = std::make_shared<StrategiesFlags>();
  Command command =
      app.AddCommand("strategies", "List the decision tree of the paper planners, and its rules");
  command.Footer(
      "The tree of galvatron, galvatron-base and galvatron-bmw before a model, a batch or a target "
      "takes strategies away; exact searches more (docs/search.md).\nExample:\n"
      "  planctl strategies --devices 8 --svg tree.svg");
  command.AddOption("--devices", flags->question.device_count, "Number of devices [8]")
      .Check(shell::Between(1, kMaxDeviceCount));
  command.AddOption("--pipeline", flags->pipeline, "Only this pipeline degree [all]")
      .Check(shell::Between(1, kMaxDeviceCount));
  command
      .AddOption("--max-tensor-parallel", flags->max_tensor_parallel,
                 "Largest tensor-parallel degree; questions have a node's devices [no limit]")
      .Check(shell::Between(1, kMaxDeviceCount));
  command.AddFlag("--powers-of-two", flags->question.limits.only_powers_of_two,
                  "Only degrees that are powers of two, as in the authors' code");
  command.AddFlag("--no-recompute", flags->no_recompute, "Without recomputation");
  command.AddOption("--svg", flags->svg_path, "Also draw the tree into this file").TypeName("FILE");
  command.OnChosen([&session, &action, flags] {
    action = [&session, flags] { return ListStrategies(session, *flags); };
  });
}

}  // namespace parplan::planctl
