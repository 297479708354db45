#include "clients/import/megatron_graphs.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace parplan {
namespace {

constexpr absl::string_view kGraphKind = "cuda-graph-impl";
constexpr absl::string_view kGraphScope = "cuda-graph-scope";
// The name of the scope in newer releases.
constexpr absl::string_view kGraphModules = "cuda-graph-modules";
// The name of the kind `transformer_engine` in older releases, which newer ones still take.
constexpr absl::string_view kExternalGraphs = "external-cuda-graph";
// That of the kind `local`.
constexpr absl::string_view kLocalGraphs = "enable-cuda-graph";
constexpr absl::string_view kPaddedExperts = "moe-pad-expert-input-to-capacity";

// Returns whether the scope is a whole layer, which is the default, or a whole step.
bool IsWholeScope(const ArgumentList& arguments) {
  bool is_whole = true;
  const std::string names =
      absl::StrCat(arguments.Text(kGraphScope, ""), " ", arguments.Text(kGraphModules, ""));
  for (const absl::string_view name : absl::StrSplit(names, ' ', absl::SkipEmpty())) {
    if (name == "full" || name == "full_iteration") return true;
    is_whole = false;
  }
  return is_whole;
}

}  // namespace

absl::string_view FindMegatronWholeGraphs(const ArgumentList& arguments) {
  const std::string kind = arguments.Text(kGraphKind, "none");
  if (kind == "full_iteration") return kGraphKind;
  if (!IsWholeScope(arguments)) return "";
  if (kind != "none") return kGraphKind;
  if (arguments.Has(kLocalGraphs)) return kLocalGraphs;
  return arguments.Has(kExternalGraphs) ? kExternalGraphs : "";
}

std::vector<std::string> NotesOnMegatronLaunches(const ArgumentList& arguments, bool has_experts) {
  const absl::string_view graphs = FindMegatronWholeGraphs(arguments);
  const bool has_graphs = arguments.Text(kGraphKind, "none") != "none" ||
                          arguments.Has(kExternalGraphs) || arguments.Has(kLocalGraphs);
  std::vector<std::string> notes;
  std::vector<std::string> others;
  for (const absl::string_view name :
       {kPaddedExperts, kGraphKind, kExternalGraphs, kLocalGraphs, kGraphScope, kGraphModules}) {
    if (!arguments.Has(name) || (name != kPaddedExperts && !has_graphs)) continue;
    if (has_experts && (name == kPaddedExperts || name == graphs)) {
      notes.push_back(
          absl::StrCat("The wait for expert counts is priced although --", name, " avoids it."));
    } else {
      others.push_back(absl::StrCat("--", name));
    }
  }
  if (!others.empty()) {
    notes.push_back(
        absl::StrCat("Read, and not part of the prediction: ", absl::StrJoin(others, ", "), "."));
  }
  return notes;
}

}  // namespace parplan
