#include "executor/apply/window_gather.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace parplan {

absl::StatusOr<std::vector<std::string>> GatherTexts(const std::string& own,
                                                     Communicator& everyone) {
  const auto count = static_cast<size_t>(everyone.size());
  // The shares of an all-gather have one length, so the lengths of the texts go first.
  double size = static_cast<double>(own.size());
  std::vector<double> sizes(count);
  PARPLAN_RETURN_IF_ERROR(everyone.AllGather(ElementType::kFloat64, &size, sizes.data(), 1));
  const auto longest = static_cast<size_t>(*std::max_element(sizes.begin(), sizes.end()));
  std::vector<std::string> texts(count);
  if (longest == 0) return texts;
  std::vector<char> share(longest);
  std::memcpy(share.data(), own.data(), own.size());
  std::vector<char> whole(longest * count);
  PARPLAN_RETURN_IF_ERROR(everyone.AllGather(ElementType::kByte, share.data(), whole.data(),
                                             static_cast<int64_t>(longest)));
  for (size_t rank = 0; rank < count; ++rank) {
    texts[rank].assign(whole.data() + rank * longest, static_cast<size_t>(sizes[rank]));
  }
  return texts;
}

absl::StatusOr<std::vector<v1::MeasuredWindow>> GatherWindows(const v1::MeasuredWindow& own,
                                                              Communicator& everyone) {
  PARPLAN_ASSIGN_OR_RETURN(const std::vector<std::string> texts,
                           GatherTexts(own.SerializeAsString(), everyone));
  std::vector<v1::MeasuredWindow> windows(texts.size());
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    if (!windows[rank].ParseFromString(texts[rank])) {
      return absl::InternalError(
          absl::StrCat("what rank ", rank, " sent is not a measured window"));
    }
  }
  return windows;
}

}  // namespace parplan
