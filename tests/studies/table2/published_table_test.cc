#include "studies/table2/published_table.h"

#include <cmath>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace parplan::table2 {
namespace {

TEST(BuiltInTable, HasAll84NumbersAndTheyAgree) {
  const PublishedTable& table = BuiltInTable();
  ASSERT_EQ(table.rows.size(), 12u);
  std::set<std::pair<std::string, int>> rows;
  for (const PublishedRow& row : table.rows) {
    SCOPED_TRACE(row.model);
    rows.insert({row.model, row.device_count});
    for (int column = 0; column < kRatioCount; ++column) {
      const double ratio = row.memory_mb[static_cast<int>(Column::kTheirs)] / row.memory_mb[column];
      EXPECT_NEAR(ratio, row.ratios[column], 0.00501) << row.device_count << " " << column;
    }
  }
  EXPECT_EQ(rows.size(), 12u);
  EXPECT_NE(table.source.find("10.1631/FITEE.2300684"), std::string::npos);
  EXPECT_EQ(table.columns[static_cast<int>(Column::kColossalAuto)], "Colossal-Auto");
}

TEST(ReadPublishedTable, NamesWhatIsWrong) {
  EXPECT_THAT(ReadPublishedTable("{}"),
              StatusIs(absl::StatusCode::kInvalidArgument, testing::HasSubstr("source")));
  EXPECT_THAT(ReadPublishedTable("no json"),
              StatusIs(absl::StatusCode::kInvalidArgument, testing::HasSubstr("table2")));
}

}  // namespace
}  // namespace parplan::table2
