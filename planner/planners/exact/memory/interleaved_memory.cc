#include "planner/planners/exact/memory/interleaved_memory.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "planner/cost/predict_plan.h"
#include "planner/model/in_flight.h"
#include "planner/planners/exact/interleaved/interleaved_paths.h"
#include "planner/planners/exact/interleaved/interleaved_plan.h"
#include "planner/planners/exact/memory/memory_options.h"
#include "planner/planners/exact/pipeline/pipeline_setting.h"

namespace parplan {
namespace {

// The memory of one layer of a definition.
struct LayerNeed {
  Bytes states;
  Bytes kept;
  Bytes transient;
  int communicator_count = 0;
};

// The plans of one partition with one mask.
class LeanPartition {
 public:
  LeanPartition(const PipelineSetting& setting, const std::vector<int>& layer_counts,
                const std::vector<std::vector<int>>& lean, Bytes& limit,
                std::optional<SmallestMemory>& best, SearchMeter& meter)
      : setting_(setting),
        layer_counts_(layer_counts),
        lean_(lean),
        counts_(setting.problem().model(), layer_counts),
        evaluator_(setting.problem(), setting.costs()),
        limit_(limit),
        best_(best),
        meter_(meter),
        needs_(lean.size()),
        chosen_(lean.size(), -1) {}

  void Run() {
    for (size_t definition = 0; definition < lean_.size(); ++definition) {
      if (lean_[definition].empty()) continue;
      order_.push_back(static_cast<int>(definition));
      SetLeast(static_cast<int>(definition));
    }
    Choose(0);
  }

 private:
  const StageOption& OptionOf(int definition, int index) const {
    return setting_.table().options(definition)[index];
  }

  void SetLeast(int definition) {
    LayerNeed& need = needs_[definition];
    const StageOption& first = OptionOf(definition, lean_[definition].front());
    need = {first.states, first.kept, first.transient, first.communicator_count};
    for (int index : lean_[definition]) {
      const StageOption& option = OptionOf(definition, index);
      need.states = std::min(need.states, option.states);
      need.kept = std::min(need.kept, option.kept);
      need.transient = std::min(need.transient, option.transient);
      need.communicator_count = std::min(need.communicator_count, option.communicator_count);
    }
  }

  // Returns the least usable memory of the fullest device.
  Bytes Needed() const {
    const int depth = setting_.depth();
    const int virtual_stage_count = counts_.stage_count() / depth;
    const MemoryOverheads& overheads = setting_.costs().searched_group().overheads();
    const int rank_count = setting_.problem().device_count() / depth;
    std::vector<Bytes> kept(virtual_stage_count);
    std::vector<int64_t> unused(virtual_stage_count);
    Bytes fullest;
    for (int device = 0; device < depth; ++device) {
      Bytes states;
      Bytes transient;
      int communicator_count = 0;
      for (int chunk = 0; chunk < virtual_stage_count; ++chunk) {
        kept[chunk] = Bytes();
        for (int definition : order_) {
          const int count = counts_.of(chunk * depth + device, definition);
          if (count == 0) continue;
          const LayerNeed& need = needs_[definition];
          states += need.states * count;
          kept[chunk] += need.kept * count;
          transient = std::max(transient, need.transient);
          communicator_count = std::max(communicator_count, need.communicator_count);
        }
      }
      const InterleavedDevice place{
          .pipeline_parallel_degree = depth,
          .virtual_stage_count = virtual_stage_count,
          .device_index = device,
          .micro_batch_count = setting_.candidate().micro_batch_count,
          .micro_batch_group_size = setting_.candidate().micro_batch_group_size};
      const Bytes tensors = states + InFlightPeak(place, kept, absl::MakeSpan(unused)) + transient;
      fullest = std::max(
          fullest, overheads.Upper(overheads.DeviceMemory(
                       tensors, depth, rank_count,
                       communicator_count + setting_.stage(device).extra_communicator_count)));
    }
    return fullest;
  }

  void Choose(size_t position) {
    // A sum over all definitions of all stages is the work of a state.
    const auto work = static_cast<int64_t>(order_.size()) * counts_.stage_count();
    if (!meter_.Expand(1) || !meter_.Work(work) || Needed() >= limit_) return;
    if (position == order_.size()) return Try();
    const int definition = order_[position];
    for (int index : lean_[definition]) {
      const StageOption& option = OptionOf(definition, index);
      needs_[definition] = {option.states, option.kept, option.transient,
                            option.communicator_count};
      chosen_[definition] = index;
      Choose(position + 1);
    }
    SetLeast(definition);
  }

  void Try() {
    if (!NeighboursAgree(setting_, chosen_)) return;
    Plan plan = InterleavedPlan(setting_, layer_counts_, chosen_,
                                setting_.candidate().micro_batch_group_size);
    const Bytes needed = evaluator_.Evaluate(plan).peak_memory_upper;
    if (needed >= limit_) return;
    limit_ = needed;
    best_ = SmallestMemory{.usable_memory = needed, .plan = std::move(plan)};
  }

  const PipelineSetting& setting_;
  const std::vector<int>& layer_counts_;
  const std::vector<std::vector<int>>& lean_;
  const StageCounts counts_;
  PlanEvaluator evaluator_;
  Bytes& limit_;
  std::optional<SmallestMemory>& best_;
  SearchMeter& meter_;
  // [definition] memory of the chosen option, or the least.
  std::vector<LayerNeed> needs_;
  std::vector<int> chosen_;
  // Definitions that layers have.
  std::vector<int> order_;
};

}  // namespace

std::optional<SmallestMemory> SmallestInterleavedMemory(const StrategySpace& space,
                                                        const CostModel& costs,
                                                        const OptionTable& table,
                                                        const PipelineCandidate& candidate,
                                                        Bytes limit, SearchMeter& meter) {
  const PlanningProblem& problem = space.problem();
  const int depth = candidate.pipeline_parallel_degree;
  // Only the parts of the setting that do not depend on the schedule are used.
  PipelineCandidate place = candidate;
  place.schedule = kDefaultSchedule;
  const PipelineSetting setting(space, costs, table, place, problem.usable_memory());
  std::optional<SmallestMemory> best;
  const std::vector<InterleavedPartition> partitions = InterleavedPartitionsOf(space, depth).listed;
  for (const OptionMask& mask : PlanWideMasks(space, table, /*keeps=*/nullptr, meter.Worker())) {
    if (!meter.ShouldContinue()) break;
    const std::vector<std::vector<int>> lean = LeanOptions(problem.model(), table, mask);
    for (const InterleavedPartition& partition : partitions) {
      if (!FitsPassLimit(candidate.micro_batch_count, partition.virtual_stage_count * depth)) {
        continue;
      }
      LeanPartition(setting, partition.layer_counts, lean, limit, best, meter).Run();
    }
  }
  return best;
}

}  // namespace parplan
