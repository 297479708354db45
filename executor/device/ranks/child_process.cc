#include "executor/device/ranks/child_process.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/system/posix_file.h"

namespace parplan {
namespace {

// The message of a child that could not become the program: the failed call and its errno.
struct LaunchFailure {
  int error;
  enum Step { kProgram, kCore } step;
};

struct Pipe {
  Socket read;
  Socket write;
};

// Moves a descriptor above those that the child's are moved to.
absl::StatusOr<Socket> MoveUp(Socket low) {
  const int high = ::fcntl(low.descriptor(), F_DUPFD_CLOEXEC, kResultDescriptor + 1);
  if (high < 0) return absl::ResourceExhaustedError(DescribeErrno(errno, "dup"));
  return Socket(high);
}

absl::StatusOr<Pipe> MakePipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return absl::ResourceExhaustedError(DescribeErrno(errno, "pipe"));
  }
  Pipe made = {.read = Socket(ends[0]), .write = Socket(ends[1])};
  PARPLAN_ASSIGN_OR_RETURN(made.write, MoveUp(std::move(made.write)));
  return made;
}

std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// The code of the child between fork and exec. It makes system calls only: other threads of this
// process may have held locks when it forked.
struct Becoming {
  char* const* argv;
  char* const* environment;
  const cpu_set_t* cores;
  pid_t parent;
  pid_t group;
  int input;
  int errors;
  int result;
  int failure;

  [[noreturn]] void Fail(LaunchFailure::Step step) const {
    const LaunchFailure told = {.error = errno, .step = step};
    (void)!::write(failure, &told, sizeof(told));
    ::_exit(127);
  }

  [[noreturn]] void Run() const {
    ::setpgid(0, group);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    // The parent may have died before the call above.
    if (::getppid() != parent) ::_exit(127);
    sigset_t none;
    sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    // Shells ignore these signals for their background jobs, and children inherit that.
    ::signal(SIGINT, SIG_DFL);
    ::signal(SIGTERM, SIG_DFL);
    if (cores != nullptr && ::sched_setaffinity(0, sizeof(*cores), cores) != 0) {
      Fail(LaunchFailure::kCore);
    }
    ::dup2(input, STDIN_FILENO);
    ::dup2(errors, STDERR_FILENO);
    ::dup2(result, kResultDescriptor);
    ::syscall(SYS_close_range, kResultDescriptor + 1, ~0U, CLOSE_RANGE_CLOEXEC);
    ::execve(argv[0], argv, environment);
    Fail(LaunchFailure::kProgram);
  }
};

absl::Status StatusOf(const LaunchFailure& failure, const ChildOptions& options) {
  if (failure.step == LaunchFailure::kCore) {
    return absl::FailedPreconditionError(DescribeErrno(
        failure.error, absl::StrCat("cannot bind a process to processor ", options.core)));
  }
  const std::string message =
      DescribeErrno(failure.error, absl::StrCat("cannot run ", options.argv[0]));
  return failure.error == ENOENT   ? absl::NotFoundError(message)
         : failure.error == EACCES ? absl::PermissionDeniedError(message)
                                   : absl::InternalError(message);
}

}  // namespace

absl::StatusOr<ChildProcess> StartChild(const ChildOptions& options) {
  ChildProcess child;
  PARPLAN_ASSIGN_OR_RETURN(Pipe errors, MakePipe());
  PARPLAN_ASSIGN_OR_RETURN(Pipe result, MakePipe());
  PARPLAN_ASSIGN_OR_RETURN(Pipe failure, MakePipe());
  PARPLAN_ASSIGN_OR_RETURN(const Socket input,
                           MoveUp(Socket(::open("/dev/null", O_RDONLY | O_CLOEXEC))));
  const std::vector<char*> argv = Pointers(options.argv);
  const std::vector<char*> environment = Pointers(options.environment);
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (options.core >= 0) CPU_SET(options.core, &cores);
  const Becoming becoming = {.argv = argv.data(),
                             .environment = environment.data(),
                             .cores = options.core >= 0 ? &cores : nullptr,
                             .parent = ::getpid(),
                             .group = options.group,
                             .input = input.descriptor(),
                             .errors = errors.write.descriptor(),
                             .result = result.write.descriptor(),
                             .failure = failure.write.descriptor()};
  child.pid = ::fork();
  if (child.pid == 0) becoming.Run();
  if (child.pid < 0) {
    return absl::ResourceExhaustedError(DescribeErrno(errno, "cannot fork"));
  }
  // Parent and child both set the group, since either may run first.
  ::setpgid(child.pid, options.group);
  failure.write.Close();
  LaunchFailure told;
  ssize_t size = 0;
  do {
    size = ::read(failure.read.descriptor(), &told, sizeof(told));
  } while (size < 0 && errno == EINTR);
  if (size == static_cast<ssize_t>(sizeof(told))) {
    ::waitpid(child.pid, nullptr, 0);
    return StatusOf(told, options);
  }
  child.end = Socket(static_cast<int>(::syscall(SYS_pidfd_open, child.pid, 0)));
  if (!child.end.is_open()) {
    const int error = errno;
    ::kill(child.pid, SIGKILL);
    ::waitpid(child.pid, nullptr, 0);
    return absl::InternalError(DescribeErrno(error, "pidfd_open"));
  }
  for (Socket* const end : {&errors.read, &result.read}) {
    ::fcntl(end->descriptor(), F_SETFL, O_NONBLOCK);
  }
  child.errors = std::move(errors.read);
  child.result = std::move(result.read);
  return child;
}

}  // namespace parplan
