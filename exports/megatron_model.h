// Models and divisions of their layers as arguments of Megatron-LM. Only megatron_plan_export.cc
// uses it.

#ifndef PARPLAN_EXPORTS_MEGATRON_MODEL_H_
#define PARPLAN_EXPORTS_MEGATRON_MODEL_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "exports/uniform_plan.h"
#include "planner/model/model_spec.h"

namespace parplan {

// Returns the error of `RefusePlan` (refusal.h) for Megatron-LM.
absl::Status RefuseMegatron(absl::string_view field, absl::string_view reason);

// The lines of `megatron.args` in their order: one argument a line, `--name` or `--name=value`.
class MegatronArguments {
 public:
  // Adds `--name`, or `--name=value` with the value as `absl::StrCat` writes it.
  void Add(absl::string_view name) { lines_.push_back(absl::StrCat("--", name)); }
  template <typename Value>
  void Add(absl::string_view name, const Value& value) {
    lines_.push_back(absl::StrCat("--", name, "=", value));
  }
  // Adds an argument of several values, which `lines` holds one a line, without a line feed at its
  // end.
  void AddList(absl::string_view name, absl::string_view lines) {
    Add(name);
    lines_.emplace_back(lines);
  }
  // Adds `--name` if `condition` is true.
  void AddIf(bool condition, absl::string_view name) {
    if (condition) Add(name);
  }
  // Returns all lines in the order in which they were added, each ended by a line feed.
  std::string Text() const { return absl::StrCat(absl::StrJoin(lines_, "\n"), "\n"); }

 private:
  std::vector<std::string> lines_;
};

// The decoder layers of a model in the words of Megatron-LM.
struct MegatronModel {
  // The first decoder layer, the first one without experts and the first one with them; the latter
  // two are null if there is no such layer. Layers for further tokens do not count here.
  const LayerDefinition* any = nullptr;
  const LayerDefinition* dense = nullptr;
  const LayerDefinition* with_experts = nullptr;
  // [decoder layer, from 0] Whether each decoder layer that predicts the next token has experts,
  // and a window.
  std::vector<bool> has_experts;
  std::vector<bool> has_window;
  // Tokens of the windows, all of one size; 0 without any. A window that is no shorter than the
  // sequence is none.
  int window = 0;
};

// Returns INVALID_ARGUMENT (SPEC_INVALID) with layer and reason for decoder layers that differ in
// more than experts and windows, have no feed-forward part, have windows of several sizes or attend
// within chunks; for layers of further tokens that are unlike the last layer before them; and for
// further tokens if only some layers have windows. REQUIRES, unchecked: `RequireDecoderModel`
// (exports/uniform_plan.h) is OK for the model. The result points into `model`, which must outlive
// it.
absl::StatusOr<MegatronModel> MegatronModelOf(const ModelSpec& model);

// Appends the arguments of the model, its precision and its optimizer to `arguments`. A precision
// other than bf16 and fp16 has no argument. `layers` is that of `MegatronModelOf(model)`.
void AddMegatronModel(const ModelSpec& model, const MegatronModel& layers,
                      MegatronArguments* arguments);

// Returns the letters of each stage, as `FormatMegatronLayout` (megatron_layout.h) takes them.
// REQUIRES, unchecked, here and below: `plan` is one of `UniformPlanOf` for `model`.
std::vector<std::string> MegatronStages(const UniformPlan& plan, const ModelSpec& model);

// Checks that all layers for further tokens are in one stage, and that no later virtual stage is on
// its device; a model without such layers passes. INVALID_ARGUMENT (SPEC_INVALID) otherwise, which
// names the first stage that breaks this (`stages[2]`, from 0).
absl::Status CheckFurtherTokens(const UniformPlan& plan, const ModelSpec& model);

}  // namespace parplan

#endif  // PARPLAN_EXPORTS_MEGATRON_MODEL_H_
