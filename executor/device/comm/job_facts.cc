#include "executor/device/comm/job_facts.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "executor/device/comm/frame.h"

namespace parplan {

void JobFacts::Join(int rank) {
  joined_.insert(rank);
  refusals_.erase(rank);
}

absl::Status JobFacts::Publish(int rank, const std::string& key, const std::string& value) {
  if (const int owner = OwnerOfFact(key); owner >= 0 && owner != rank) {
    return absl::InvalidArgumentError(
        absl::StrCat("it publishes the fact ", key, ", which is rank ", owner, "'s"));
  }
  const auto [fact, is_new] = facts_.emplace(key, value);
  if (is_new || fact->second == value) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("it contradicts the published fact ", key));
}

const std::string* JobFacts::Find(const std::string& key) const {
  const auto fact = facts_.find(key);
  return fact == facts_.end() ? nullptr : &fact->second;
}

std::string JobFacts::Missing() const {
  std::vector<int> missing;
  for (int rank = 0; rank < world_size_; ++rank) {
    if (!joined_.contains(rank)) missing.push_back(rank);
  }
  if (missing.empty()) return "";
  std::string text =
      absl::StrCat(missing.size() == 1 ? "rank " : "ranks ", absl::StrJoin(missing, ", "),
                   missing.size() == 1 ? " has" : " have", " not come");
  for (const auto& [rank, why] : refusals_) {
    absl::StrAppend(&text, "; one that called itself rank ", rank, " was refused: ", why);
  }
  return text;
}

std::vector<std::string> JobFacts::Hosts() const {
  std::vector<std::string> hosts(world_size_);
  for (int rank = 0; rank < world_size_; ++rank) {
    const std::string* const fact = Find(RankFact(rank));
    if (fact == nullptr) continue;
    const std::vector<std::string> parts = absl::StrSplit(*fact, ' ');
    hosts[rank] = parts.back().substr(0, parts.back().rfind(':'));
  }
  return hosts;
}

bool JobFacts::AreAllOnOtherHosts(const std::vector<int>& ranks, int rank) const {
  const std::vector<std::string> hosts = Hosts();
  const auto is_here = [&](int other) { return hosts[other] == hosts[rank]; };
  size_t away_count = 0;
  for (int other = 0; other < world_size_; ++other) away_count += is_here(other) ? 0 : 1;
  return away_count > 1 && ranks.size() == away_count &&
         std::none_of(ranks.begin(), ranks.end(), is_here);
}

}  // namespace parplan
