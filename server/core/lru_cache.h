// A map of bounded size that drops the entry that was unused for longest. The caches of `PlanCore`,
// `ShapeCore`, `CalibrationCore` and `ExecutionCore` are such maps.

#ifndef PARPLAN_SERVER_CORE_LRU_CACHE_H_
#define PARPLAN_SERVER_CORE_LRU_CACHE_H_

#include <cstddef>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

namespace parplan {

// Keys are whole texts and no hashes, so different questions never share an entry. `Value` must be
// cheap to copy, for example a shared pointer. Safe to use from any thread.
template <typename Value>
class LruCache {
 public:
  // Keeps at most `max_bytes` of entries, twice their keys and some 200 bytes for each included;
  // with 0, none.
  explicit LruCache(size_t max_bytes) : max_bytes_(max_bytes) {}

  LruCache(const LruCache&) = delete;
  LruCache& operator=(const LruCache&) = delete;

  // Returns a copy of the value, nothing if there is none, and counts the entry as used.
  std::optional<Value> Get(const std::string& key) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = entries_.find(key);
    if (found == entries_.end()) return std::nullopt;
    order_.splice(order_.begin(), order_, found->second.position);
    return found->second.value;
  }

  // Adds an entry, or replaces the one of the same key. `value_bytes` is the memory of the value,
  // with what it points to. An entry above `max_bytes` is not kept, and the one of the same key is
  // dropped.
  void Put(const std::string& key, Value value, size_t value_bytes) {
    const size_t bytes = 2 * key.size() + value_bytes + kEntryBytes;
    const std::lock_guard<std::mutex> lock(mutex_);
    EraseLocked(key);
    if (bytes > max_bytes_) return;
    while (used_bytes_ + bytes > max_bytes_) EraseLocked(std::string(order_.back()));
    order_.push_front(key);
    entries_.emplace(key, Entry{std::move(value), bytes, order_.begin()});
    used_bytes_ += bytes;
  }

 private:
  // Memory that the two containers add to an entry: nodes, pointers and strings, rounded up.
  static constexpr size_t kEntryBytes = 200;

  struct Entry {
    Value value;
    size_t bytes;
    std::list<std::string>::iterator position;
  };

  void EraseLocked(const std::string& key) {
    const auto found = entries_.find(key);
    if (found == entries_.end()) return;
    used_bytes_ -= found->second.bytes;
    order_.erase(found->second.position);
    entries_.erase(found);
  }

  const size_t max_bytes_;
  std::mutex mutex_;
  size_t used_bytes_ = 0;                           // Guarded by mutex_.
  std::list<std::string> order_;                    // Guarded by mutex_; last used first.
  std::unordered_map<std::string, Entry> entries_;  // Guarded by mutex_.
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_CORE_LRU_CACHE_H_
