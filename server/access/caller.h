// A caller with its roles: decides from the table whether it may make a call. Pure. `Authorizer`
// finds it, `CallGuard` checks RPCs with it, and `PlanCore` and `AgentCore` ask it for more.
//
//   const Caller& caller = *context->caller();
//   PARPLAN_RETURN_IF_ERROR(caller.Check("UploadProfile", {.name = parent.ToString(),
//                                                          .cluster = parent.cluster,
//                                                          .node = parent.node}));

#ifndef PARPLAN_SERVER_ACCESS_CALLER_H_
#define PARPLAN_SERVER_ACCESS_CALLER_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/access/access_table.h"
#include "server/access/identity.h"

namespace parplan {

// Some ids, or all of them. The ids have no order of their own, and one may be there twice; sets
// are equal only if they list the same ids in the same order.
struct IdSet {
  // Whether every id is in the set.
  bool has_all = false;
  std::vector<std::string> ids;  // Empty if `has_all`.

  // Returns whether `id` is one of them; true of every id if `has_all`.
  bool Contains(absl::string_view id) const;
  friend bool operator==(const IdSet&, const IdSet&) = default;
};

// A role as a caller holds it. A caller may hold one role several times, with other clusters, nodes
// or jobs.
struct HeldRole {
  Role role = Role::kReader;
  IdSet clusters;
  IdSet nodes;  // An agent's own; empty for the others.
  IdSet jobs;   // An executor's own; empty for the others.
  friend bool operator==(const HeldRole&, const HeldRole&) = default;
};

// The subject of a call. Fields that the subject does not have are empty. It is an agent's own by
// its node, a planner's own by `owner`, and an executor's own by its job. A resource without a node
// belongs to no agent, one without an owner to no planner, and one without a job only to executors
// of all jobs. Readers and operators own nothing.
struct Resource {
  // Name in the request, for messages.
  std::string name;
  // Id of the cluster, without `clusters/`.
  std::string cluster;
  // Id of the node of a profile or agent.
  std::string node;
  // Whoever asked for the plan (`Caller::owner`), and its job.
  std::string owner;
  std::string job_id;
};

// Plans that are a caller's own: those it asked for (`Caller::owner`), unless that is empty, and
// those of the jobs.
struct OwnPlans {
  std::string owner;
  std::vector<std::string> job_ids;
};

// Immutable, so that any thread may use it.
class Caller {
 public:
  // Returns a caller who may do everything: with a server that does not restrict callers, each is
  // one.
  static std::shared_ptr<const Caller> Unrestricted(Identity identity);
  // Returns the unrestricted caller that stands for this program itself; it lives as long as the
  // process.
  static const std::shared_ptr<const Caller>& Itself();

  // A caller who may do what `roles` allow.
  Caller(Identity identity, std::vector<HeldRole> roles)
      : Caller(std::move(identity), std::move(roles), true) {}

  // Returns a restricted caller without roles, whose identity is `unnamed` and who may do nothing,
  // because what it proves itself with is refused. `why`, an error, is the answer of `Check`.
  static std::shared_ptr<const Caller> Refused(absl::Status why);

  // OK unless the caller is a refused one.
  const absl::Status& refusal() const { return refusal_; }

  // The caller's identity, which logs and grants name.
  const Identity& identity() const { return identity_; }
  // False for an unrestricted caller, which may do everything and has no roles. Ask before `roles`,
  // `RolesIn`, `Holds`, `ExecutesJob` and `AllowingRole`, which find nothing for it.
  bool is_restricted() const { return is_restricted_; }
  const std::vector<HeldRole>& roles() const { return roles_; }

  // Returns the text by which plans remember who asked for them, that of `identity()`. Empty for an
  // unrestricted caller: no planner owns its plans. All restricted callers of one identity own the
  // same plans, the anonymous ones included.
  const std::string& owner() const { return owner_; }

  // Returns the roles that the caller holds in a cluster, or in any if `cluster` is empty: their
  // names in the order of the table, each once, separated by blanks. Empty for none.
  std::string RolesIn(absl::string_view cluster) const;

  // Returns whether the caller holds the role in a cluster, or in any if `cluster` is empty.
  bool Holds(Role role, absl::string_view cluster) const;

  // Returns whether the caller is an executor of this job in this cluster; false if `job_id` is
  // empty.
  bool ExecutesJob(absl::string_view cluster, absl::string_view job_id) const;

  // Returns the most that any of the roles gives the method in the cluster, or in any cluster if
  // `cluster` is empty. kAny for an unrestricted caller, and for a public method even if the caller
  // is a refused one: ask `refusal()` first.
  Access AccessTo(absl::string_view method, absl::string_view cluster) const;

  // Returns which plans of the cluster the caller may use as its own with this method; nothing if
  // it may use all of them: for an unrestricted caller, one with a role there that gives the method
  // kAny, an executor of all jobs there that the method gives kOwn, and anybody if the method is
  // public. For others without a role there, refused callers included, owner and jobs are empty,
  // which is no plan. REQUIRES: `cluster` is not empty; not checked.
  std::optional<OwnPlans> PlansFor(absl::string_view method, absl::string_view cluster) const;

  // Returns the refusal of a refused caller; else OK if the caller is unrestricted, the method is
  // public, or a role allows it on the resource, and the error of `Refuse` if none does. For a
  // resource without a cluster, a role that allows the method in some cluster is enough, be it only
  // on what is the caller's own. A restricted caller may call no method that the table does not
  // have.
  absl::Status Check(absl::string_view method, const Resource& resource) const;

  // Returns the name of the first of `roles()` that allows the method on the resource; empty if
  // none does, the method is public, or the caller is unrestricted.
  std::string AllowingRole(absl::string_view method, const Resource& resource) const;

  // Checks nothing: returns PERMISSION_DENIED (ROLE_REQUIRED) with the roles that the method needs
  // and those that the caller holds in the cluster. It says nothing that the caller did not say or
  // hold.
  absl::Status Refuse(absl::string_view method, const Resource& resource) const;

 private:
  Caller(Identity identity, std::vector<HeldRole> roles, bool is_restricted);

  bool Allows(const HeldRole& held, const AccessRow& row, const Resource& resource) const;

  Identity identity_;
  std::vector<HeldRole> roles_;
  bool is_restricted_;
  std::string owner_;
  absl::Status refusal_;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_ACCESS_CALLER_H_
