// The grants of a configuration: which identities hold which roles. Pure. `AccessRulesOf`
// (server/main/settings_rules.h) makes one, and `Authorizer` holds it.

#ifndef PARPLAN_SERVER_ACCESS_POLICY_H_
#define PARPLAN_SERVER_ACCESS_POLICY_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/access/caller.h"
#include "server/access/identity.h"
#include "server/access/identity_pattern.h"

namespace parplan {

// One grant as it is written; proto/parplan/config/v1/server_config.proto documents the fields.
struct Grant {
  std::vector<std::string> identities;
  std::string role;
  std::vector<std::string> clusters;
  std::vector<std::string> nodes;
  std::vector<std::string> jobs;
};

// Immutable. A default-constructed policy has no grants, so it allows public methods alone.
class Policy {
 public:
  // Most identities of all grants of one policy together: a caller's first call tries all of them.
  // An identity with a placeholder stands for any number of callers.
  static constexpr size_t kMaxPatternCount = 4096;

  // Allows everything to everybody.
  static Policy AllowAll();

  // Allows what the grants say, and public methods, and nothing else. INVALID_ARGUMENT
  // (SPEC_INVALID) naming the field below `field`, the list of grants: an identity that is no
  // pattern, a grant without identities, an unknown role; a cluster, node or job that is neither an
  // id nor `*` (all of them), that is missing, that is given although the identity has its
  // placeholder, or that is given or has a placeholder although the role has no use for it; or more
  // than `kMaxPatternCount` identities. So the identities of one grant either all have the
  // placeholder of a list, which is then absent, or none of them has it. Every role needs clusters,
  // only an agent nodes, and only an executor jobs. The id of a job is any text of 1 to 128 bytes.
  static absl::StatusOr<Policy> Create(absl::Span<const Grant> grants, absl::string_view field);

  // Returns whether this is `AllowAll()`.
  bool allows_all() const { return allows_all_; }

  // Returns the caller of this identity with the roles of all grants that match it, in their order,
  // which may be none; an unrestricted one if the policy allows everything. Never null.
  std::shared_ptr<const Caller> CallerOf(const Identity& identity) const;

 private:
  struct Rule {
    IdentityPattern pattern;
    HeldRole role;  // Without what the pattern captures.
  };

  static absl::StatusOr<std::vector<Rule>> ReadGrant(const Grant& grant, absl::string_view field);

  bool allows_all_ = false;
  std::vector<Rule> rules_;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_ACCESS_POLICY_H_
