// Tests the accepted forms of a store address.

#include "server/store/store_address.h"

#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/store/store_conformance.h"

namespace parplan {
namespace {

TEST(StoreAddress, AFolderOfSqliteIsReadInEverySpelling) {
  const std::pair<const char*, const char*> cases[] = {
      {"sqlite:/var/lib/parplan", "/var/lib/parplan"},
      {"sqlite:/var/lib/parplan/", "/var/lib/parplan"},
      {"sqlite:/var/lib/parplan/parplan.db", "/var/lib/parplan"},
      {"sqlite:data", "data"},
      {"sqlite:parplan.db", "."},
      {"sqlite:/", "/"}};
  for (const auto& [text, directory] : cases) {
    ASSERT_OK_AND_ASSIGN(const StoreAddress address, ParseStoreAddress(text, "store"));
    EXPECT_EQ(address.kind, StoreAddress::Kind::kSqlite);
    EXPECT_EQ(address.directory, directory) << text;
  }
}

TEST(StoreAddress, ADatabaseOfPostgresIsTakenAsItIs) {
  for (const std::string text :
       {"postgres://parplan@db.example/parplan", "postgresql:///parplan?host=/run/postgresql",
        "postgres://[::1]:5433/parplan", "postgres://parplan@a:1,b:2/parplan?passfile=/etc/pg"}) {
    ASSERT_OK_AND_ASSIGN(const StoreAddress address, ParseStoreAddress(text, "store"));
    EXPECT_EQ(address.kind, StoreAddress::Kind::kPostgres);
    EXPECT_EQ(address.uri, text);
    EXPECT_EQ(address.ToString(), text);
  }
}

TEST(StoreAddress, APasswordIsRefusedAndNotRepeated) {
  for (const char* const text :
       {"postgres://parplan:secret@db/parplan", "postgresql://db/parplan?user=a&password=secret",
        "postgres://parplan:pa/secret@db/parplan", "postgres://parplan:pa?secret@db/parplan",
        "postgresql://db/parplan?p%61ssword=secret",
        "postgresql://db/parplan?ssl%70assword=secret"}) {
    const auto address = ParseStoreAddress(text, "store");
    EXPECT_THAT(address, StatusIs(absl::StatusCode::kInvalidArgument,
                                  testing::AllOf(testing::HasSubstr("PGPASSFILE"),
                                                 testing::Not(testing::HasSubstr("secret")))));
    EXPECT_EQ(ReasonOf(address), Reason::kSpecInvalid);
  }
}

TEST(StoreAddress, OtherThingsAreRefusedWithWhatToWrite) {
  for (const char* const text :
       {"", "sqlite:", "postgres://", "/var/lib/parplan", "mysql://a/b", "SQLITE:/x"}) {
    EXPECT_THAT(ParseStoreAddress(text, "store"),
                StatusIs(absl::StatusCode::kInvalidArgument, testing::HasSubstr("store")))
        << text;
  }
}

}  // namespace
}  // namespace parplan
