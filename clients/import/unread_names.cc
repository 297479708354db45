#include "clients/import/unread_names.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "clients/import/named_text.h"

namespace parplan {

absl::Status RefuseUnread(absl::string_view file_name, absl::string_view kind,
                          absl::string_view names) {
  return ImportError(
      Reason::kSpecInvalid, file_name, "",
      absl::StrCat("has ", kind, " that are not read here: ", names,
                   "; leave them out if they change neither the model's shape nor how it is "
                   "divided over ranks"));
}

absl::Status SettleUnread(absl::string_view file_name, absl::string_view kind,
                          const std::vector<std::string>& unknown,
                          const std::vector<std::string>& ignored,
                          std::vector<std::string>* notes) {
  if (!unknown.empty()) return RefuseUnread(file_name, kind, absl::StrJoin(unknown, ", "));
  if (!ignored.empty()) {
    notes->push_back(absl::StrCat("Ignored, since they change neither shape nor parallelism: ",
                                  absl::StrJoin(ignored, ", "), "."));
  }
  return absl::OkStatus();
}

}  // namespace parplan
