// Reports of an importer about settings of a file that it did not read: errors for those that may
// change the plan, and a note for those that cannot.

#ifndef PARPLAN_CLIENTS_IMPORT_UNREAD_NAMES_H_
#define PARPLAN_CLIENTS_IMPORT_UNREAD_NAMES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace parplan {

// Returns INVALID_ARGUMENT (SPEC_INVALID) with the file and `names`, which are separated by commas.
// `kind` is what the format calls them in the plural, such as `keys`. Never OK.
absl::Status RefuseUnread(absl::string_view file_name, absl::string_view kind,
                          absl::string_view names);

// Returns that error if there are `unknown` names. Otherwise OK; appends a note with the `ignored`
// ones, which change neither the shape of the model nor how it is divided over ranks, if there are
// any.
absl::Status SettleUnread(absl::string_view file_name, absl::string_view kind,
                          const std::vector<std::string>& unknown,
                          const std::vector<std::string>& ignored, std::vector<std::string>* notes);

}  // namespace parplan

#endif  // PARPLAN_CLIENTS_IMPORT_UNREAD_NAMES_H_
