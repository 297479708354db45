#include "executor/exec/machine_watch.h"

#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "executor/apply/window_gather.h"

namespace parplan {

std::optional<MachineCounters> MachineWatch::Read() const {
  absl::StatusOr<MachineCounters> counters = reader_.Read();
  if (!counters.ok()) return std::nullopt;
  return *std::move(counters);
}

void MachineWatch::BeginStep() {
  if (has_begun_) return;
  has_begun_ = true;
  begin_ = Read();
}

void MachineWatch::EndWindow() {
  ++window_count_;
  end_ = Read();
  if (window_count_ == 2) begin_ = after_first_;
  after_first_ = window_count_ == 1 ? end_ : std::nullopt;
}

absl::StatusOr<std::optional<MachineUse>> MachineWatch::Combine(Communicator& everyone) const {
  std::string own;
  if (begin_.has_value() && end_.has_value()) own = UseBetween(*begin_, *end_).ToText();
  PARPLAN_ASSIGN_OR_RETURN(const std::vector<std::string> texts, GatherTexts(own, everyone));
  std::vector<RankMachineUse> uses;
  for (const std::string& text : texts) {
    if (text.empty()) return std::nullopt;
    PARPLAN_ASSIGN_OR_RETURN(RankMachineUse use, RankMachineUse::FromText(text));
    uses.push_back(std::move(use));
  }
  return CombineUses(uses);
}

}  // namespace parplan
