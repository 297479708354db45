#include "base/service/listen/user_numbers.h"

#include <fcntl.h>

#include <utility>

namespace parplan {
namespace {

// A number that is spare here may be in use elsewhere in this process, and a new one too.
constexpr int kMaxAttempts = 64;

FileDescriptor CopyFrom(const FileDescriptor& connection, int lowest) {
  return FileDescriptor(fcntl(connection.get(), F_DUPFD_CLOEXEC, lowest));
}

}  // namespace

FileDescriptor UserNumbers::Place(FileDescriptor connection, uid_t user) {
  std::set<int>& spare = spare_[user];
  const auto own = user_of_.find(connection.get());
  if (own != user_of_.end() && own->second == user) {
    spare.erase(connection.get());
    return connection;
  }
  // One that the user has already, so that a user who comes and goes has few.
  int attempts = 0;
  for (auto number = spare.begin(); number != spare.end() && attempts < kMaxAttempts; ++number) {
    ++attempts;
    FileDescriptor copy = CopyFrom(connection, *number);
    if (copy.get() != *number) continue;
    spare.erase(number);
    return copy;
  }
  for (attempts = 0; attempts < kMaxAttempts && connection.is_open(); ++attempts) {
    const auto [place, is_new] = user_of_.emplace(connection.get(), user);
    if (is_new || place->second == user) {
      spare.erase(connection.get());
      return connection;
    }
    // The next number that no user has.
    int free = place->first;
    for (auto taken = place; taken != user_of_.end() && taken->first == free; ++taken) {
      ++free;
    }
    connection = CopyFrom(connection, free);
  }
  return {};
}

void UserNumbers::Ended(int number) {
  const auto found = user_of_.find(number);
  if (found != user_of_.end()) spare_[found->second].insert(number);
}

std::optional<uid_t> UserNumbers::UserOf(int number) const {
  const auto found = user_of_.find(number);
  if (found == user_of_.end()) return std::nullopt;
  return found->second;
}

}  // namespace parplan
