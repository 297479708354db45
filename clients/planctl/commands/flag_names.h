// The flags of planctl in errors about fields of the contract. The rules of a question are checked
// in one place for all clients, which names the field (`options.micro_batch_count`); who types a
// command knows the flag (`--micro-batches`).

#ifndef PARPLAN_CLIENTS_PLANCTL_COMMANDS_FLAG_NAMES_H_
#define PARPLAN_CLIENTS_PLANCTL_COMMANDS_FLAG_NAMES_H_

#include "absl/status/status.h"

namespace parplan::planctl {

// Returns `status` with the flag at the end of its message, in parentheses, if it is about a field
// of `PlanningOptions` or `MoneyQuestion` that has one, or says that measurements are missing.
// Names the flags of TLS if something answered the connection but not the call. Code, reason and
// metadata stay, as does any other status. Pure.
absl::Status NameFlags(const absl::Status& status);

}  // namespace parplan::planctl

#endif  // PARPLAN_CLIENTS_PLANCTL_COMMANDS_FLAG_NAMES_H_
