// What a journal set aside for people, the latest alone.

#ifndef PARPLAN_CLIENTS_KUBERNETES_ASIDE_FILES_H_
#define PARPLAN_CLIENTS_KUBERNETES_ASIDE_FILES_H_

#include <cstddef>
#include <deque>
#include <string>
#include <utility>

namespace parplan::sidecar {

// Files `*.refused` and `*.damaged` of a folder. Of one thread at a time.
class AsideFiles {
 public:
  // A server that refuses goes on refusing: more are removed, the oldest first.
  static constexpr size_t kMaxCount = 100;

  explicit AsideFiles(std::string folder) : folder_(std::move(folder)) {}

  // Finds those of an earlier process, in the order of their names.
  void Load();
  // `file` is new in the folder.
  void Add(const std::string& file);

 private:
  const std::string folder_;
  // Names without the folder, the oldest first.
  std::deque<std::string> files_;
};

}  // namespace parplan::sidecar

#endif  // PARPLAN_CLIENTS_KUBERNETES_ASIDE_FILES_H_
