#include "clients/import/megatron_states.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"

namespace parplan {
namespace {

constexpr absl::string_view kSwitch = "use-precision-aware-optimizer";

// A format of a state, and its bytes.
struct Format {
  absl::string_view name;
  int bytes;
};

constexpr Format kFormats[] = {{"fp32", 4}, {"fp16", 2}, {"bf16", 2}, {"fp8", 1}};

// Returns the bytes of the format that the argument gives; 4 if it is absent. `allowed` are those
// that the program takes.
absl::StatusOr<int> BytesOf(const ArgumentList& arguments, absl::string_view argument,
                            const std::vector<absl::string_view>& allowed) {
  const std::string name = arguments.Text(argument, "fp32");
  if (std::find(allowed.begin(), allowed.end(), name) == allowed.end()) {
    return arguments.Fault(argument, absl::StrCat("must be one of ", absl::StrJoin(allowed, ", ")));
  }
  if (name != "fp32" && !arguments.Has(kSwitch)) {
    return arguments.Fault(argument, absl::StrCat("must be fp32 without --", kSwitch));
  }
  const auto* const format =
      std::find_if(std::begin(kFormats), std::end(kFormats),
                   [&name](const Format& entry) { return entry.name == name; });
  return format->bytes;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> NotesOnMegatronStates(const ArgumentList& arguments) {
  PARPLAN_ASSIGN_OR_RETURN(const int gradient,
                           BytesOf(arguments, "main-grads-dtype", {"fp32", "bf16"}));
  PARPLAN_ASSIGN_OR_RETURN(int master, BytesOf(arguments, "main-params-dtype", {"fp32", "fp16"}));
  const std::vector<absl::string_view> of_moments = {"fp32", "fp16", "bf16", "fp8"};
  PARPLAN_ASSIGN_OR_RETURN(const int mean, BytesOf(arguments, "exp-avg-dtype", of_moments));
  PARPLAN_ASSIGN_OR_RETURN(const int variance, BytesOf(arguments, "exp-avg-sq-dtype", of_moments));
  std::vector<std::string> notes;
  if (!arguments.Has(kSwitch)) return notes;
  if (arguments.Text("optimizer", "adam") != "adam") {
    return arguments.Fault(kSwitch, "needs --optimizer adam");
  }
  if (!arguments.Has("use-distributed-optimizer") && !arguments.Has("use-megatron-fsdp")) {
    return arguments.Fault(kSwitch, "needs --use-distributed-optimizer");
  }
  // Beside parameters in bf16 the optimizer keeps the lower 16 bits of a master alone, unless
  // products in 8 bits with other than delayed scales need the whole one (`OptimizerConfig` of core
  // 0.16.1: `store_param_remainders`).
  const bool has_narrow_products = arguments.Has("fp8-format") || arguments.Has("fp4-format");
  const bool has_delayed_scales =
      arguments.Has("fp8-format") && arguments.Text("fp8-recipe", "delayed") == "delayed";
  const bool keeps_remainders =
      master == 4 && arguments.Has("bf16") && (!has_narrow_products || has_delayed_scales);
  if (keeps_remainders) master = 2;
  const int states = master + mean + variance;
  constexpr int kPricedStates = 12;
  constexpr int kPricedGradient = 4;
  if (states == kPricedStates && gradient == kPricedGradient) return notes;
  std::string kept = absl::StrCat(states, " bytes of states for a parameter (master ", master,
                                  keeps_remainders ? ", with Transformer Engine 2.1 or later" : "",
                                  ", moments ", mean, " and ", variance, ")");
  if (gradient != kPricedGradient) absl::StrAppend(&kept, " and ", gradient, " of its gradient");
  notes.push_back(absl::StrCat(
      "--", kSwitch, " keeps ", kept, "; the prediction has ", kPricedStates, " and ",
      kPricedGradient,
      ", so it says more memory than the run takes, and at least as much time of the step of the "
      "optimizer",
      gradient == kPricedGradient ? "." : " and of the reduction of gradients."));
  return notes;
}

}  // namespace parplan
