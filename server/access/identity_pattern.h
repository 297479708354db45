// Patterns of identities, with which grants name many callers at once. `Policy` has one for each
// identity of a grant.
//
//   spiffe://lab.example/cluster/{cluster}/node/{node}
//   dns:{node}.nodes.lab.example
//   cn:planner-*
//   k8s:{cluster}/planner
//   uid:1000
//
// A placeholder stands for one or more characters without `/`, and between two `/` there is at most
// one, so an identity matches in one way only. `{cluster}`, `{node}` and `{job}` stand for an id
// and capture it; `*` stands for anything and captures nothing.

#ifndef PARPLAN_SERVER_ACCESS_IDENTITY_PATTERN_H_
#define PARPLAN_SERVER_ACCESS_IDENTITY_PATTERN_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/access/identity.h"

namespace parplan {

// Immutable.
class IdentityPattern {
 public:
  // The texts that the placeholders stood for; absent for those the pattern lacks.
  struct Captures {
    std::optional<std::string> cluster;
    std::optional<std::string> node;
    std::optional<std::string> job;
    friend bool operator==(const Captures&, const Captures&) = default;
  };

  // Returns the pattern of `text`. INVALID_ARGUMENT (SPEC_INVALID) naming `field` unless `text` is
  // `anonymous` or begins with `spiffe://`, `dns:`, `cn:`, `k8s:` or `uid:`; if it has two
  // placeholders between two `/`, one other than `*` twice, one in a trust domain, or an unknown
  // one; for a service account that is no `k8s:NAMESPACE/NAME`; and for a user that is neither a
  // number in the form of `Identity::OfLocalUser` nor `uid:*`. Other texts that no identity matches
  // are not refused.
  static absl::StatusOr<IdentityPattern> Create(absl::string_view text, absl::string_view field);

  // Returns the captures, nothing if the identity does not match. Upper and lower case differ, but
  // letters of a `dns:` pattern count as lower case. A capture is an id of its kind
  // (proto/wire/resource_name.h); that of a job has 1 to 128 letters, digits, `.`, `-` and `_`.
  std::optional<Captures> Match(const Identity& identity) const;

  // Return whether the pattern has the placeholder.
  bool has_cluster() const { return Has(Hole::kCluster); }
  bool has_node() const { return Has(Hole::kNode); }
  bool has_job() const { return Has(Hole::kJob); }

 private:
  enum class Hole { kNone, kAnything, kCluster, kNode, kJob };
  // The text between two `/`.
  struct Segment {
    std::string prefix;
    Hole hole = Hole::kNone;
    std::string suffix;
  };

  static absl::StatusOr<Segment> ReadSegment(absl::string_view text, absl::string_view field);
  bool Has(Hole hole) const;

  std::vector<Segment> segments_;
};

}  // namespace parplan

#endif  // PARPLAN_SERVER_ACCESS_IDENTITY_PATTERN_H_
