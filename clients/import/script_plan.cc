#include "clients/import/script_plan.h"

#include "base/error.h"

namespace parplan {

RecomputeLevel AgreedRecomputation(std::optional<bool> of_script, std::optional<bool> of_file,
                                   const std::function<void(absl::string_view rule)>& fail,
                                   std::vector<std::string>* notes) {
  if (of_script.has_value() && of_file.has_value() && *of_script != *of_file) {
    fail("contradicts what the script does");
  }
  if (!of_script.has_value() && !of_file.has_value()) {
    notes->push_back("No layer is recomputed: the script decides, and the file is silent.");
  }
  const bool recomputes = of_script.value_or(of_file.value_or(false));
  return recomputes ? RecomputeLevel::kFull : RecomputeLevel::kNone;
}

absl::StatusOr<Plan> RunnablePlanOf(const NamedText& file, const UniformPlan& facts,
                                    const ModelSpec& model, ScriptExporter exporter) {
  Plan plan = PlanOf(facts, model);
  const auto files = exporter(plan, model, ExportFacts());
  if (!files.ok()) {
    return ImportError(Reason::kSpecInvalid, file.name, "", files.status().message());
  }
  return plan;
}

}  // namespace parplan
