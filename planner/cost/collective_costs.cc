#include "planner/cost/collective_costs.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace parplan {

CollectiveCosts::CollectiveCosts(const ProfileSnapshot& profile, int devices_per_node,
                                 std::optional<FabricTime> fabric, bool allow_estimates)
    : measured_(profile, devices_per_node), allow_estimates_(allow_estimates) {
  if (allow_estimates) fabric_ = fabric;
}

void CollectiveCosts::Resolve(Collective collective, const std::set<GroupShape>& shapes,
                              ResolutionNotes& notes) {
  std::vector<std::string> other_stride;
  std::vector<std::string> unlike;
  std::vector<std::string> data_sheet;
  for (const GroupShape& shape : shapes) {
    switch (measured_.Resolve(collective, shape)) {
      case CollectiveTimes::Source::kOtherStride:
        other_stride.push_back(GroupShapeText(shape));
        [[fallthrough]];
      case CollectiveTimes::Source::kMeasured:
      case CollectiveTimes::Source::kHalfAllReduce:
        measured_shapes_.insert({collective, shape});
        continue;
      case CollectiveTimes::Source::kEstimated:
        if (!allow_estimates_) break;
        if (fabric_.has_value()) {
          data_sheet.push_back(GroupShapeText(shape));
        } else {
          measured_shapes_.insert({collective, shape});
          unlike.push_back(GroupShapeText(shape));
        }
        continue;
      case CollectiveTimes::Source::kMissing:
        if (!fabric_.has_value()) break;
        data_sheet.push_back(GroupShapeText(shape));
        continue;
    }
    notes.missing.push_back(
        absl::StrCat(CollectiveName(collective), " on ", GroupShapeText(shape)));
  }
  const auto note = [&](const char* from, const std::vector<std::string>& noted) {
    if (noted.empty()) return;
    notes.estimated.push_back(absl::StrCat(CollectiveName(collective), ": taken from ", from,
                                           " for ", absl::StrJoin(noted, "; ")));
  };
  note("the nearest stride of as many ranks", other_stride);
  note("the most similar group", unlike);
  // If all shapes come from the data sheet, which is the usual case, one note is enough.
  if (!data_sheet.empty() && data_sheet.size() == shapes.size()) {
    notes.estimated.push_back(
        absl::StrCat(CollectiveName(collective), ": taken from the data sheet of the links"));
  } else {
    note("the data sheet of the links", data_sheet);
  }
}

Seconds CollectiveCosts::Time(Collective collective, const GroupShape& shape,
                              double message_bytes) const {
  if (shape.participant_count <= 1) return Seconds();
  if (fabric_.has_value() && !measured_shapes_.contains({collective, shape})) {
    return fabric_->Time(collective, shape, message_bytes);
  }
  return measured_.Time(collective, shape, message_bytes);
}

}  // namespace parplan
