// PARPLAN_RETURN_IF_ERROR(expression): returns the status of `expression`, an `absl::Status`, from
// the enclosing function, which returns a status or a `StatusOr`, unless it is OK.
//
// PARPLAN_ASSIGN_OR_RETURN(target, expression): assigns the value of a `StatusOr` to `target`
// (which may be a declaration), or returns its status. It is several statements, so it cannot be
// the body of an `if` without braces. Two in one scope need two lines, since the line number is
// part of a variable's name. A type with a comma, such as `std::map<K, V>`, needs `auto` or a name
// of its own. Both macros evaluate their expression once.

#ifndef PARPLAN_BASE_STATUS_MACROS_H_
#define PARPLAN_BASE_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define PARPLAN_RETURN_IF_ERROR(expression)            \
  do {                                                 \
    absl::Status parplan_status_ = (expression);       \
    if (!parplan_status_.ok()) return parplan_status_; \
  } while (false)

#define PARPLAN_CONCAT_INNER_(a, b) a##b
#define PARPLAN_CONCAT_(a, b) PARPLAN_CONCAT_INNER_(a, b)

#define PARPLAN_ASSIGN_OR_RETURN(target, expression) \
  PARPLAN_ASSIGN_OR_RETURN_IMPL_(PARPLAN_CONCAT_(parplan_result_, __LINE__), target, expression)

#define PARPLAN_ASSIGN_OR_RETURN_IMPL_(result, target, expression) \
  auto result = (expression);                                      \
  if (!result.ok()) return result.status();                        \
  target = *std::move(result)

#endif  // PARPLAN_BASE_STATUS_MACROS_H_
