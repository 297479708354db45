// Tests of databases that an older release made, which every store on disk passes. They are in
// migration_conformance.cc; a store joins with
//
//   INSTANTIATE_TEST_SUITE_P(Sqlite, MigrationConformance, testing::Values(&MakeOlderSqlite));

#ifndef PARPLAN_TESTS_SERVER_STORE_MIGRATION_CONFORMANCE_H_
#define PARPLAN_TESTS_SERVER_STORE_MIGRATION_CONFORMANCE_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/server/store/store_conformance.h"

namespace parplan {

// Changes of the tables that must keep the records of before. A store numbers them in its own way.
enum class SchemaChange { kPlanOwners, kJobs, kUsage, kSpecs, kExecutionOwners };

// A database as an older release left it.
class OlderDatabase : public StoreHome {
 public:
  // Makes the tables as they were just before `change`, and runs `statements`, which insert rows.
  // Called once, before `Open`. Released migrations are never edited, so those of this release make
  // what the older release made.
  virtual void MakeBefore(SchemaChange change, const std::string& statements) = 0;
  // Returns bytes as a literal of a statement.
  virtual std::string BytesLiteral(const std::string& bytes) const = 0;
};

using MakeOlderHome = std::unique_ptr<OlderDatabase> (*)();

class MigrationConformance : public testing::TestWithParam<MakeOlderHome> {
 protected:
  void SetUp() override { database_ = GetParam()(); }

  OlderDatabase& database() { return *database_; }
  // Returns a statement that inserts `plan` (`InsertPlanStatement`).
  std::string Insert(const PlanRecord& plan, bool has_owner) const;

 private:
  std::unique_ptr<OlderDatabase> database_;
};

}  // namespace parplan

#endif  // PARPLAN_TESTS_SERVER_STORE_MIGRATION_CONFORMANCE_H_
