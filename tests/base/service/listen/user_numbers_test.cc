#include "base/service/listen/user_numbers.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <utility>
#include <vector>

namespace parplan {
namespace {

// A socket at the lowest free number, as an accepted connection has.
FileDescriptor Connection() {
  return FileDescriptor(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
}

// Number of the file behind a descriptor.
ino_t FileOf(const FileDescriptor& descriptor) {
  struct stat found = {};
  EXPECT_EQ(fstat(descriptor.get(), &found), 0);
  return found.st_ino;
}

TEST(UserNumbers, GivesANumberToOneUserForGood) {
  UserNumbers numbers;
  FileDescriptor first = numbers.Place(Connection(), 1);
  const int number = first.get();
  EXPECT_EQ(numbers.UserOf(number), 1u);
  numbers.Ended(number);
  first.Close();
  // The system gives the number again.
  FileDescriptor given = Connection();
  ASSERT_EQ(given.get(), number);
  const ino_t file = FileOf(given);
  const FileDescriptor other = numbers.Place(std::move(given), 2);
  EXPECT_NE(other.get(), number);
  EXPECT_EQ(FileOf(other), file);
  EXPECT_EQ(numbers.UserOf(other.get()), 2u);
  EXPECT_EQ(numbers.UserOf(number), 1u);
}

TEST(UserNumbers, GivesAUserItsOldNumberFirst) {
  UserNumbers numbers;
  FileDescriptor first = numbers.Place(Connection(), 1);
  const int number = first.get();
  numbers.Ended(number);
  first.Close();
  const FileDescriptor in_the_way = Connection();
  ASSERT_EQ(in_the_way.get(), number);
  // While something else has it, another one; then it again, wherever the connection was.
  FileDescriptor second = numbers.Place(Connection(), 1);
  EXPECT_NE(second.get(), number);
  const int second_number = second.get();
  numbers.Ended(second_number);
  second.Close();
  FileDescriptor a = Connection();
  FileDescriptor b = Connection();
  const FileDescriptor third = numbers.Place(std::move(b), 1);
  EXPECT_NE(third.get(), number);
  a.Close();
  for (int i = 0; i < 100; ++i) {
    FileDescriptor again = numbers.Place(Connection(), 1);
    EXPECT_LE(again.get(), third.get() + 1);
    numbers.Ended(again.get());
  }
}

TEST(UserNumbers, TurnsAwayWhoFindsNone) {
  UserNumbers numbers;
  std::vector<FileDescriptor> held;
  for (int i = 0; i < 10; ++i) held.push_back(numbers.Place(Connection(), 1));
  for (const FileDescriptor& each : held) EXPECT_TRUE(each.is_open());
  EXPECT_FALSE(numbers.Place(FileDescriptor(), 2).is_open());
  EXPECT_FALSE(numbers.UserOf(1 << 20).has_value());
}

}  // namespace
}  // namespace parplan
