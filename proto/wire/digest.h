// Digests of values: SHA-256, in lower-case hexadecimal, of a canonical text that this project
// defines. Protobuf's serialization is not canonical, so it is never hashed, except for signed
// bytes as they are.
//
// A canonical text has lines that end in "\n". The first names the kind of value and the version of
// its form (`parplan topology 1`). A line is words separated by one space: a keyword, then values.
// Integers are decimal, doubles "%.17g", booleans 0 or 1, enums their number in the contract,
// absent values `-`. Strings are in double quotes, with `"`, `\` and all bytes outside 0x20 to 0x7e
// as `\xHH`. Lines whose order has no meaning are sorted by their bytes. The text of a value never
// changes, so older digests stay: a field of a later release adds words or lines only where it is
// set, some of them under a higher version number. digest_test.cc has golden values.
//
// The server and `planctl plan` write the digests of model and topology into a plan; launch and
// executor compare both with what they are given, exports that of the model.

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

// Returns the SHA-256 of `bytes`: 64 lower-case hexadecimal digits.
std::string Sha256Hex(absl::string_view bytes);

// Returns the digest of every field: cluster, groups, node names and tiers, in their order, and the
// fabric if one is named.
std::string TopologyDigest(const Topology& topology);

// Returns the digest of what is trained: precision, optimizer, and each layer in order with its
// sequence length. `model_id`, `layer_definition_id`, unused definitions and the division of equal
// layers into runs do not matter.
std::string ModelDigest(const ModelSpec& model);

// Returns the digest of a layer: of every field except `layer_definition_id` and `sequence_length`,
// and of the precision. Two layers of one precision have equal digests if `SameLayer` holds.
std::string LayerDigest(const LayerDefinition& definition, Precision precision);

// Returns the digest of a profile as uploaded: of every field except `name`, `create_time` and
// `digest`. The order of definitions, timings (of layers, collectives and optimizers) and memories
// does not matter. Uploads with one `request_id` are compared by this digest.
std::string ProfileContentDigest(const v1::Profile& profile);

// Returns the digest of measurements as the planner reads them: kind and size of node, layers by
// `LayerDigest`, points. Order, local ids and provenance do not matter; `content.digest` is
// ignored.
std::string SnapshotDigest(const ProfileSnapshot::Content& content);
// The same for a caller that has the `LayerDigest` of each of `content.layers`. REQUIRES: they are
// right; aborts if there are fewer or more.
std::string SnapshotDigest(const ProfileSnapshot::Content& content,
                           const std::vector<std::string>& layer_digests);

// Return the canonical texts of two of the digests, for tests and for people who ask why two
// digests differ.
std::string TopologyText(const Topology& topology);
std::string ModelText(const ModelSpec& model);

// Returns the key of a question, 64 digits as above: equal questions have equal keys. The digests
// are those of this header; `planner` is a name of `FindPlan`, `planner_version` its release.
// Limits of the search are not part of the key, since a plan of a search that a limit ended is not
// stored under its key. The runtime counts by its id. `hardware_digest` is the digest of the data
// sheets (empty for an unknown device), `calibration_digest` that of the calibration (empty for
// `Calibration::BuiltIn()`).
std::string PlanKey(absl::string_view model_digest, absl::string_view topology_digest,
                    absl::string_view snapshot_digest, int64_t global_batch_size,
                    const PlanningRules& rules, absl::string_view planner,
                    absl::string_view planner_version, absl::string_view hardware_digest = "",
                    absl::string_view calibration_digest = "");

}  // namespace parplan

#endif  // PARPLAN_PROTO_WIRE_DIGEST_H_
