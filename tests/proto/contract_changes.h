// What a change of the contract would break for those who use it.

#ifndef PARPLAN_TESTS_PROTO_CONTRACT_CHANGES_H_
#define PARPLAN_TESTS_PROTO_CONTRACT_CHANGES_H_

#include <google/protobuf/descriptor.pb.h>

#include <string>
#include <vector>

namespace parplan {

// What readers or writers of `before` would miss in `after`, one sentence an
// entry: messages, fields, enums, enum values, services and methods that are
// gone; fields of another number, name, type, label, presence or oneof; enum
// values of another number; methods of another request, response or streaming.
// Additions are none of it. Only packages that begin with `parplan` count.
std::vector<std::string> BreakingChanges(const google::protobuf::FileDescriptorSet& before,
                                         const google::protobuf::FileDescriptorSet& after);

}  // namespace parplan

#endif  // PARPLAN_TESTS_PROTO_CONTRACT_CHANGES_H_
