#include "server/access/identity_pattern.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "proto/wire/resource_name.h"

namespace parplan {
namespace {

constexpr size_t kMaxJobBytes = 128;

bool IsJobId(absl::string_view text) {
  return !text.empty() && text.size() <= kMaxJobBytes &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '-' ||
                  c == '_';
         });
}

// Returns whether the text is the identity of a user.
bool IsUser(absl::string_view text) {
  uid_t user = 0;
  return absl::ConsumePrefix(&text, "uid:") && absl::SimpleAtoi(text, &user) &&
         Identity::OfLocalUser(user).text() == absl::StrCat("uid:", text);
}

absl::Status PatternError(absl::string_view field, absl::string_view text, absl::string_view rule) {
  return FieldError(Reason::kSpecInvalid, field, absl::StrCat("`", text, "` ", rule));
}

}  // namespace

absl::StatusOr<IdentityPattern::Segment> IdentityPattern::ReadSegment(absl::string_view text,
                                                                      absl::string_view field) {
  Segment segment;
  const size_t begin = text.find_first_of("{*}");
  segment.prefix = std::string(text.substr(0, begin));
  if (begin == absl::string_view::npos) return segment;
  absl::string_view rest = text.substr(begin);
  if (absl::ConsumePrefix(&rest, "*")) {
    segment.hole = Hole::kAnything;
  } else if (absl::ConsumePrefix(&rest, "{cluster}")) {
    segment.hole = Hole::kCluster;
  } else if (absl::ConsumePrefix(&rest, "{node}")) {
    segment.hole = Hole::kNode;
  } else if (absl::ConsumePrefix(&rest, "{job}")) {
    segment.hole = Hole::kJob;
  } else {
    return PatternError(field, text, "has a placeholder other than {cluster}, {node}, {job} and *");
  }
  if (rest.find_first_of("{*}") != absl::string_view::npos) {
    return PatternError(field, text, "has two placeholders without `/` between them");
  }
  segment.suffix = std::string(rest);
  return segment;
}

absl::StatusOr<IdentityPattern> IdentityPattern::Create(absl::string_view text,
                                                        absl::string_view field) {
  const bool is_spiffe = absl::StartsWith(text, "spiffe://");
  const bool is_dns = absl::StartsWith(text, "dns:");
  if (text != "anonymous" && !is_spiffe && !is_dns && !absl::StartsWith(text, "cn:") &&
      !absl::StartsWith(text, "k8s:") && !absl::StartsWith(text, "uid:")) {
    return PatternError(
        field, text,
        "must begin with `spiffe://`, `dns:`, `cn:`, `k8s:` or `uid:`, or be `anonymous`");
  }
  if (absl::StartsWith(text, "uid:") && text != "uid:*" && !IsUser(text)) {
    return PatternError(field, text,
                        "must be `uid:` and the number of a user (`id -u NAME` prints it) other "
                        "than 65534, or `uid:*`");
  }
  IdentityPattern pattern;
  for (const absl::string_view part : absl::StrSplit(text, '/')) {
    PARPLAN_ASSIGN_OR_RETURN(Segment segment, ReadSegment(part, field));
    if (segment.hole == Hole::kNone || segment.hole == Hole::kAnything ||
        !pattern.Has(segment.hole)) {
      pattern.segments_.push_back(std::move(segment));
    } else {
      return PatternError(field, text, "has the same placeholder twice");
    }
  }
  if (is_spiffe && (pattern.segments_[2].hole != Hole::kNone)) {
    return PatternError(field, text, "must name its trust domain without a placeholder");
  }
  if (absl::StartsWith(text, "k8s:") &&
      (pattern.segments_.size() != 2 || absl::StartsWith(text, "k8s:/") ||
       absl::EndsWith(text, "/"))) {
    return PatternError(field, text,
                        "must be `k8s:NAMESPACE/NAME`; `*` in the place of one of them stands for "
                        "all of its kind, as in `k8s:*/*`");
  }
  if (is_dns) {
    // The DNS names of identities are in lower case.
    Segment& only = pattern.segments_[0];
    absl::AsciiStrToLower(&only.prefix);
    absl::AsciiStrToLower(&only.suffix);
  }
  return pattern;
}

bool IdentityPattern::Has(Hole hole) const {
  return std::any_of(segments_.begin(), segments_.end(),
                     [hole](const Segment& segment) { return segment.hole == hole; });
}

std::optional<IdentityPattern::Captures> IdentityPattern::Match(const Identity& identity) const {
  const std::vector<absl::string_view> parts = absl::StrSplit(identity.text(), '/');
  if (parts.size() != segments_.size()) return std::nullopt;
  Captures captures;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Segment& segment = segments_[i];
    absl::string_view text = parts[i];
    if (segment.hole == Hole::kNone) {
      if (text != segment.prefix) return std::nullopt;
      continue;
    }
    if (!absl::ConsumePrefix(&text, segment.prefix) ||
        !absl::ConsumeSuffix(&text, segment.suffix) || text.empty()) {
      return std::nullopt;
    }
    switch (segment.hole) {
      case Hole::kNone:
      case Hole::kAnything:
        break;
      case Hole::kCluster:
        if (!IsResourceId(text)) return std::nullopt;
        captures.cluster = std::string(text);
        break;
      case Hole::kNode:
        if (!IsNodeId(text)) return std::nullopt;
        captures.node = std::string(text);
        break;
      case Hole::kJob:
        if (!IsJobId(text)) return std::nullopt;
        captures.job = std::string(text);
        break;
    }
  }
  return captures;
}

}  // namespace parplan
