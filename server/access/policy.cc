#include "server/access/policy.h"

#include <cstddef>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "proto/wire/resource_name.h"

namespace parplan {
namespace {

constexpr char kAll[] = "*";
constexpr size_t kMaxGrantedJobBytes = 128;

bool IsJob(absl::string_view id) { return !id.empty() && id.size() <= kMaxGrantedJobBytes; }

// Reads a list of ids. It must be absent exactly if the role has no use for it or the identity has
// the placeholder.
absl::StatusOr<IdSet> ReadIds(const std::vector<std::string>& given, bool is_used, bool is_captured,
                              bool (*is_id)(absl::string_view), absl::string_view placeholder,
                              absl::string_view role, absl::string_view field) {
  IdSet set;
  if (!is_used && (is_captured || !given.empty())) {
    return FieldError(Reason::kSpecInvalid, field,
                      absl::StrCat("must be absent, as ", placeholder, " of identities: role ",
                                   role, " is for a whole cluster"));
  }
  if (!is_used) return set;
  if (is_captured && !given.empty()) {
    return FieldError(Reason::kSpecInvalid, field,
                      absl::StrCat("must be absent if the identity has ", placeholder));
  }
  if (!is_captured && given.empty()) {
    return FieldError(Reason::kSpecInvalid, field,
                      absl::StrCat("is required: name them, `*` for all, or write ", placeholder,
                                   " in the identity"));
  }
  for (const std::string& id : given) {
    if (id == kAll) {
      set.has_all = true;
    } else if (!is_id(id)) {
      return FieldError(Reason::kSpecInvalid, field, absl::StrCat("`", id, "` is no id"));
    } else {
      set.ids.push_back(id);
    }
  }
  if (set.has_all) set.ids.clear();
  return set;
}

}  // namespace

Policy Policy::AllowAll() {
  Policy policy;
  policy.allows_all_ = true;
  return policy;
}

absl::StatusOr<std::vector<Policy::Rule>> Policy::ReadGrant(const Grant& grant,
                                                            absl::string_view field) {
  const auto at = [field](absl::string_view name) { return absl::StrCat(field, ".", name); };
  const std::optional<Role> role = RoleOfName(grant.role);
  if (!role.has_value()) {
    return FieldError(Reason::kSpecInvalid, at("role"),
                      absl::StrCat("is `", grant.role,
                                   "`; must be agent, planner, executor, reader or operator"));
  }
  if (grant.identities.empty()) {
    return FieldError(Reason::kSpecInvalid, at("identities"), "is required");
  }
  std::vector<Rule> rules;
  for (const std::string& identity : grant.identities) {
    PARPLAN_ASSIGN_OR_RETURN(IdentityPattern pattern,
                             IdentityPattern::Create(identity, at("identities")));
    HeldRole held;
    held.role = *role;
    PARPLAN_ASSIGN_OR_RETURN(held.clusters,
                             ReadIds(grant.clusters, true, pattern.has_cluster(), &IsResourceId,
                                     "{cluster}", grant.role, at("clusters")));
    PARPLAN_ASSIGN_OR_RETURN(
        held.nodes, ReadIds(grant.nodes, *role == Role::kAgent, pattern.has_node(), &IsNodeId,
                            "{node}", grant.role, at("nodes")));
    PARPLAN_ASSIGN_OR_RETURN(
        held.jobs, ReadIds(grant.jobs, *role == Role::kExecutor, pattern.has_job(), &IsJob, "{job}",
                           grant.role, at("jobs")));
    rules.push_back({std::move(pattern), std::move(held)});
  }
  return rules;
}

absl::StatusOr<Policy> Policy::Create(absl::Span<const Grant> grants, absl::string_view field) {
  Policy policy;
  for (size_t i = 0; i < grants.size(); ++i) {
    PARPLAN_ASSIGN_OR_RETURN(std::vector<Rule> rules,
                             ReadGrant(grants[i], absl::StrCat(field, "[", i, "]")));
    for (Rule& rule : rules) policy.rules_.push_back(std::move(rule));
  }
  if (policy.rules_.size() > kMaxPatternCount) {
    return FieldError(Reason::kSpecInvalid, field,
                      absl::StrCat("must have at most ", kMaxPatternCount,
                                   " identities; one with a placeholder stands for many"));
  }
  return policy;
}

std::shared_ptr<const Caller> Policy::CallerOf(const Identity& identity) const {
  if (allows_all_) return Caller::Unrestricted(identity);
  std::vector<HeldRole> roles;
  for (const Rule& rule : rules_) {
    const std::optional<IdentityPattern::Captures> captures = rule.pattern.Match(identity);
    if (!captures.has_value()) continue;
    HeldRole held = rule.role;
    if (captures->cluster.has_value()) held.clusters.ids = {*captures->cluster};
    if (captures->node.has_value()) held.nodes.ids = {*captures->node};
    if (captures->job.has_value()) held.jobs.ids = {*captures->job};
    roles.push_back(std::move(held));
  }
  return std::make_shared<const Caller>(identity, std::move(roles));
}

}  // namespace parplan
