// PARPLAN_CHECK(condition): aborts the process with the condition, file and line if it is false, in
// builds of every kind; the condition is evaluated once.
// Only for facts that a bug in this project alone can break; errors of users and of the world are
// an `absl::Status` instead.

#ifndef PARPLAN_BASE_CHECK_H_
#define PARPLAN_BASE_CHECK_H_

namespace parplan::internal {

// Prints "file:line: check failed: condition" to stderr and aborts.
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition);

}  // namespace parplan::internal

#define PARPLAN_CHECK(condition)                                        \
  do {                                                                  \
    if (!(condition)) [[unlikely]]                                      \
      ::parplan::internal::CheckFailed(__FILE__, __LINE__, #condition); \
  } while (false)

#endif  // PARPLAN_BASE_CHECK_H_
