#include "server/access/caller.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace parplan {
namespace {

// Returns the roles that may use a method: `planner (own), reader`.
std::string NeededRoles(const AccessRow& row) {
  std::string text;
  for (int i = 0; i < kRoleCount; ++i) {
    const Role role = static_cast<Role>(i);
    if (row.of(role) == Access::kNone) continue;
    absl::StrAppend(&text, text.empty() ? "" : ", ", RoleName(role),
                    row.of(role) == Access::kOwn ? " (own)" : "");
  }
  return text;
}

}  // namespace

bool IdSet::Contains(absl::string_view id) const {
  return has_all || std::find(ids.begin(), ids.end(), id) != ids.end();
}

std::shared_ptr<const Caller> Caller::Unrestricted(Identity identity) {
  return std::shared_ptr<const Caller>(new Caller(std::move(identity), {}, false));
}

const std::shared_ptr<const Caller>& Caller::Itself() {
  static const auto& itself =
      *new std::shared_ptr<const Caller>(Unrestricted(Identity::Anonymous()));
  return itself;
}

Caller::Caller(Identity identity, std::vector<HeldRole> roles, bool is_restricted)
    : identity_(std::move(identity)), roles_(std::move(roles)), is_restricted_(is_restricted) {
  if (is_restricted_) owner_ = identity_.text();
}

std::shared_ptr<const Caller> Caller::Refused(absl::Status why) {
  const auto caller = std::make_shared<Caller>(Identity::Unnamed(), std::vector<HeldRole>());
  caller->refusal_ = std::move(why);
  return caller;
}

std::string Caller::RolesIn(absl::string_view cluster) const {
  std::string names;
  for (int i = 0; i < kRoleCount; ++i) {
    const Role role = static_cast<Role>(i);
    if (Holds(role, cluster)) absl::StrAppend(&names, names.empty() ? "" : " ", RoleName(role));
  }
  return names;
}

bool Caller::Holds(Role role, absl::string_view cluster) const {
  return std::any_of(roles_.begin(), roles_.end(), [&](const HeldRole& held) {
    return held.role == role && (cluster.empty() || held.clusters.Contains(cluster));
  });
}

bool Caller::ExecutesJob(absl::string_view cluster, absl::string_view job_id) const {
  return std::any_of(roles_.begin(), roles_.end(), [&](const HeldRole& held) {
    return held.role == Role::kExecutor && held.clusters.Contains(cluster) && !job_id.empty() &&
           held.jobs.Contains(job_id);
  });
}

Access Caller::AccessTo(absl::string_view method, absl::string_view cluster) const {
  const AccessRow& row = RowOf(method);
  if (!is_restricted_ || row.is_public) return Access::kAny;
  Access most = Access::kNone;
  for (const HeldRole& held : roles_) {
    if (!cluster.empty() && !held.clusters.Contains(cluster)) continue;
    most = std::max(most, row.of(held.role));
  }
  return most;
}

std::optional<OwnPlans> Caller::PlansFor(absl::string_view method,
                                         absl::string_view cluster) const {
  const AccessRow& row = RowOf(method);
  if (!is_restricted_ || AccessTo(method, cluster) == Access::kAny) return std::nullopt;
  OwnPlans scope;
  for (const HeldRole& held : roles_) {
    if (row.of(held.role) != Access::kOwn || !held.clusters.Contains(cluster)) continue;
    if (held.role == Role::kPlanner) scope.owner = owner_;
    if (held.role != Role::kExecutor) continue;
    if (held.jobs.has_all) return std::nullopt;
    scope.job_ids.insert(scope.job_ids.end(), held.jobs.ids.begin(), held.jobs.ids.end());
  }
  return scope;
}

bool Caller::Allows(const HeldRole& held, const AccessRow& row, const Resource& resource) const {
  const Access access = row.of(held.role);
  if (access == Access::kNone) return false;
  if (resource.cluster.empty()) return true;
  if (!held.clusters.Contains(resource.cluster)) return false;
  if (access == Access::kAny) return true;
  switch (held.role) {
    case Role::kAgent:
      return !resource.node.empty() && held.nodes.Contains(resource.node);
    case Role::kPlanner:
      return !resource.owner.empty() && resource.owner == owner_;
    case Role::kExecutor:
      return held.jobs.Contains(resource.job_id);
    case Role::kReader:
    case Role::kOperator:
      return false;
  }
  return false;
}

absl::Status Caller::Check(absl::string_view method, const Resource& resource) const {
  if (!refusal_.ok()) return refusal_;
  const AccessRow& row = RowOf(method);
  if (!is_restricted_ || row.is_public) return absl::OkStatus();
  const bool is_allowed = std::any_of(roles_.begin(), roles_.end(), [&](const HeldRole& held) {
    return Allows(held, row, resource);
  });
  return is_allowed ? absl::OkStatus() : Refuse(method, resource);
}

std::string Caller::AllowingRole(absl::string_view method, const Resource& resource) const {
  const AccessRow& row = RowOf(method);
  for (const HeldRole& held : roles_) {
    if (Allows(held, row, resource)) return std::string(RoleName(held.role));
  }
  return "";
}

absl::Status Caller::Refuse(absl::string_view method, const Resource& resource) const {
  const std::string needed = NeededRoles(RowOf(method));
  const std::string held = RolesIn(resource.cluster);
  return MakeError(
      absl::StatusCode::kPermissionDenied, Reason::kRoleRequired,
      absl::StrCat(method, resource.name.empty() ? "" : absl::StrCat(" on `", resource.name, "`"),
                   " needs one of the roles ", needed, "; `", identity_.text(), "` holds ",
                   held.empty() ? "none" : held,
                   " there (`authorization` in the configuration of the server grants roles)"),
      {{"method", std::string(method)},
       {"resource", resource.name},
       {"identity", identity_.text()},
       {"heldRoles", held},
       {"neededRoles", needed}});
}

}  // namespace parplan
