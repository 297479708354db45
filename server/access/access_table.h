// Who may call what: one row for each method of the contract, one column for each role. `Caller`
// and `CallGuard` (server/core/call_guard.h) enforce the table, and docs/security.md shows what
// `AccessTableMarkdown` writes.

#ifndef PARPLAN_SERVER_ACCESS_ACCESS_TABLE_H_
#define PARPLAN_SERVER_ACCESS_ACCESS_TABLE_H_

#include <array>
#include <cstddef>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace parplan {

// The parts that callers play. A caller may hold several, each in some clusters.
enum class Role {
  kAgent,     // Measures its node.
  kPlanner,   // Asks for plans of jobs, as a scheduler does.
  kExecutor,  // Runs its job: fetches its plan and reports its measurements.
  kReader,    // Reads everything that is stored of a cluster.
  kOperator,  // Reads and changes everything of a cluster, but does not connect as an agent.
};
inline constexpr int kRoleCount = 5;

// Returns `agent`, `planner`, `executor`, `reader` or `operator`.
absl::string_view RoleName(Role role);
// Returns the role of a name in lower case, as `RoleName` writes it; nothing for any other text.
std::optional<Role> RoleOfName(absl::string_view name);

// How much of a cluster a role gives a method.
enum class Access {
  kNone,
  // Resources of the caller's own. An agent owns its node, with its profiles; a planner the plans
  // it asked for, with their executions; an executor the plans of its job, with their executions.
  kOwn,
  // Everything in the cluster.
  kAny,
};

// One method.
struct AccessRow {
  // Name of the service in the contract: `PlanService`.
  absl::string_view service;
  // Name in the contract: `CreatePlan`.
  absl::string_view method;
  // Whether a call changes what the server keeps. `CreatePlan` changes it only if it makes a plan.
  bool changes = false;
  // Whether every caller whom the transport lets in may call it, also one without a role, but not
  // one whose token was refused.
  bool is_public = false;
  // By role; without meaning for a public method.
  std::array<Access, kRoleCount> access = {};

  // Returns how much the role gives the method.
  Access of(Role role) const { return access[static_cast<size_t>(role)]; }
};

// Returns all rows, by service, for tests of every row. They and the row of `RowOf` live as long as
// the process.
absl::Span<const AccessRow> AccessTable();

// Returns the row of a method, by its name alone (`CreatePlan`). A method without a row is a
// mistake of this program: the row returned then has no method, `changes` something and lets no
// role call it, so that a method that was added in haste is closed unless the server restricts no
// caller.
const AccessRow& RowOf(absl::string_view method);

// Returns the table as GitHub writes tables, to be pasted into docs/security.md. Printed by
// `parplan-server access table`.
std::string AccessTableMarkdown();

}  // namespace parplan

#endif  // PARPLAN_SERVER_ACCESS_ACCESS_TABLE_H_
