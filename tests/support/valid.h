// The value of a constructor that must succeed, for problems that tests make up.

#ifndef PARPLAN_TESTS_SUPPORT_VALID_H_
#define PARPLAN_TESTS_SUPPORT_VALID_H_

#include <iostream>
#include <utility>

#include "absl/status/statusor.h"
#include "base/check.h"

namespace parplan {

// Returns the value. Writes the error and aborts if there is none.
template <typename T>
T Valid(absl::StatusOr<T> made) {
  if (!made.ok()) std::cerr << made.status() << '\n';
  PARPLAN_CHECK(made.ok());
  return *std::move(made);
}

}  // namespace parplan

#endif  // PARPLAN_TESTS_SUPPORT_VALID_H_
