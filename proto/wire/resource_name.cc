#include "proto/wire/resource_name.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/types/span.h"
#include "base/error.h"
#include "base/status_macros.h"

namespace parplan {
namespace {

constexpr size_t kMaxIdSize = 63;
constexpr size_t kMaxNodeIdSize = 253;
constexpr absl::string_view kNodes = "nodes";

bool IsIdCharacter(char c) { return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '-'; }

bool IsNodeIdCharacter(char c) {
  return IsIdCharacter(c) || absl::ascii_isupper(c) || c == '.' || c == '_';
}

// Returns `{node}` for `nodes`.
std::string Placeholder(absl::string_view collection) {
  return absl::StrCat("{", collection.substr(0, collection.size() - 1), "}");
}

// Returns the rules of the ids in a name, those of nodes apart, as the end of a sentence.
std::string IdRules(absl::Span<const absl::string_view> collections) {
  constexpr absl::string_view kStart = ", starting with a letter or digit";
  std::vector<std::string> plain;
  std::string rules;
  for (const absl::string_view collection : collections) {
    if (collection == kNodes) {
      rules = absl::StrCat(", and {node} is 1 to ", kMaxNodeIdSize,
                           " letters, digits, `-`, `.` and `_`", kStart);
    } else {
      plain.push_back(Placeholder(collection));
    }
  }
  return absl::StrCat(absl::StrJoin(plain, " and "), plain.size() == 1 ? " is" : " are each",
                      " 1 to ", kMaxIdSize, " lower-case letters, digits and `-`", kStart, rules);
}

// Returns the ids of `name`, in which the words of `collections` alternate with ids.
absl::StatusOr<std::vector<std::string>> ParseIds(absl::string_view name, absl::string_view field,
                                                  absl::Span<const absl::string_view> collections) {
  const std::vector<absl::string_view> parts = absl::StrSplit(name, '/');
  bool good = parts.size() == 2 * collections.size();
  std::vector<std::string> ids;
  for (size_t i = 0; good && i < collections.size(); ++i) {
    const absl::string_view id = parts[2 * i + 1];
    good = parts[2 * i] == collections[i] &&
           (collections[i] == kNodes ? IsNodeId(id) : IsResourceId(id));
    ids.emplace_back(id);
  }
  if (good) return ids;
  const std::string form =
      absl::StrJoin(collections, "/", [](std::string* out, absl::string_view collection) {
        absl::StrAppend(out, collection, "/", Placeholder(collection));
      });
  return FieldError(Reason::kSpecInvalid, field,
                    absl::StrCat("must have the form `", form, "`, where ", IdRules(collections)));
}

}  // namespace

bool IsResourceId(absl::string_view id) {
  return !id.empty() && id.size() <= kMaxIdSize && id[0] != '-' &&
         std::all_of(id.begin(), id.end(), IsIdCharacter);
}

bool IsNodeId(absl::string_view id) {
  return !id.empty() && id.size() <= kMaxNodeIdSize && absl::ascii_isalnum(id[0]) &&
         std::all_of(id.begin(), id.end(), IsNodeIdCharacter);
}

absl::StatusOr<ClusterName> ClusterName::Parse(absl::string_view name, absl::string_view field) {
  PARPLAN_ASSIGN_OR_RETURN(std::vector<std::string> ids, ParseIds(name, field, {"clusters"}));
  return ClusterName{ids[0]};
}

std::string ClusterName::ToString() const { return absl::StrCat("clusters/", cluster); }

absl::StatusOr<NodeName> NodeName::Parse(absl::string_view name, absl::string_view field) {
  PARPLAN_ASSIGN_OR_RETURN(std::vector<std::string> ids,
                           ParseIds(name, field, {"clusters", "nodes"}));
  return NodeName{ids[0], ids[1]};
}

std::string NodeName::ToString() const {
  return absl::StrCat("clusters/", cluster, "/nodes/", node);
}

absl::StatusOr<ProfileName> ProfileName::Parse(absl::string_view name, absl::string_view field) {
  PARPLAN_ASSIGN_OR_RETURN(std::vector<std::string> ids,
                           ParseIds(name, field, {"clusters", "nodes", "profiles"}));
  return ProfileName{ids[0], ids[1], ids[2]};
}

std::string ProfileName::ToString() const {
  return absl::StrCat(parent().ToString(), "/profiles/", profile);
}

absl::StatusOr<CalibrationName> CalibrationName::Parse(absl::string_view name,
                                                       absl::string_view field) {
  PARPLAN_ASSIGN_OR_RETURN(std::vector<std::string> ids,
                           ParseIds(name, field, {"clusters", "calibrations"}));
  return CalibrationName{ids[0], ids[1]};
}

std::string CalibrationName::ToString() const {
  return absl::StrCat("clusters/", cluster, "/calibrations/", calibration);
}

absl::StatusOr<PlanName> PlanName::Parse(absl::string_view name, absl::string_view field) {
  PARPLAN_ASSIGN_OR_RETURN(std::vector<std::string> ids,
                           ParseIds(name, field, {"clusters", "plans"}));
  return PlanName{ids[0], ids[1]};
}

std::string PlanName::ToString() const {
  return absl::StrCat("clusters/", cluster, "/plans/", plan);
}

absl::StatusOr<ExecutionName> ExecutionName::Parse(absl::string_view name,
                                                   absl::string_view field) {
  PARPLAN_ASSIGN_OR_RETURN(std::vector<std::string> ids,
                           ParseIds(name, field, {"clusters", "plans", "executions"}));
  return ExecutionName{ids[0], ids[1], ids[2]};
}

std::string ExecutionName::ToString() const {
  return absl::StrCat(parent().ToString(), "/executions/", execution);
}

}  // namespace parplan
