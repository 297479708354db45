// Judges by their signs of life whether the servers that hold turns still work. `PostgresTurns` has
// one.

#ifndef PARPLAN_SERVER_STORE_HOLDER_WATCH_H_
#define PARPLAN_SERVER_STORE_HOLDER_WATCH_H_

#include <map>
#include <string>

#include "absl/time/time.h"

namespace parplan {

// The holders of the turns that this server waits for. A holder that is lost or cut off keeps its
// lock until the database ends its session, and one that is frozen keeps it as long as it is, so
// who waits goes by the signs of life instead. All times are of one steady clock. Used by one
// thread at a time.
class HolderWatch {
 public:
  explicit HolderWatch(absl::Duration longest_silence) : longest_silence_(longest_silence) {}

  // Begins to watch the holder of `key`; does nothing if it is watched already. Its silence counts
  // from here.
  void Begin(const std::string& key, absl::Duration now) { last_signs_.emplace(key, now); }
  // End the watch of one holder, if it is watched, or of all.
  void End(const std::string& key) { last_signs_.erase(key); }
  void EndAll() { last_signs_.clear(); }

  // Records a sign of life of the holder of `key`; ignored unless it is watched.
  void Heard(const std::string& key, absl::Duration now) {
    const auto found = last_signs_.find(key);
    if (found != last_signs_.end()) found->second = now;
  }

  // Returns whether the holder of `key` is watched and has been silent for `longest_silence`.
  bool IsSilent(const std::string& key, absl::Duration now) const {
    const auto found = last_signs_.find(key);
    return found != last_signs_.end() && now - found->second >= longest_silence_;
  }

 private:
  const absl::Duration longest_silence_;
  std::map<std::string, absl::Duration> last_signs_;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_STORE_HOLDER_WATCH_H_
