// The store of other tests keeps the promises of a real one.

#include <memory>

#include "gtest/gtest.h"
#include "tests/server/store/store_conformance.h"
#include "tests/support/memory_store.h"

namespace parplan {
namespace {

class MemoryHome : public StoreHome {
 public:
  absl::StatusOr<std::unique_ptr<Store>> Open() override {
    return std::unique_ptr<Store>(records_.OpenAgain());
  }

 private:
  MemoryStore records_;
};

std::unique_ptr<StoreHome> MakeMemoryHome() { return std::make_unique<MemoryHome>(); }

INSTANTIATE_TEST_SUITE_P(Memory, StoreConformance, testing::Values(&MakeMemoryHome));

}  // namespace
}  // namespace parplan
