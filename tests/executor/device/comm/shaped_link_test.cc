#include "executor/device/comm/shaped_link.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "base/system/steady_clock.h"
#include "tests/executor/device/comm/rank_threads.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

TEST(ShapedLinks, AreNoFasterThanTheirShape) {
  RunRanks(2,
           {.spin_count = 50,
            .shape =
                [](int from, int) {
                  return from == 0
                             ? LinkShape{.bytes_per_second = 2e6, .latency = absl::Milliseconds(5)}
                             : LinkShape();
                }},
           [](JobFabric& fabric) {
             ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Communicator> all,
                                  fabric.MakeGroup("all", {0, 1}));
             ASSERT_OK(all->Barrier());
             const absl::Duration start = SteadyNow();
             std::vector<char> data(200'000, 'x');
             ASSERT_OK(all->Broadcast(ElementType::kByte, data.data(), 200'000, /*root=*/0));
             // 200 kB at 2 MB/s, and what of the latency of 4 pieces is not spent waiting anyway.
             if (fabric.rank() == 1) {
               EXPECT_GT(SteadyNow() - start, absl::Milliseconds(105));
             }
             EXPECT_EQ(data, std::vector<char>(200'000, 'x'));
           });
}

}  // namespace
}  // namespace parplan
