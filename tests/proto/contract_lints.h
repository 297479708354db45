// Checks what STYLE.md requires of every .proto, on a descriptor set with comments.

#ifndef PARPLAN_TESTS_PROTO_CONTRACT_LINTS_H_
#define PARPLAN_TESTS_PROTO_CONTRACT_LINTS_H_

#include <google/protobuf/descriptor.pb.h>

#include <string>
#include <vector>

namespace parplan {

// Fields, enums, enum values, services and methods without a comment, and
// methods whose comment says nothing about errors. A comment also covers the
// lines that follow its own without a blank line between. Requests and
// responses need no comment of their own: their method has it.
std::vector<std::string> MissingComments(const google::protobuf::FileDescriptorSet& contract);

// Fields and enums whose name or type breaks a rule: unsigned integers; numbers
// that count time (a Duration does, and a double `X_seconds` may repeat
// `X_duration` with all digits); sizes in other units than bytes, or in
// bytes but not int64; a Duration named neither duration nor time; a Timestamp
// that is no `_time`, `not_before` or `not_after`; an enum whose value 0 is not
// `UNSPECIFIED`; a field called `success` or `status`.
std::vector<std::string> MisnamedFields(const google::protobuf::FileDescriptorSet& contract);

}  // namespace parplan

#endif  // PARPLAN_TESTS_PROTO_CONTRACT_LINTS_H_
