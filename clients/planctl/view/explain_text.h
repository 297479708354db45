// Shows the answer of `planctl explain` as text for a terminal. `planctl explain` calls it.

#ifndef PARPLAN_CLIENTS_PLANCTL_VIEW_EXPLAIN_TEXT_H_
#define PARPLAN_CLIENTS_PLANCTL_VIEW_EXPLAIN_TEXT_H_

#include <string>

#include "clients/planctl/offline/offline_explainer.h"

namespace parplan::planctl {

// Returns the answer as tables in UTF-8, one below the other; empty if no part is there.
std::string ExplainText(const ExplainAnswer& answer);

}  // namespace parplan::planctl

#endif  // PARPLAN_CLIENTS_PLANCTL_VIEW_EXPLAIN_TEXT_H_
