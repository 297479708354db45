// Tokens of pages: the place where a page of a list begins, as a text that clients do not
// interpret. Both stores use it for their lists.

#ifndef PARPLAN_SERVER_STORE_PAGE_TOKEN_H_
#define PARPLAN_SERVER_STORE_PAGE_TOKEN_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/store/store.h"

namespace parplan {

// A checked page request. Records are numbered in the order in which they are stored; numbers start
// at 1 and are never reused.
struct PagePosition {
  // The page has records with numbers below this; the largest int64 for the first page.
  int64_t before_sequence = 0;
  // Records, 1 to `kMaxPageSize`.
  int page_size = 0;
};

// Returns the token of the page that follows the record `last_sequence`. `list` identifies the list
// by kind and parent.
std::string MakePageToken(absl::string_view list, int64_t last_sequence);

// Returns the name of the list of the plans of a cluster in a scope, for the other functions. The
// same jobs in another order are another list.
std::string OwnPlansList(absl::string_view cluster, const PlanScope& scope);

// Checks a page request; 0 records become `kDefaultPageSize`, and more than `kMaxPageSize` become
// that. INVALID_ARGUMENT (SPEC_INVALID) naming `page_size` if that is negative, or `page_token` if
// `MakePageToken` could not have made it for this list. A token is no secret and is not signed.
absl::StatusOr<PagePosition> ReadPageRequest(absl::string_view list, const PageRequest& page);

}  // namespace parplan

#endif  // PARPLAN_SERVER_STORE_PAGE_TOKEN_H_
