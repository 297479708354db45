// Keeps the latest of the files that a journal (window_journal.h) set aside for people to look at.
// `WindowJournal` has one.

#ifndef PARPLAN_CLIENTS_KUBERNETES_ASIDE_FILES_H_
#define PARPLAN_CLIENTS_KUBERNETES_ASIDE_FILES_H_

#include <cstddef>
#include <deque>
#include <string>
#include <utility>

namespace parplan::sidecar {

// The files `*.refused` and `*.damaged` of a folder. Not thread-safe.
class AsideFiles {
 public:
  // Further files remove the oldest: a server that refuses one window tends to refuse all. 100 is
  // not measured: enough to see a pattern, and a small share of the journal's disk space.
  static constexpr size_t kMaxCount = 100;

  explicit AsideFiles(std::string folder) : folder_(std::move(folder)) {}

  // Finds the files of an earlier process; the first in the order of names counts as the oldest. A
  // folder that can't be read has none. Called once, before the first `Add`. Removes nothing.
  void Load();
  // Counts `file`, a file that was just made in the folder, by its name without the folder, and
  // removes the oldest beyond `kMaxCount`; failures are ignored.
  void Add(const std::string& file);

 private:
  const std::string folder_;
  // Names without the folder, the oldest first.
  std::deque<std::string> files_;
};

}  // namespace parplan::sidecar

#endif  // PARPLAN_CLIENTS_KUBERNETES_ASIDE_FILES_H_
