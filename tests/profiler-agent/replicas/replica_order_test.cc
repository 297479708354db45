#include "profiler-agent/replicas/replica_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace parplan {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> Addresses(int count) {
  std::vector<std::string> addresses;
  addresses.reserve(count);
  for (int i = 0; i < count; ++i) addresses.push_back(absl::StrCat("10.0.0.", i, ":9477"));
  return addresses;
}

std::vector<std::string> Clusters(int count) {
  std::vector<std::string> clusters;
  clusters.reserve(count);
  for (int i = 0; i < count; ++i) clusters.push_back(absl::StrCat("cluster-", i));
  return clusters;
}

// Computed by another program from the description of the hash: agents of all releases agree.
TEST(OrderReplicas, IsTheSameInEveryRelease) {
  const std::vector<std::string> addresses = {"10.0.0.1:9477", "10.0.0.2:9477", "10.0.0.3:9477",
                                              "[2001:db8::1]:9477"};
  EXPECT_THAT(OrderReplicas("lab", addresses),
              ElementsAre("10.0.0.3:9477", "[2001:db8::1]:9477", "10.0.0.1:9477", "10.0.0.2:9477"));
  EXPECT_THAT(OrderReplicas("prod", addresses),
              ElementsAre("10.0.0.2:9477", "10.0.0.1:9477", "[2001:db8::1]:9477", "10.0.0.3:9477"));
}

TEST(OrderReplicas, DependsOnTheSetAlone) {
  std::mt19937 random(1);
  for (const std::string& cluster : Clusters(100)) {
    std::vector<std::string> addresses = Addresses(7);
    const std::vector<std::string> order = OrderReplicas(cluster, addresses);
    EXPECT_TRUE(std::is_permutation(order.begin(), order.end(), addresses.begin()));
    addresses.push_back(addresses[3]);
    std::shuffle(addresses.begin(), addresses.end(), random);
    EXPECT_EQ(OrderReplicas(cluster, addresses), order);
  }
}

TEST(OrderReplicas, OneThatGoesChangesNothingAmongTheOthers) {
  for (const std::string& cluster : Clusters(100)) {
    const std::vector<std::string> before = OrderReplicas(cluster, Addresses(6));
    for (const std::string& gone : before) {
      std::vector<std::string> left = before;
      left.erase(std::find(left.begin(), left.end(), gone));
      EXPECT_EQ(OrderReplicas(cluster, left), left) << cluster << " without " << gone;
    }
  }
}

TEST(OrderReplicas, ClustersSpreadEvenlyAlsoOfOneThatIsAway) {
  std::map<std::string, int> firsts;
  std::map<std::string, int> seconds;
  for (const std::string& cluster : Clusters(3000)) {
    const std::vector<std::string> order = OrderReplicas(cluster, Addresses(3));
    ++firsts[order[0]];
    if (order[0] == "10.0.0.0:9477") ++seconds[order[1]];
  }
  // A tenth of 1000 is more than three standard deviations of the binomial distribution, a
  // fifth of 500 more than six.
  for (const auto& [address, count] : firsts) EXPECT_NEAR(count, 1000, 100) << address;
  ASSERT_EQ(seconds.size(), 2);
  for (const auto& [address, count] : seconds) {
    EXPECT_NEAR(count, firsts["10.0.0.0:9477"] / 2.0, 100) << address;
  }
}

TEST(OrderReplicas, TakesNoneAndOne) {
  EXPECT_THAT(OrderReplicas("lab", {}), IsEmpty());
  EXPECT_THAT(OrderReplicas("", {"a", "a"}), ElementsAre("a"));
}

}  // namespace
}  // namespace parplan
