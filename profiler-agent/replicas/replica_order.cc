#include "profiler-agent/replicas/replica_order.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace parplan {
namespace {

// The 64-bit FNV-1a hash.
uint64_t Fold(absl::string_view text, uint64_t state) {
  for (const char c : text) {
    state ^= static_cast<unsigned char>(c);
    state *= 0x100000001b3;
  }
  return state;
}

// The finalizer of SplitMix64: addresses that differ in one digit get unrelated weights.
uint64_t Mix(uint64_t state) {
  state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9;
  state = (state ^ (state >> 27)) * 0x94d049bb133111eb;
  return state ^ (state >> 31);
}

uint64_t Weight(absl::string_view cluster, absl::string_view address) {
  // Neither contains a space, so different pairs are different texts.
  return Mix(Fold(address, Fold(" ", Fold(cluster, 0xcbf29ce484222325))));
}

}  // namespace

std::vector<std::string> OrderReplicas(absl::string_view cluster,
                                       std::vector<std::string> addresses) {
  std::vector<std::pair<uint64_t, std::string>> weighed;
  weighed.reserve(addresses.size());
  for (std::string& address : addresses) {
    const uint64_t weight = Weight(cluster, address);
    weighed.emplace_back(weight, std::move(address));
  }
  // Largest weight first. Equal weights, which practically never occur, are ordered by address.
  std::sort(weighed.rbegin(), weighed.rend());
  weighed.erase(std::unique(weighed.begin(), weighed.end()), weighed.end());
  std::vector<std::string> order;
  order.reserve(weighed.size());
  for (auto& [weight, address] : weighed) order.push_back(std::move(address));
  return order;
}

}  // namespace parplan
