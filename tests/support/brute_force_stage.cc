#include "tests/support/brute_force_stage.h"

#include <algorithm>
#include <array>
#include <utility>

namespace parplan {
namespace {

// Numbers of which less is never worse for anything that comes later.
using Numbers = std::array<double, 12>;

Numbers NumbersOf(const GrownStage& stage, bool only_memory) {
  const StageMemory& memory = stage.memory;
  const Bytes states =
      memory.parameters + memory.gradients + memory.optimizer_states + memory.master_parameters;
  Numbers numbers = {states.as_double(),
                     memory.gathered_all_time.as_double(),
                     memory.step.as_double(),
                     memory.bucket.as_double(),
                     memory.kept.Sum().as_double(),
                     memory.peak.extra.as_double(),
                     memory.most_transient.as_double(),
                     memory.message.as_double(),
                     static_cast<double>(stage.communicator_count)};
  if (!only_memory) {
    numbers[9] = stage.forward.value();
    numbers[10] = stage.backward.value();
    numbers[11] = stage.sync.value();
  }
  return numbers;
}

bool NowhereMore(const Numbers& a, const Numbers& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] > b[i]) return false;
  }
  return true;
}

// Numbers each equal row of a table.
int ClassOf(const std::vector<Seconds>& row, std::vector<std::vector<Seconds>>& rows) {
  const auto known = std::find(rows.begin(), rows.end(), row);
  if (known != rows.end()) return static_cast<int>(known - rows.begin());
  rows.push_back(row);
  return static_cast<int>(rows.size()) - 1;
}

}  // namespace

StageGrower::StageGrower(const PlanningProblem& problem, const CostModel& costs,
                         const PlanShape& shape, const LayerMenus& menus)
    : problem_(problem), costs_(costs), shape_(shape), menus_(menus) {
  const int depth = shape.pipeline_parallel_degree;
  for (size_t layer = 0; layer < menus.size(); ++layer) {
    const int definition = problem.model().definition_of_layer()[layer];
    std::vector<Option>& options = options_.emplace_back();
    for (const Strategy& strategy : menus[layer]) {
      Option& option = options.emplace_back();
      option.cost = costs.group(kFirstGroup)
                        .CostOfLayer(definition, strategy, shape.micro_batch_size(), depth);
      option.communicator_count = CommunicatorCount(strategy, depth, false);
    }
  }
  Classify();
  for (int layer = 0; layer < static_cast<int>(menus.size()); ++layer) {
    std::vector<int>& useful = useful_.emplace_back();
    for (size_t index = 0; index < menus[layer].size(); ++index) {
      useful.push_back(static_cast<int>(index));
    }
    std::vector<int> left;
    for (const GrownStage& stage : Grow(layer, 1, /*only_memory=*/false)) {
      left.push_back(stage.options.front());
    }
    useful = left;
  }
}

Seconds StageGrower::Transition(int layer, int from, int to) const {
  const Strategy& before = menus_[layer - 1][from];
  const Strategy& after = menus_[layer][to];
  if (before == after) return Seconds();
  return costs_.group(kFirstGroup)
      .TransitionTime(problem_.model().definition_of_layer()[layer], before, after,
                      shape_.micro_batch_size());
}

void StageGrower::Classify() {
  const bool has_pipeline = shape_.pipeline_parallel_degree > 1;
  const int ranks = problem_.device_count() / shape_.pipeline_parallel_degree;
  for (int layer = 1; layer < static_cast<int>(menus_.size()); ++layer) {
    const int sender = problem_.model().definition_of_layer()[layer - 1];
    // [from] of the layer before, to every strategy of this one; and the other way.
    std::vector<std::vector<Seconds>> behind(menus_[layer - 1].size());
    std::vector<std::vector<Seconds>> before(menus_[layer].size());
    for (size_t from = 0; from < menus_[layer - 1].size(); ++from) {
      for (size_t to = 0; to < menus_[layer].size(); ++to) {
        const Seconds moving = Transition(layer, static_cast<int>(from), static_cast<int>(to));
        behind[from].push_back(moving);
        before[to].push_back(moving);
        for (int leaves_node = 0; has_pipeline && leaves_node < 2; ++leaves_node) {
          const Seconds send = costs_.SendTime(kFirstGroup, kFirstGroup, sender,
                                               menus_[layer - 1][from], menus_[layer][to], ranks,
                                               leaves_node == 1, shape_.micro_batch_size());
          behind[from].push_back(send);
          before[to].push_back(send);
        }
      }
    }
    std::vector<std::vector<Seconds>> rows;
    for (size_t from = 0; from < behind.size(); ++from) {
      options_[layer - 1][from].class_behind = ClassOf(behind[from], rows);
    }
    rows.clear();
    for (size_t to = 0; to < before.size(); ++to) {
      options_[layer][to].class_before = ClassOf(before[to], rows);
    }
  }
}

void StageGrower::DropDominated(std::vector<GrownStage>& stages, int first,
                                bool only_memory) const {
  struct Rated {
    std::pair<int, int> classes;
    Numbers numbers;
    size_t index;
  };
  std::vector<Rated> rated;
  for (size_t index = 0; index < stages.size(); ++index) {
    const GrownStage& stage = stages[index];
    const size_t last = first + stage.options.size() - 1;
    std::pair<int, int> classes;
    if (!only_memory) {
      classes = {options_[first][stage.options.front()].class_before,
                 options_[last][stage.options.back()].class_behind};
    }
    rated.push_back({classes, NumbersOf(stage, only_memory), index});
  }
  // Dominating options come first, so one comparison with the kept options of the class is enough.
  std::sort(rated.begin(), rated.end(), [](const Rated& a, const Rated& b) {
    return std::tie(a.classes, a.numbers, a.index) < std::tie(b.classes, b.numbers, b.index);
  });
  std::vector<Numbers> kept;
  std::vector<GrownStage> left;
  for (size_t i = 0; i < rated.size(); ++i) {
    if (i > 0 && rated[i].classes != rated[i - 1].classes) kept.clear();
    const Numbers& numbers = rated[i].numbers;
    if (std::any_of(kept.begin(), kept.end(),
                    [&numbers](const Numbers& other) { return NowhereMore(other, numbers); })) {
      continue;
    }
    kept.push_back(numbers);
    left.push_back(std::move(stages[rated[i].index]));
  }
  stages = std::move(left);
}

std::vector<GrownStage> StageGrower::Grow(int first, int count, bool only_memory) const {
  std::vector<GrownStage> stages;
  if (count == 0) return {GrownStage{}};
  const int layer = first + count - 1;
  const std::vector<Option>& options = options_[layer];
  for (const GrownStage& begun : Grow(first, count - 1, only_memory)) {
    for (const int index : useful_[layer]) {
      const Option& option = options[index];
      GrownStage& stage = stages.emplace_back(begun);
      if (count > 1) {
        const Seconds moving = Transition(layer, begun.options.back(), index);
        stage.forward += moving * 0.5;
        stage.backward += moving * 0.5;
      }
      stage.options.push_back(index);
      stage.forward += option.cost.forward;
      stage.backward += option.cost.backward;
      stage.sync += option.cost.gradient_sync + option.cost.optimizer_step;
      stage.memory.Add(option.cost.memory, 1);
      stage.communicator_count = std::max(stage.communicator_count, option.communicator_count);
    }
  }
  DropDominated(stages, first, only_memory);
  return stages;
}

Bytes StageGrower::Upper(const GrownStage& stage, int index) const {
  const int depth = shape_.pipeline_parallel_degree;
  const ModelSpec& model = problem_.model();
  RankPlace place{.schedule = shape_.schedule,
                  .pipeline_parallel_degree = depth,
                  .stage_index = index,
                  .virtual_stage_count = 1,
                  .micro_batch_count = shape_.micro_batch_count,
                  .communicator_count = stage.communicator_count};
  const bool has_tied_table = model.layer(model.layer_count() - 1).tied_embedding;
  if (has_tied_table && depth > 1 && (index == 0 || index + 1 == depth)) {
    ++place.communicator_count;
  }
  const StageMemory* const memory_of_stage[] = {&stage.memory};
  const RankMemory memory = MemoryOfRank(memory_of_stage, place, costs_.runtime(),
                                         costs_.group(kFirstGroup).memory_coefficients());
  const Bytes upper =
      costs_.group(kFirstGroup)
          .overheads()
          .Upper(costs_.group(kFirstGroup)
                     .overheads()
                     .DeviceMemory(memory.tensor_bound, depth, problem_.device_count() / depth,
                                   place.communicator_count));
  return std::max(upper, memory.total.Total());
}

const std::vector<GrownStage>& StageGrower::Stages(int index, int first, int count) {
  const auto [slot, is_new] = fitting_.try_emplace({index, first, count});
  std::vector<GrownStage>& fitting = slot->second;
  if (!is_new) return fitting;
  const auto [grown, is_grown] = grown_.try_emplace({first, count});
  if (is_grown) grown->second = Grow(first, count, /*only_memory=*/false);
  for (const GrownStage& stage : grown->second) {
    if (Upper(stage, index) <= problem_.usable_memory()) fitting.push_back(stage);
  }
  // Once it fits, memory is of no interest.
  for (GrownStage& stage : fitting) {
    stage.memory = {};
    stage.communicator_count = 0;
  }
  DropDominated(fitting, first, /*only_memory=*/false);
  return fitting;
}

Bytes StageGrower::LeastMemory(int index, int first, int count) {
  const auto [grown, is_new] = grown_for_memory_.try_emplace({first, count});
  if (is_new) grown->second = Grow(first, count, /*only_memory=*/true);
  Bytes least = Bytes::Max();
  for (const GrownStage& stage : grown->second) least = std::min(least, Upper(stage, index));
  return least;
}

}  // namespace parplan
