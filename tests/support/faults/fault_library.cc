// A library that is loaded before others (LD_PRELOAD) and makes calls to the system of a program
// fail, or moves its clock, as a test says. tests/integration/fault_test.py and the tests beside it
// that import it are its users.
//
// PARPLAN_FAULTS names a file of six numbers of 64 bits in the order of the processor (`Control`).
// The program reads them at every call, so the test may change them while the program runs.
// Without PARPLAN_FAULTS nothing fails.

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace {

// The kinds of calls, as bits of `Control::kinds`.
constexpr int64_t kWrite = 1;       // Bytes, sizes and names of regular files.
constexpr int64_t kFlush = 2;       // fsync and fdatasync.
constexpr int64_t kDescriptor = 4;  // Files and sockets that are opened, and connections.
constexpr int64_t kRead = 8;        // Bytes of regular files.
constexpr int64_t kRemove = 16;     // Names that are removed, and folders that are made.

struct Control {
  std::atomic<int64_t> kinds;  // Calls that are counted.
  std::atomic<int64_t> error;  // The value of errno that failing calls have.
  std::atomic<int64_t> first;  // Counted calls from this number on, from 0, ...
  std::atomic<int64_t> last;   // ... up to this one fail.
  std::atomic<int64_t> count;  // Calls that were counted.
  std::atomic<int64_t> clock;  // Seconds that the time of day is ahead.
};
static_assert(std::atomic<int64_t>::is_always_lock_free);

Control* Map() {
  const char* const path = std::getenv("PARPLAN_FAULTS");
  if (path == nullptr) return nullptr;
  const auto next = reinterpret_cast<int (*)(const char*, int, ...)>(dlsym(RTLD_NEXT, "open"));
  const int file = next(path, O_RDWR | O_CLOEXEC);
  if (file < 0) return nullptr;
  void* const map = mmap(nullptr, sizeof(Control), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  return map == MAP_FAILED ? nullptr : static_cast<Control*>(map);
}

Control* TheControl() {
  static Control* const control = Map();
  return control;
}

// Counts a call, and returns whether it is to fail, with errno set.
bool Fails(int64_t kind) {
  Control* const control = TheControl();
  if (control == nullptr || (control->kinds & kind) == 0) return false;
  const int64_t number = control->count.fetch_add(1);
  if (number < control->first || number > control->last) return false;
  errno = static_cast<int>(control->error);
  return true;
}

// Writes to sockets, pipes and the log, which is standard error, do not count.
bool IsFile(int file) {
  struct stat info = {};
  return file > STDERR_FILENO && fstat(file, &info) == 0 && S_ISREG(info.st_mode);
}

bool FailsWrite(int file) { return IsFile(file) && Fails(kWrite); }
bool FailsRead(int file) { return IsFile(file) && Fails(kRead); }

template <typename Function>
Function Next(Function /*type*/, const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

}  // namespace

// Defines the function `name` of the system, which fails with -1 where `fails` says so.
#define PARPLAN_FAULTY(result, name, parameters, arguments, fails) \
  extern "C" result name parameters {                              \
    static const auto next = Next(&name, #name);                   \
    return (fails) ? static_cast<result>(-1) : next arguments;     \
  }

// The system's headers name parameters with underscores, which only the system may do.
// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name)
PARPLAN_FAULTY(ssize_t, write, (int file, const void* data, size_t size), (file, data, size),
               FailsWrite(file))
PARPLAN_FAULTY(ssize_t, writev, (int file, const iovec* parts, int count), (file, parts, count),
               FailsWrite(file))
PARPLAN_FAULTY(ssize_t, pwrite, (int file, const void* data, size_t size, off_t at),
               (file, data, size, at), FailsWrite(file))
PARPLAN_FAULTY(ssize_t, pwrite64, (int file, const void* data, size_t size, off64_t at),
               (file, data, size, at), FailsWrite(file))
PARPLAN_FAULTY(int, ftruncate, (int file, off_t size), (file, size), FailsWrite(file))
PARPLAN_FAULTY(int, ftruncate64, (int file, off64_t size), (file, size), FailsWrite(file))
PARPLAN_FAULTY(ssize_t, read, (int file, void* data, size_t size), (file, data, size),
               FailsRead(file))
PARPLAN_FAULTY(int, fsync, (int file), (file), Fails(kFlush))
PARPLAN_FAULTY(int, fdatasync, (int file), (file), Fails(kFlush))
PARPLAN_FAULTY(int, accept4, (int file, sockaddr* address, socklen_t* size, int flags),
               (file, address, size, flags), Fails(kDescriptor))
PARPLAN_FAULTY(int, socket, (int domain, int type, int protocol), (domain, type, protocol),
               Fails(kDescriptor))

extern "C" int rename(const char* from, const char* to) noexcept {
  static const auto next = Next(&rename, "rename");
  return Fails(kWrite) ? -1 : next(from, to);
}

extern "C" int unlink(const char* path) noexcept {
  static const auto next = Next(&unlink, "unlink");
  return Fails(kRemove) ? -1 : next(path);
}

extern "C" int mkdir(const char* path, mode_t mode) noexcept {
  static const auto next = Next(&mkdir, "mkdir");
  return Fails(kRemove) ? -1 : next(path, mode);
}

// Files that are only read count as descriptors, those that may be made as writes, too.
#define PARPLAN_FAULTY_OPEN(name, parameters, arguments) \
  extern "C" int name parameters {                       \
    static const auto next = Next(&name, #name);         \
    mode_t mode = 0;                                     \
    if ((flags & (O_CREAT | __O_TMPFILE)) != 0) {        \
      va_list rest;                                      \
      va_start(rest, flags);                             \
      mode = va_arg(rest, mode_t);                       \
      va_end(rest);                                      \
      if (Fails(kWrite)) return -1;                      \
    }                                                    \
    return Fails(kDescriptor) ? -1 : next arguments;     \
  }

PARPLAN_FAULTY_OPEN(open, (const char* path, int flags, ...), (path, flags, mode))
PARPLAN_FAULTY_OPEN(open64, (const char* path, int flags, ...), (path, flags, mode))
PARPLAN_FAULTY_OPEN(openat, (int folder, const char* path, int flags, ...),
                    (folder, path, flags, mode))
PARPLAN_FAULTY_OPEN(openat64, (int folder, const char* path, int flags, ...),
                    (folder, path, flags, mode))

extern "C" int clock_gettime(clockid_t clock, timespec* now) noexcept {
  static const auto next = Next(&clock_gettime, "clock_gettime");
  const int result = next(clock, now);
  const Control* const control = TheControl();
  if (clock == CLOCK_REALTIME && control != nullptr) now->tv_sec += control->clock;
  return result;
}
// NOLINTEND(readability-inconsistent-declaration-parameter-name)
