// The DSSE payload type of a plan, which says how to parse the signed bytes. The signature covers
// it, so bytes that were signed as one type are not valid as another. The signer writes it and the
// verifier demands it.

#ifndef PARPLAN_PROTO_ENVELOPE_PAYLOAD_TYPE_H_
#define PARPLAN_PROTO_ENVELOPE_PAYLOAD_TYPE_H_

namespace parplan {

// Type of a serialized `parplan.v1.PlanPayload`.
inline constexpr char kPlanPayloadType[] = "application/vnd.parplan.plan.v1+protobuf";

}  // namespace parplan

#endif  // PARPLAN_PROTO_ENVELOPE_PAYLOAD_TYPE_H_
