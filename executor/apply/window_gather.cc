#include "executor/apply/window_gather.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace parplan {

absl::StatusOr<std::vector<v1::MeasuredWindow>> GatherWindows(const v1::MeasuredWindow& own,
                                                              Communicator& everyone) {
  const std::string text = own.SerializeAsString();
  const auto count = static_cast<size_t>(everyone.size());
  // Shares of an all-gather are equally long, so sizes go first.
  double size = static_cast<double>(text.size());
  std::vector<double> sizes(count);
  PARPLAN_RETURN_IF_ERROR(everyone.AllGather(ElementType::kFloat64, &size, sizes.data(), 1));
  const auto longest = static_cast<size_t>(*std::max_element(sizes.begin(), sizes.end()));
  std::vector<char> share(longest);
  std::memcpy(share.data(), text.data(), text.size());
  std::vector<char> whole(longest * count);
  PARPLAN_RETURN_IF_ERROR(everyone.AllGather(ElementType::kByte, share.data(), whole.data(),
                                             static_cast<int64_t>(longest)));
  std::vector<v1::MeasuredWindow> windows(count);
  for (size_t rank = 0; rank < count; ++rank) {
    if (!windows[rank].ParseFromArray(whole.data() + rank * longest,
                                      static_cast<int>(sizes[rank]))) {
      return absl::InternalError(absl::StrCat("the window of rank ", rank, " came in pieces"));
    }
  }
  return windows;
}

}  // namespace parplan
