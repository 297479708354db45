// PARPLAN_CHECK: a fact that only a mistake of ours can break. Prints it and
// ends the process, close to the mistake. What users or the world can get
// wrong is an `absl::Status` instead.

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
