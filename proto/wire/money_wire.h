// Conversion of the questions about money of the contract, with names of devices looked up in the
// library of data sheets. `MoneyTable` (solve/money_answer.h) calls it.

#ifndef PARPLAN_PROTO_WIRE_MONEY_WIRE_H_
#define PARPLAN_PROTO_WIRE_MONEY_WIRE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "parplan/v1/plan_service.pb.h"
#include "planner/model/money_question.h"
#include "proto/wire/hardware_library.h"

namespace parplan {

// A question about money, converted and checked.
struct AskedMoney {
  // [offer] The terms of its devices. `power_watts` is that of the question or else the power limit
  // of the data sheet; absent if neither is known. `device_kind` is that of the offer.
  std::vector<DeviceTerms> terms;
  // [offer] A sentence that says where the power is from, or that it is not known.
  std::vector<std::string> power_notes;
  RunLength length;
  MoneyLimits limits;
  int spare_node_count = 0;
  bool wants_energy = false;
};

// Converts a question for offers of these device kinds. Terms belong to an offer if both name the
// same text or the same device of the library.
//
// INVALID_ARGUMENT (SPEC_INVALID) with the path of the field below `field`: a price that is absent;
// terms of a kind that no offer has, or two for one device (`devices[i].device_kind`); no terms for
// the kind of an offer (`devices`); energy that is wanted where the power is unknown
// (`wants_energy`); a number of spare nodes out of its bounds; a Duration that is none; and what
// `DeviceTerms`, `RunLength` and `MoneyLimits` refuse.
absl::StatusOr<AskedMoney> MoneyFromProto(
    const v1::MoneyQuestion& message, absl::Span<const std::string> offered_kinds,
    absl::string_view field = "money", const HardwareLibrary& library = HardwareLibrary::BuiltIn());

}  // namespace parplan

#endif  // PARPLAN_PROTO_WIRE_MONEY_WIRE_H_
