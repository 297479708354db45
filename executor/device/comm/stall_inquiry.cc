#include "executor/device/comm/stall_inquiry.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace parplan {

namespace {

std::string OnHost(const std::string& host) {
  return host.empty() || host == "127.0.0.1" ? "" : absl::StrCat(" on host ", host);
}

}  // namespace

std::string RankOnHost(int rank, const std::string& host) {
  return absl::StrCat("rank ", rank, OnHost(host));
}

std::string DescribeLoss(int rank, const std::string& host, const std::string& why) {
  return absl::StrCat("rank ", rank, " is lost", OnHost(host), ": ", why);
}

std::string DescribeVerdict(const StallVerdict& verdict, const std::vector<std::string>& hosts,
                            const std::string& what) {
  std::vector<std::string> names;
  for (const int rank : verdict.ranks) names.push_back(RankOnHost(rank, hosts[rank]));
  const std::string who = absl::StrJoin(names, ", ");
  switch (verdict.cause) {
    case StallVerdict::Cause::kSilent:
      return absl::StrCat(who, names.size() == 1 ? " does" : " do",
                          " not answer: the process is frozen, or its host is cut off or "
                          "overloaded; ",
                          what);
    case StallVerdict::Cause::kBusy:
      return absl::StrCat(who,
                          " is the one that is waited for, and waits for none itself: it computes, "
                          "or hangs outside of communication; ",
                          what);
    case StallVerdict::Cause::kLeft:
      return absl::StrCat(who, " has left the job and is still waited for; ", what);
    case StallVerdict::Cause::kCircle:
      return absl::StrCat(who,
                          " waits for ranks that wait for it: the ranks call different operations, "
                          "or a link is slow; ",
                          what);
    case StallVerdict::Cause::kUnknown:
      break;
  }
  return absl::StrCat("all ranks answer, and which one is late is not known; ", what);
}

void StallInquiry::Answer(int rank, int awaited_rank) {
  const bool is_rank = awaited_rank < static_cast<int>(witnesses_.size());
  witnesses_[rank] = {State::kAnswers, is_rank ? std::max(awaited_rank, -1) : -1};
}

void StallInquiry::HasLeft(int rank) { witnesses_[rank] = {State::kLeft, -1}; }

bool StallInquiry::IsComplete(int lost_rank) const {
  for (size_t rank = 0; rank < witnesses_.size(); ++rank) {
    const bool is_silent = witnesses_[rank].state == State::kSilent;
    if (is_silent && static_cast<int>(rank) != lost_rank) return false;
  }
  return true;
}

StallVerdict StallInquiry::Judge() const {
  std::vector<int> silent;
  for (size_t rank = 0; rank < witnesses_.size(); ++rank) {
    if (witnesses_[rank].state == State::kSilent) silent.push_back(static_cast<int>(rank));
  }
  if (!silent.empty()) return {StallVerdict::Cause::kSilent, std::move(silent)};
  if (witnesses_[asker_].awaited_rank < 0) return {};
  std::vector<bool> is_seen(witnesses_.size());
  int rank = asker_;
  while (!is_seen[rank]) {
    is_seen[rank] = true;
    const int next = witnesses_[rank].awaited_rank;
    if (next < 0) {
      return {witnesses_[rank].state == State::kLeft ? StallVerdict::Cause::kLeft
                                                     : StallVerdict::Cause::kBusy,
              {rank}};
    }
    rank = next;
  }
  return {StallVerdict::Cause::kCircle, {rank}};
}

}  // namespace parplan
