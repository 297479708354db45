// Conversion of enums of the contract to enums of the planner, which have the same numbers. The
// other conversions of this folder and the probe of the agent call it.

#ifndef PARPLAN_PROTO_WIRE_ENUM_WIRE_H_
#define PARPLAN_PROTO_WIRE_ENUM_WIRE_H_

#include <google/protobuf/descriptor.h>
#include <google/protobuf/generated_enum_reflection.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/error.h"

namespace parplan {

// Returns the names of an enum's values except the one numbered 0, for error messages.
inline std::string EnumValueNames(const google::protobuf::EnumDescriptor& descriptor) {
  std::vector<std::string> names;
  for (int i = 0; i < descriptor.value_count(); ++i) {
    if (descriptor.value(i)->number() != 0) names.push_back(descriptor.value(i)->name());
  }
  return absl::StrJoin(names, ", ");
}

// Returns the value with the same number. INVALID_ARGUMENT (`reason`) naming `field` and the known
// values, for 0 and for numbers that the contract of this release does not have. REQUIRES: `To` has
// a value for each number of `From`; not checked here (model_wire.cc checks it with assertions).
template <typename To, typename From>
absl::StatusOr<To> EnumFromProto(From value, absl::string_view field, Reason reason) {
  const google::protobuf::EnumDescriptor& descriptor = *google::protobuf::GetEnumDescriptor<From>();
  if (value == 0 || descriptor.FindValueByNumber(value) == nullptr) {
    return FieldError(reason, field,
                      absl::StrCat("must be one of ", EnumValueNames(descriptor),
                                   value == 0 ? "" : absl::StrCat(", not number ", value)));
  }
  return static_cast<To>(value);
}

}  // namespace parplan

#endif  // PARPLAN_PROTO_WIRE_ENUM_WIRE_H_
