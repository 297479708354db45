#include "server/core/fair_queue.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/check.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "server/core/quota_error.h"

namespace parplan {
namespace {

// The time after which to ask again: as if every search took a second, since their times are not
// known; at most half a minute, so that a caller sees soon that the queue is short again. Not
// measured.
absl::Duration RetryAfter(int waiting, int worker_count) {
  return absl::Seconds(std::clamp(waiting / worker_count, 1, 30));
}

}  // namespace

FairQueue::FairQueue(const Bounds& bounds) : bounds_(bounds) {
  PARPLAN_CHECK(bounds.max_length >= 1);
  PARPLAN_CHECK(bounds.worker_count >= 1);
}

absl::Status FairQueue::CheckQuotas(const SearchPlace& place) const {
  const absl::Duration retry = RetryAfter(waiting_, bounds_.worker_count);
  const int of_holder = waiting_of(place.holder);
  if (!place.holder.empty() && bounds_.max_waiting_of_holder > 0 &&
      of_holder >= bounds_.max_waiting_of_holder) {
    return QuotaError({.quota = "identity.queued_searches",
                       .holder = place.holder,
                       .limit = bounds_.max_waiting_of_holder,
                       .value = of_holder + 1,
                       .retry = retry},
                      "wait for the answers to earlier questions");
  }
  const auto cluster = clusters_.find(place.cluster);
  const int of_cluster = cluster == clusters_.end() ? 0 : cluster->second.waiting;
  if (bounds_.max_waiting_of_cluster > 0 && of_cluster >= bounds_.max_waiting_of_cluster) {
    return QuotaError({.quota = "cluster.queued_searches",
                       .holder = place.cluster,
                       .limit = bounds_.max_waiting_of_cluster,
                       .value = of_cluster + 1,
                       .retry = retry},
                      "wait for the answers to earlier questions about this cluster");
  }
  return absl::OkStatus();
}

absl::Status FairQueue::FullError(const char* cause) const {
  return WithRetryDelay(
      MakeError(absl::StatusCode::kResourceExhausted, Reason::kQueueFull,
                absl::StrCat(waiting_, " searches wait already", cause, "; ask again later"),
                {{"queueLength", absl::StrCat(waiting_)}}),
      RetryAfter(waiting_, bounds_.worker_count));
}

absl::Status FairQueue::DisplacedError() const {
  return FullError(", and yours made room for a caller with fewer of them");
}

std::optional<FairQueue::Displaced> FairQueue::FindDisplaced(const std::string& holder) const {
  const auto longest =
      std::max_element(holders_.begin(), holders_.end(), [](const auto& a, const auto& b) {
        return a.second.waiting.size() < b.second.waiting.size();
      });
  // With a difference of one, the two would only change places.
  if (longest == holders_.end() ||
      static_cast<int>(longest->second.waiting.size()) < waiting_of(holder) + 2) {
    return std::nullopt;
  }
  return Displaced{*longest->second.waiting.rbegin(), longest->first};
}

absl::StatusOr<FairQueue::Added> FairQueue::Add(const SearchPlace& place) {
  PARPLAN_RETURN_IF_ERROR(CheckQuotas(place));
  Added added;
  if (waiting_ >= bounds_.max_length) {
    added.displaced = FindDisplaced(place.holder);
    if (!added.displaced.has_value()) return FullError("");
    RemoveWaiting(added.displaced->id);
  }
  added.id = ++last_id_;
  places_[added.id] = place;
  holders_[place.holder].waiting.insert(added.id);
  ++clusters_[place.cluster].waiting;
  ++waiting_;
  return added;
}

std::optional<FairQueue::Id> FairQueue::NextOf(const std::string& name,
                                               const Holder& holder) const {
  if (!name.empty() && bounds_.max_running_of_holder > 0 &&
      holder.running >= bounds_.max_running_of_holder) {
    return std::nullopt;
  }
  for (const Id id : holder.waiting) {
    if (bounds_.max_running_of_cluster == 0 ||
        clusters_.at(places_.at(id).cluster).running < bounds_.max_running_of_cluster) {
      return id;
    }
  }
  return std::nullopt;
}

std::optional<FairQueue::Id> FairQueue::Take() {
  // Running searches and last start of its holder, and its id.
  std::optional<std::tuple<int, int64_t, Id>> best;
  for (const auto& [name, holder] : holders_) {
    const std::optional<Id> id = NextOf(name, holder);
    if (!id.has_value()) continue;
    const std::tuple<int, int64_t, Id> rank = {holder.running, holder.last_start, *id};
    if (!best.has_value() || rank < *best) best = rank;
  }
  if (!best.has_value()) return std::nullopt;
  const Id next = std::get<2>(*best);
  const SearchPlace& place = places_.at(next);
  Holder& holder = holders_[place.holder];
  holder.waiting.erase(next);
  ++holder.running;
  holder.last_start = ++start_count_;
  Cluster& cluster = clusters_[place.cluster];
  --cluster.waiting;
  ++cluster.running;
  --waiting_;
  ++running_;
  return next;
}

void FairQueue::End(Id id) {
  const auto found = places_.find(id);
  PARPLAN_CHECK(found != places_.end());
  const SearchPlace place = std::move(found->second);
  places_.erase(found);
  --holders_[place.holder].running;
  --clusters_[place.cluster].running;
  --running_;
  Tidy(place);
}

void FairQueue::Share(Id id, const std::string& holder) {
  const auto found = places_.find(id);
  if (found == places_.end() || found->second.holder == holder) return;
  Holder& present = holders_[found->second.holder];
  const int waiting = waiting_of(holder);
  const auto found_other = holders_.find(holder);
  const Holder none;
  const Holder& other = found_other == holders_.end() ? none : found_other->second;
  const int running = other.running;
  if (present.waiting.count(id) == 0 || waiting + 1 >= static_cast<int>(present.waiting.size()) ||
      running > present.running) {
    return;
  }
  const auto turn = [id](const Holder& of) {
    return std::pair(std::distance(of.waiting.begin(), of.waiting.lower_bound(id)), of.last_start);
  };
  if (turn(other) > turn(present)) return;
  if (!holder.empty() &&
      ((bounds_.max_waiting_of_holder > 0 && waiting >= bounds_.max_waiting_of_holder) ||
       (bounds_.max_running_of_holder > 0 && running >= bounds_.max_running_of_holder))) {
    return;
  }
  present.waiting.erase(id);
  holders_[holder].waiting.insert(id);
  found->second.holder = holder;
}

std::vector<FairQueue::Id> FairQueue::Clear() {
  std::vector<Id> dropped;
  for (const auto& [name, holder] : holders_) {
    dropped.insert(dropped.end(), holder.waiting.begin(), holder.waiting.end());
  }
  std::sort(dropped.begin(), dropped.end());
  for (const Id id : dropped) RemoveWaiting(id);
  return dropped;
}

int FairQueue::waiting_of(const std::string& holder) const {
  const auto found = holders_.find(holder);
  return found == holders_.end() ? 0 : static_cast<int>(found->second.waiting.size());
}

void FairQueue::RemoveWaiting(Id id) {
  const auto found = places_.find(id);
  const SearchPlace place = std::move(found->second);
  places_.erase(found);
  holders_[place.holder].waiting.erase(id);
  --clusters_[place.cluster].waiting;
  --waiting_;
  Tidy(place);
}

void FairQueue::Tidy(const SearchPlace& place) {
  if (const auto found = holders_.find(place.holder);
      found->second.waiting.empty() && found->second.running == 0) {
    holders_.erase(found);
  }
  if (const auto found = clusters_.find(place.cluster);
      found->second.waiting == 0 && found->second.running == 0) {
    clusters_.erase(found);
  }
}

}  // namespace parplan
