// Keeps file descriptor numbers of different users apart, because gRPC names a connection of a Unix
// socket by its number. `ConnectionGate` has one.

#ifndef PARPLAN_BASE_SERVICE_LISTEN_USER_NUMBERS_H_
#define PARPLAN_BASE_SERVICE_LISTEN_USER_NUMBERS_H_

#include <sys/types.h>

#include <map>
#include <optional>
#include <set>

#include "base/system/posix_file.h"

namespace parplan {

// The owners of file descriptor numbers: once a user has a number, no other user ever gets it.
// gRPC names a connection by its descriptor (`fd:9`), and the system gives the number to the next
// connection as soon as this one is closed. A call of the closed connection may then still be on
// its way to its method, and its name must not be that of another user.
//
// A user keeps as many numbers as it ever had connections at one time, so the caller must limit how
// many one user has at one time. Not safe for use from several threads.
class UserNumbers {
 public:
  // Returns the connection under a number that no other user ever had, if necessary a duplicate
  // with another number; the original is then closed. Closes the connection and returns a
  // descriptor that is not open if the process may have no descriptor of such a number, or none was
  // found in 64 attempts. O(n) for n numbers that were given out.
  FileDescriptor Place(FileDescriptor connection, uid_t user);

  // Records that the connection with this number has ended, so that its user may get the number
  // again. Ignores a number that no user has.
  void Ended(int number);

  // Returns the user who has the number, also after its connection ended; nothing if none ever had
  // it.
  std::optional<uid_t> UserOf(int number) const;

 private:
  std::map<int, uid_t> user_of_;
  // By user, numbers of connections that have ended.
  std::map<uid_t, std::set<int>> spare_;
};

}  // namespace parplan

#endif  // PARPLAN_BASE_SERVICE_LISTEN_USER_NUMBERS_H_
