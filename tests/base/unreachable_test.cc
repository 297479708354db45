#include "base/unreachable.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace parplan {
namespace {

TEST(MarkUnreachable, KeepsTheStatusAndIsSeen) {
  const absl::Status plain = absl::UnavailableError("why");
  EXPECT_FALSE(IsUnreachable(plain));
  const absl::Status marked = MarkUnreachable(plain);
  EXPECT_TRUE(IsUnreachable(marked));
  EXPECT_EQ(marked.code(), plain.code());
  EXPECT_EQ(marked.message(), plain.message());
  EXPECT_FALSE(GetErrorDetail(marked).has_value());
  EXPECT_FALSE(IsUnreachable(MarkUnreachable(absl::OkStatus())));
}

}  // namespace
}  // namespace parplan
