// The facts of a job at its rendezvous: which ranks have come, and what they have published.
// `RendezvousServer` keeps one.

#ifndef PARPLAN_EXECUTOR_DEVICE_COMM_JOB_FACTS_H_
#define PARPLAN_EXECUTOR_DEVICE_COMM_JOB_FACTS_H_

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace parplan {

// REQUIRES, unchecked: ranks are from 0 to `world_size` - 1.
class JobFacts {
 public:
  explicit JobFacts(int world_size) : world_size_(world_size) {}

  // Records that the rank has come; it is no longer refused.
  void Join(int rank);
  // Records why a connection that called itself `rank` was refused.
  void Refuse(int rank, const std::string& why) { refusals_[rank] = why; }
  // Returns the ranks that have come, also those that have left again.
  const std::set<int>& joined() const { return joined_; }

  // Keeps a fact that `rank` publishes. Returns INVALID_ARGUMENT, as a predicate of the rank, if
  // the fact is another rank's (`OwnerOfFact`) or contradicts what was published before.
  absl::Status Publish(int rank, const std::string& key, const std::string& value);
  // Returns the fact's value, or null if no rank has published it.
  const std::string* Find(const std::string& key) const;

  // Returns the ranks that have not come yet and those that were refused, for people; empty if all
  // are here.
  std::string Missing() const;
  // Returns the hosts that ranks have published: [rank], empty if it is not known.
  std::vector<std::string> Hosts() const;
  // Returns whether `ranks`, distinct ones, are all that are on other hosts than `rank`, and more
  // than one: `rank` then reaches no other host.
  bool AreAllOnOtherHosts(const std::vector<int>& ranks, int rank) const;

 private:
  int world_size_;
  std::set<int> joined_;
  // By rank, why a connection that took its name was refused last.
  std::map<int, std::string> refusals_;
  std::map<std::string, std::string> facts_;
};

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_DEVICE_COMM_JOB_FACTS_H_
