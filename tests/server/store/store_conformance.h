// The suite every implementation of `Store` passes. The tests are in the
// conformance_*.cc files beside this one; an implementation joins with
//
//   INSTANTIATE_TEST_SUITE_P(Sqlite, StoreConformance, testing::Values(&MakeSqliteHome));

#ifndef PARPLAN_TESTS_SERVER_STORE_STORE_CONFORMANCE_H_
#define PARPLAN_TESTS_SERVER_STORE_STORE_CONFORMANCE_H_

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "base/error.h"
#include "server/store/store.h"
#include "tests/server/store/store_samples.h"
#include "tests/support/status_matchers.h"

namespace parplan {

// A place where records lie while no store has it open: a folder, a database.
// Empty at first; removed with the object.
class StoreHome {
 public:
  virtual ~StoreHome() = default;
  virtual absl::StatusOr<std::unique_ptr<Store>> Open() = 0;
};

using MakeStoreHome = std::unique_ptr<StoreHome> (*)();

class StoreConformance : public testing::TestWithParam<MakeStoreHome> {
 protected:
  void SetUp() override {
    home_ = GetParam()();
    Reopen();
  }

  // Reopens the store, like a server that restarts.
  void Reopen() {
    store_.reset();
    absl::StatusOr<std::unique_ptr<Store>> store = home_->Open();
    ASSERT_OK(store);
    store_ = *std::move(store);
  }

  Store& store() { return *store_; }

 private:
  std::unique_ptr<StoreHome> home_;
  std::unique_ptr<Store> store_;
};

// The reason of an error; nothing where it has none.
template <typename StatusLike>
std::optional<Reason> ReasonOf(const StatusLike& result) {
  const std::optional<ErrorDetail> detail =
      GetErrorDetail(status_matchers_internal::StatusOf(result));
  if (!detail.has_value()) return std::nullopt;
  return detail->reason;
}

}  // namespace parplan

#endif  // PARPLAN_TESTS_SERVER_STORE_STORE_CONFORMANCE_H_
