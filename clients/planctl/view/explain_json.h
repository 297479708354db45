// Shows the answer of `planctl explain` as JSON with stable members, which docs/planctl.md
// describes. Times are seconds, sizes bytes, both as numbers. `planctl explain` calls it with
// `--format json`.

#ifndef PARPLAN_CLIENTS_PLANCTL_VIEW_EXPLAIN_JSON_H_
#define PARPLAN_CLIENTS_PLANCTL_VIEW_EXPLAIN_JSON_H_

#include <string>

#include "clients/planctl/offline/offline_explainer.h"

namespace parplan::planctl {

// Returns the answer as one object and a line end. Parts that are absent or empty have no member.
std::string ExplainJson(const ExplainAnswer& answer);

}  // namespace parplan::planctl

#endif  // PARPLAN_CLIENTS_PLANCTL_VIEW_EXPLAIN_JSON_H_
