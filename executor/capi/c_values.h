// Conversions of errors, structs and texts at the C interface. Only parplan_executor.cc includes
// it. All functions are pure but for what they write through pointers.

#ifndef PARPLAN_EXECUTOR_CAPI_C_VALUES_H_
#define PARPLAN_EXECUTOR_CAPI_C_VALUES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "executor/capi/parplan_executor.h"

namespace parplan::capi {

// Returns the parplan_status of `status` and writes an error to `error` unless that is null or the
// status OK. PERMISSION_DENIED, FAILED_PRECONDITION, and INVALID_ARGUMENT with PAYLOAD_MALFORMED
// become PARPLAN_REFUSED; any other INVALID_ARGUMENT and OUT_OF_RANGE keep their names, and all
// other codes become PARPLAN_INTERNAL. Texts that are too long for its fields are cut.
int32_t Report(const absl::Status& status, parplan_error* error);

// Calls `work`, which returns a status, and reports it; no exception leaves: one is reported as
// PARPLAN_INTERNAL.
template <typename Work>
int32_t Guarded(parplan_error* error, const Work& work) {
  try {
    return Report(work(), error);
  } catch (const std::exception& thrown) {
    return Report(absl::InternalError(thrown.what()), error);
  } catch (...) {
    return Report(absl::InternalError("a value that is no std::exception was thrown"), error);
  }
}

// Returns INVALID_ARGUMENT for an argument that is NULL.
absl::Status Missing(const char* name);

// Checks the `size` of a caller's struct. INVALID_ARGUMENT if it is smaller than a size_t, as one
// that was not set is.
absl::Status CheckSize(size_t size);

// Structs begin with `size`, so that callers of older and newer releases, which know fewer or more
// members, are understood.

// Copies as much of `value` as the caller's struct has room for, and sets its `size` to that.
template <typename Struct>
absl::Status Give(Struct value, Struct* to) {
  if (to == nullptr) return Missing("the struct to fill");
  if (absl::Status status = CheckSize(to->size); !status.ok()) return status;
  value.size = std::min(to->size, sizeof(Struct));
  std::memcpy(to, &value, value.size);
  return absl::OkStatus();
}

// Returns the caller's struct; members it does not have are zero.
template <typename Struct>
absl::StatusOr<Struct> Take(const Struct* from) {
  if (from == nullptr) return Missing("the struct to read");
  if (absl::Status status = CheckSize(from->size); !status.ok()) return status;
  Struct value = {};
  std::memcpy(&value, from, std::min(from->size, sizeof(Struct)));
  return value;
}

// Checks an index. OUT_OF_RANGE if it is not in [0, count).
absl::Status CheckIndex(const char* name, int64_t index, int64_t count);

// Returns a view of the caller's bytes, valid as long as they are; empty if there are none.
absl::string_view ViewOf(const parplan_text& text);

}  // namespace parplan::capi

#endif  // PARPLAN_EXECUTOR_CAPI_C_VALUES_H_
