// Finds changes of the contract that would break its users.

#ifndef PARPLAN_TESTS_PROTO_CONTRACT_CHANGES_H_
#define PARPLAN_TESTS_PROTO_CONTRACT_CHANGES_H_

#include <google/protobuf/descriptor.pb.h>

#include <string>
#include <vector>

namespace parplan {

// Returns what readers or writers of `before` would miss in `after`, one sentence for each: removed
// messages, fields, enums, enum values, services and methods; fields with another number, name,
// type, label, presence or oneof; enum values with another number; methods with another request,
// response or streaming. Additions are not listed. Only packages that begin with `parplan` count.
std::vector<std::string> BreakingChanges(const google::protobuf::FileDescriptorSet& before,
                                         const google::protobuf::FileDescriptorSet& after);

}  // namespace parplan

#endif  // PARPLAN_TESTS_PROTO_CONTRACT_CHANGES_H_
