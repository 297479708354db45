// Numbers of descriptors by which connections of Unix sockets are known, each for one user.
// `ConnectionGate` has one.

#ifndef PARPLAN_BASE_SERVICE_LISTEN_USER_NUMBERS_H_
#define PARPLAN_BASE_SERVICE_LISTEN_USER_NUMBERS_H_

#include <sys/types.h>

#include <map>
#include <optional>
#include <set>

#include "base/system/posix_file.h"

namespace parplan {

// Gives every number to one user for good. gRPC names a connection by its descriptor (`fd:9`), and
// the system gives the number to the next connection as soon as this one is closed, while a call of
// it may still be on its way to its method: the name must not be that of another user then.
//
// A user keeps as many numbers as it ever had connections at a time, so what one user may have at a
// time must be limited. Not safe for use from several threads.
class UserNumbers {
 public:
  // Returns the connection under a number that no other user had; the number may be another one
  // than before. Closes it and returns nothing open if there is none below the limit of descriptors
  // of this process, or none was found in a few attempts.
  FileDescriptor Place(FileDescriptor connection, uid_t user);

  // The connection with this number has ended; its user may have the number again. Ignores a number
  // that no user has.
  void Ended(int number);

  // Returns who has the number.
  std::optional<uid_t> UserOf(int number) const;

 private:
  std::map<int, uid_t> user_of_;
  // By user, numbers of connections that have ended.
  std::map<uid_t, std::set<int>> spare_;
};

}  // namespace parplan

#endif  // PARPLAN_BASE_SERVICE_LISTEN_USER_NUMBERS_H_
