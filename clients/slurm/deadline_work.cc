#include "clients/slurm/deadline_work.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/system/posix_file.h"

extern char** environ;

namespace parplan::slurm {
namespace {

constexpr size_t kMaxOutputBytes = size_t{16} << 20;
// A process that the kernel holds cannot be killed; it is left behind.
constexpr std::chrono::milliseconds kPatienceWithKilled(500);

// Does not jump when the system's time is set.
using Clock = std::chrono::steady_clock;

// Appends what can be read; false at the end.
bool ReadSome(int file, std::string& text) {
  std::array<char, 65536> buffer;
  const ssize_t count = ::read(file, buffer.data(), buffer.size());
  if (count < 0) return errno == EINTR || errno == EAGAIN;
  text.append(buffer.data(), static_cast<size_t>(count));
  return count > 0;
}

// Waits for the end of a process that has said all, or that was killed.
void Reap(pid_t child) {
  const Clock::time_point end = Clock::now() + kPatienceWithKilled;
  while (::waitpid(child, nullptr, WNOHANG) == 0 && Clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

[[noreturn]] void Work(pid_t parent, int out, const std::function<WorkResult()>& work) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  const WorkResult result = work();
  (void)WriteAll(out, absl::StrCat(result.code, " ", result.text));
  // Libraries with threads are not asked to end.
  ::_exit(0);
}

}  // namespace

absl::StatusOr<std::optional<WorkResult>> RunWithin(absl::Duration deadline,
                                                    const std::function<WorkResult()>& work) {
  const Clock::time_point end = Clock::now() + absl::ToChronoNanoseconds(deadline);
  std::array<int, 2> ends;
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return absl::InternalError(DescribeErrno(errno, "cannot create a pipe"));
  }
  const FileDescriptor in(ends[0]);
  FileDescriptor out(ends[1]);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) {
    return absl::InternalError(DescribeErrno(errno, "cannot start a process"));
  }
  if (child == 0) Work(parent, out.get(), work);
  ::setpgid(child, child);
  out.Close();
  std::string said;
  bool is_open = true;
  while (is_open) {
    const int64_t left =
        std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    pollfd waited = {.fd = in.get(), .events = POLLIN};
    const int ready = ::poll(&waited, 1, static_cast<int>(std::clamp<int64_t>(left + 1, 0, 60000)));
    if (ready > 0) {
      is_open = ReadSome(in.get(), said) && said.size() < kMaxOutputBytes;
    } else if (Clock::now() >= end) {
      ::kill(-child, SIGKILL);
      Reap(child);
      return std::optional<WorkResult>();
    }
  }
  ::kill(-child, SIGKILL);
  Reap(child);
  const size_t space = said.find(' ');
  if (space == std::string::npos) {
    return absl::InternalError("the process that did the work died of it");
  }
  return WorkResult{std::atoi(said.c_str()), said.substr(space + 1)};
}

absl::StatusOr<std::string> OutputOf(const std::vector<std::string>& arguments) {
  std::array<int, 2> ends;
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return absl::InternalError(DescribeErrno(errno, "cannot create a pipe"));
  }
  const FileDescriptor in(ends[0]);
  FileDescriptor out(ends[1]);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, out.get(), STDOUT_FILENO);
  std::vector<char*> words;
  words.reserve(arguments.size() + 1);
  for (const std::string& argument : arguments)
    words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  pid_t child = 0;
  const int failed = ::posix_spawn(&child, words.front(), &actions, nullptr, words.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  out.Close();
  if (failed != 0) {
    return absl::UnavailableError(
        DescribeErrno(failed, absl::StrCat("cannot start ", arguments.front())));
  }
  std::string text;
  while (ReadSome(in.get(), text)) {
    if (text.size() > kMaxOutputBytes) ::kill(child, SIGKILL);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    return absl::UnavailableError(absl::StrCat(arguments.front(), " failed"));
  }
  return text;
}

}  // namespace parplan::slurm
