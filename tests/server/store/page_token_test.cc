#include "server/store/page_token.h"

#include <limits>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

TEST(PageToken, BringsBackWhereAPageBegins) {
  const std::string token = MakePageToken("plans/c", 42);
  ASSERT_OK_AND_ASSIGN(const PagePosition position,
                       ReadPageRequest("plans/c", {.page_size = 7, .page_token = token}));
  EXPECT_EQ(position.before_sequence, 42);
  EXPECT_EQ(position.page_size, 7);
}

TEST(PageToken, NoTokenIsTheFirstPage) {
  ASSERT_OK_AND_ASSIGN(const PagePosition position, ReadPageRequest("plans/c", {}));
  EXPECT_EQ(position.before_sequence, std::numeric_limits<int64_t>::max());
  EXPECT_EQ(position.page_size, kDefaultPageSize);
}

TEST(PageToken, AListWhoseNameBeginsAlikeIsAnother) {
  const std::string token = MakePageToken("plans/c", 42);
  EXPECT_THAT(ReadPageRequest("plans/cc", {.page_token = token}),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(ReadPageRequest("plans/", {.page_token = token}),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(PageToken, NumbersThatDoNotFitAreRefused) {
  for (const char* sequence : {"", "x", "99999999999999999999", "1 2", " 1", "+1", "01"}) {
    const std::string token = absl::WebSafeBase64Escape(absl::StrCat("plans/c\n", sequence));
    EXPECT_THAT(ReadPageRequest("plans/c", {.page_token = token}),
                StatusIs(absl::StatusCode::kInvalidArgument))
        << sequence;
  }
}

}  // namespace
}  // namespace parplan
