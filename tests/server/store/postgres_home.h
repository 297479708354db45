// A schema of its own in the PostgreSQL of a test binary, where stores are opened.

#ifndef PARPLAN_TESTS_SERVER_STORE_POSTGRES_HOME_H_
#define PARPLAN_TESTS_SERVER_STORE_POSTGRES_HOME_H_

#include <memory>
#include <pqxx/pqxx>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "server/store/postgres_store.h"
#include "tests/server/store/postgres_process.h"
#include "tests/server/store/store_conformance.h"

namespace parplan {

// A schema of the shared database.
class PostgresHome : public StoreHome {
 public:
  PostgresHome() {
    static int count = 0;
    schema_ = absl::StrCat("home_", ++count);
    PostgresProcess::Shared().Execute(absl::StrCat("CREATE SCHEMA ", schema_));
  }
  ~PostgresHome() override {
    PostgresProcess::Shared().Execute(
        absl::StrCat("SET client_min_messages = warning; DROP SCHEMA ", schema_, " CASCADE"));
  }

  std::string uri() const {
    return PostgresProcess::Shared().uri(absl::StrCat("options=-csearch_path%3D", schema_));
  }
  absl::StatusOr<std::unique_ptr<Store>> Open() override {
    return PostgresStore::Open({.uri = uri()});
  }

 private:
  std::string schema_;
};

// Returns the first column of the first row that `query` has.
inline std::string Ask(const std::string& uri, const std::string& query) {
  pqxx::connection connection(uri);
  pqxx::nontransaction transaction(connection);
  return transaction.exec(query)[0][0].c_str();
}

}  // namespace parplan

#endif  // PARPLAN_TESTS_SERVER_STORE_POSTGRES_HOME_H_
