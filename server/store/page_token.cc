#include "server/store/page_token.h"

#include <algorithm>
#include <limits>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/error.h"

namespace parplan {

// A token is "<list>\n<sequence>" in web-safe base64. It has no secret, and forging one gains
// nothing: it only selects the place in the named list where a page begins.
std::string MakePageToken(absl::string_view list, int64_t last_sequence) {
  return absl::WebSafeBase64Escape(absl::StrCat(list, "\n", last_sequence));
}

std::string OwnPlansList(absl::string_view cluster, const PlanScope& scope) {
  return absl::StrCat("plans/", cluster, "/of/", scope.owner, "/jobs/",
                      absl::StrJoin(scope.job_ids, "/"));
}

absl::StatusOr<PagePosition> ReadPageRequest(absl::string_view list, const PageRequest& page) {
  PagePosition position;
  if (page.page_size < 0) {
    return FieldError(Reason::kSpecInvalid, "page_size", "must be at least 0");
  }
  position.page_size =
      page.page_size == 0 ? kDefaultPageSize : std::min(page.page_size, kMaxPageSize);
  if (page.page_token.empty()) {
    position.before_sequence = std::numeric_limits<int64_t>::max();
    return position;
  }
  std::string text;
  const bool decoded = absl::WebSafeBase64Unescape(page.page_token, &text);
  absl::string_view rest = text;
  if (!decoded || !absl::ConsumePrefix(&rest, list) || !absl::ConsumePrefix(&rest, "\n") ||
      !absl::SimpleAtoi(rest, &position.before_sequence) ||
      MakePageToken(list, position.before_sequence) != page.page_token) {
    return FieldError(Reason::kSpecInvalid, "page_token",
                      "must be the next_page_token of an earlier page of the same list; leave it "
                      "empty to begin again");
  }
  return position;
}

}  // namespace parplan
