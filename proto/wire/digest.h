// Names made of content: SHA-256, in lower-case hexadecimal, over a canonical
// text of our own. Protobuf's serialization is not canonical and is never
// hashed (bytes that were signed excepted, as bytes).
//
// Canonical text: lines ending in "\n", the first names what it is and the
// version of its form (`parplan topology 1`). A line is words separated by one
// space: a keyword, then values. Integers are decimal, doubles "%.17g", booleans
// 0 or 1, enums their number in the contract, absent values `-`. Strings are in
// double quotes, with `"`, `\` and all bytes outside 0x20 to 0x7e as `\xHH`.
// Lines whose order means nothing are sorted as bytes. A form never changes: a
// new field means a new version number, hence new digests. digest_test.cc
// holds golden values.

#ifndef PARPLAN_PROTO_WIRE_DIGEST_H_
#define PARPLAN_PROTO_WIRE_DIGEST_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "parplan/v1/profile.pb.h"
#include "planner/model/model_spec.h"
#include "planner/model/planning_problem.h"
#include "planner/model/profile_snapshot.h"
#include "planner/model/topology.h"

namespace parplan {

// SHA-256 of `bytes`: 64 lower-case hexadecimal digits.
std::string Sha256Hex(absl::string_view bytes);

// Every field: cluster, groups, node names and tiers, in their order.
std::string TopologyDigest(const Topology& topology);

// What is trained: precision, optimizer, and each layer in order with its
// sequence length. `model_id`, `layer_definition_id`, unused definitions and
// how equal layers are cut into runs do not matter.
std::string ModelDigest(const ModelSpec& model);

// What a layer is: every field but `layer_definition_id` and `sequence_length`,
// and the precision. Two layers have equal digests when `SameLayer` holds.
std::string LayerDigest(const LayerDefinition& definition, Precision precision);

// A profile as uploaded: every field as written but `name`, `create_time` and
// `digest`. The order of definitions, timings, memories and collectives does
// not matter. Same digest, same content: what a repeated `request_id` is
// compared by.
std::string ProfileContentDigest(const v1::Profile& profile);

// Measurements as the planner reads them: kind and size of node, layers by
// `LayerDigest`, points. Neither order nor local ids nor provenance matter;
// `content.digest` is not read.
std::string SnapshotDigest(const ProfileSnapshot::Content& content);

// The canonical texts behind two of the digests, for tests and for people who
// wonder why two differ.
std::string TopologyText(const Topology& topology);
std::string ModelText(const ModelSpec& model);

// What makes two questions equal. The digests are those of this header;
// `planner` is a name for `FindPlan`, `planner_version` its release. Limits of
// the search are not part of it: a search that a limit ended is not kept under
// its key. `hardware_digest` is of the data sheets (empty: unknown device),
// `calibration_digest` of the calibration (empty: the built-in one).
std::string PlanKey(absl::string_view model_digest, absl::string_view topology_digest,
                    absl::string_view snapshot_digest, int64_t global_batch_size,
                    const PlanningRules& rules, absl::string_view planner,
                    absl::string_view planner_version, absl::string_view hardware_digest = "",
                    absl::string_view calibration_digest = "");

}  // namespace parplan

#endif  // PARPLAN_PROTO_WIRE_DIGEST_H_
