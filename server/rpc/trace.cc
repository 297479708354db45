#include "server/rpc/trace.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"

namespace parplan {
namespace {

constexpr size_t kMaxRequestIdBytes = 64;

bool IsLowerHex(absl::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return absl::ascii_isdigit(c) || (c >= 'a' && c <= 'f'); });
}

bool IsAllZeros(absl::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c == '0'; });
}

}  // namespace

bool IsRequestId(absl::string_view text) {
  return !text.empty() && text.size() <= kMaxRequestIdBytes &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '-';
         });
}

std::string MakeRequestId() {
  thread_local std::mt19937_64 generator = [] {
    std::random_device device;
    std::seed_seq seed{device(), device(), device(), device()};
    return std::mt19937_64(seed);
  }();
  const uint64_t high = generator();
  const uint64_t low = generator();
  return absl::StrFormat("%016x%016x", high, low);
}

std::string TraceIdOf(absl::string_view traceparent) {
  // version "-" trace id "-" parent id "-" flags; later versions may add parts.
  const std::vector<absl::string_view> parts = absl::StrSplit(traceparent, '-');
  if (parts.size() < 4 || (parts[0] == "00" && parts.size() != 4)) return "";
  const size_t sizes[] = {2, 32, 16, 2};
  for (int i = 0; i < 4; ++i) {
    if (parts[i].size() != sizes[i] || !IsLowerHex(parts[i])) return "";
  }
  if (parts[0] == "ff" || IsAllZeros(parts[1]) || IsAllZeros(parts[2])) return "";
  return std::string(parts[1]);
}

}  // namespace parplan
