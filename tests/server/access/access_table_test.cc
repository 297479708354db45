#include "server/access/access_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "tests/support/shared_data.h"

namespace parplan {
namespace {

using testing::HasSubstr;

TEST(AccessTable, DocumentsShowTheTableThatIsEnforced) {
  std::ifstream file(SourceDir() + "/docs/security.md");
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  EXPECT_THAT(text, HasSubstr("\n\n" + AccessTableMarkdown() + "\n"))
      << "replace the table by what `parplan-server access table` prints";
}

TEST(AccessTable, HasEachMethodOnceAndFindsIt) {
  std::set<absl::string_view> methods;
  for (const AccessRow& row : AccessTable()) {
    EXPECT_TRUE(methods.insert(row.method).second) << row.method;
    EXPECT_EQ(&RowOf(row.method), &row);
  }
}

TEST(AccessTable, AMethodWithoutARowIsClosed) {
  const AccessRow& row = RowOf("NewMethod");
  EXPECT_FALSE(row.is_public);
  for (const Access access : row.access) EXPECT_EQ(access, Access::kNone);
}

// Rules that the table must keep, whatever else changes in it.
TEST(AccessTable, KeepsItsPromises) {
  for (const AccessRow& row : AccessTable()) {
    if (row.changes) {
      EXPECT_EQ(row.of(Role::kReader), Access::kNone) << row.method;
      EXPECT_FALSE(row.is_public) << row.method;
    }
    // Only readers and operators see or change what is not theirs. Two methods are about nothing
    // that is stored.
    if (row.method == "VerifyPlan" || row.method == "ShapePlan") continue;
    for (const Role role : {Role::kAgent, Role::kPlanner, Role::kExecutor}) {
      EXPECT_NE(row.of(role), Access::kAny) << row.method << " " << RoleName(role);
    }
    // What a reader sees, an operator sees too.
    EXPECT_LE(row.of(Role::kReader), row.of(Role::kOperator)) << row.method;
  }
}

TEST(RoleName, IsReadBack) {
  for (int i = 0; i < kRoleCount; ++i) {
    const Role role = static_cast<Role>(i);
    EXPECT_EQ(RoleOfName(RoleName(role)), role);
  }
  EXPECT_EQ(RoleOfName("admin"), std::nullopt);
  EXPECT_EQ(RoleOfName(""), std::nullopt);
}

}  // namespace
}  // namespace parplan
