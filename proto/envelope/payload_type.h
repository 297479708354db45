// The DSSE payload type of a plan: what the signed bytes are. It is part of what
// is signed, so bytes signed as one type cannot be passed off as another.

#ifndef PARPLAN_PROTO_ENVELOPE_PAYLOAD_TYPE_H_
#define PARPLAN_PROTO_ENVELOPE_PAYLOAD_TYPE_H_

namespace parplan {

// A serialized `parplan.v1.PlanPayload`.
inline constexpr char kPlanPayloadType[] = "application/vnd.parplan.plan.v1+protobuf";

}  // namespace parplan

#endif  // PARPLAN_PROTO_ENVELOPE_PAYLOAD_TYPE_H_
