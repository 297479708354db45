// The rules that settings of parplan-server must keep, and what follows from them: who may call,
// and which limits hold. `ReadSettings` (settings.h) checks them, main.cc uses the rest.

#ifndef PARPLAN_SERVER_MAIN_SETTINGS_RULES_H_
#define PARPLAN_SERVER_MAIN_SETTINGS_RULES_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/access/authorizer.h"
#include "server/core/limits.h"
#include "server/main/settings.h"

namespace parplan {

// Checks the ranges of all values, and what `AccessRulesOf` checks. INVALID_ARGUMENT (SPEC_INVALID)
// naming the first field that breaks a rule.
absl::Status CheckSettings(const Settings& settings);

// Returns whether everybody may do everything: as the settings say, else if there are no grants and
// callers need no certificate.
bool AllowsAllCallers(const Settings& settings);

// Returns the limits with the quotas. Unless the settings say otherwise an identity leaves one
// worker to others, if there are several.
Limits LimitsOf(const Settings& settings);

// Returns the rules for callers, and reads the file of keys of `service_accounts` if grants count.
// INVALID_ARGUMENT (SPEC_INVALID) naming the field: also for a file that cannot be read, for
// `allow_all_callers` together with grants, and, if grants count, for tokens on a server with
// `tls.client_ca`, or without TLS unless it listens on a Unix socket, since no caller could use
// them.
absl::StatusOr<AccessRules> AccessRulesOf(const Settings& settings);

}  // namespace parplan

#endif  // PARPLAN_SERVER_MAIN_SETTINGS_RULES_H_
