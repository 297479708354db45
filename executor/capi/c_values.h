// How errors, structs and texts cross the C interface.

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

// The code of `status`; fills `error`, unless it is null or all is well. Texts that are too long
// for its fields are cut.
int32_t Tell(const absl::Status& status, parplan_error* error);

// Calls `work`, which gives a status; nothing it throws gets out.
template <typename Work>
int32_t Guarded(parplan_error* error, const Work& work) {
  try {
    return Tell(work(), error);
  } catch (const std::exception& thrown) {
    return Tell(absl::InternalError(thrown.what()), error);
  } catch (...) {
    return Tell(absl::InternalError("something else than an exception was thrown"), error);
  }
}

// INVALID_ARGUMENT for an argument that is NULL.
absl::Status Missing(const char* name);

// INVALID_ARGUMENT where the caller has not said how large its struct is.
absl::Status CheckSize(size_t size);

// Structs begin with `size`, by which callers that know fewer fields, or more, are understood.

// Copies as much of `value` as the caller has room for.
template <typename Struct>
absl::Status Give(Struct value, Struct* to) {
  if (to == nullptr) return Missing("the struct to fill");
  if (absl::Status status = CheckSize(to->size); !status.ok()) return status;
  value.size = std::min(to->size, sizeof(Struct));
  std::memcpy(to, &value, value.size);
  return absl::OkStatus();
}

// What the caller gave, zeros where its struct is shorter.
template <typename Struct>
absl::StatusOr<Struct> Take(const Struct* from) {
  if (from == nullptr) return Missing("the struct to read");
  if (absl::Status status = CheckSize(from->size); !status.ok()) return status;
  Struct value = {};
  std::memcpy(&value, from, std::min(from->size, sizeof(Struct)));
  return value;
}

// OUT_OF_RANGE for an index that is not below `count`.
absl::Status CheckIndex(const char* name, int64_t index, int64_t count);

// Empty where there is no text. Valid as long as the caller's bytes.
absl::string_view ViewOf(const parplan_text& text);

}  // namespace parplan::capi

#endif  // PARPLAN_EXECUTOR_CAPI_C_VALUES_H_
