#include "executor/apply/state_map.h"

#include <algorithm>

#include "base/check.h"
#include "executor/trainer/parameter_layout.h"

namespace parplan {
namespace {

// Returns the definition with a table of its own, as the trainer lays out a tied head that holds a
// copy of the embedding's table.
LayerDefinition WithOwnTable(LayerDefinition definition) {
  if (!definition.tied_embedding) return definition;
  definition.tied_embedding = false;
  definition.parameter_count += int64_t{definition.vocabulary_size} * definition.hidden_size;
  return definition;
}

// The interval of a layer's elements on a rank whose state of one kind the rank holds.
struct Share {
  int64_t begin = 0;
  int64_t end = 0;
};

Share ShareOf(const RankProgram& program, const LayerProgram& layer, int64_t size, StateKind kind,
              int64_t element_size) {
  const ShardingLevel needed =
      kind == StateKind::kParameters ? ShardingLevel::kParameters : ShardingLevel::kOptimizer;
  if (layer.gradient_group < 0 || layer.strategy.sharding_level < needed) return {0, size};
  const std::vector<int>& ranks = program.groups[layer.gradient_group].ranks;
  const auto count = static_cast<int64_t>(ranks.size());
  const int64_t own = std::find(ranks.begin(), ranks.end(), program.rank) - ranks.begin();
  const int64_t shard = ShardSize(size, count, element_size);
  return {std::min(size, own * shard), std::min(size, (own + 1) * shard)};
}

// Adds the elements of `tensor` that are in `share`.
void AddRuns(const ParameterTensor& tensor, int64_t first_number, const Share& share, int slot,
             std::vector<HeldRun>& runs) {
  // Whole rows are contiguous on every rank.
  const bool has_whole_rows = tensor.local_column_count == tensor.column_count;
  const int64_t piece_count = has_whole_rows ? 1 : tensor.local_row_count;
  const int64_t piece_size = has_whole_rows ? tensor.local_size() : tensor.local_column_count;
  for (int64_t piece = 0; piece < piece_count; ++piece) {
    const int64_t place = tensor.offset + piece * piece_size;
    const int64_t begin = std::max(place, share.begin);
    const int64_t end = std::min(place + piece_size, share.end);
    if (begin >= end) continue;
    const int64_t number = first_number + (tensor.first_row + piece) * tensor.column_count +
                           tensor.first_column + (begin - place);
    runs.push_back({.number = number,
                    .layer_slot = slot,
                    .offset = begin - share.begin,
                    .count = end - begin});
  }
}

}  // namespace

ParameterNumbers::ParameterNumbers(const ModelSpec& model) {
  for (int index = 0; index < model.layer_count(); ++index) {
    const LayerDefinition& definition = model.layer(index);
    const ParameterLayout layout =
        LayoutOfParameters(WithOwnTable(definition), /*tensor_parallel_degree=*/1, 0);
    for (const ParameterTensor& tensor : layout.tensors) {
      const bool is_shared =
          definition.tied_embedding && index > 0 && tensor.name == tensor_names::kTable;
      if (is_shared) {
        numbers_[{index, tensor.name}] = numbers_.at({0, tensor_names::kTable});
        continue;
      }
      numbers_[{index, tensor.name}] = count_;
      count_ += tensor.row_count * tensor.column_count;
    }
  }
}

int64_t ParameterNumbers::Of(int layer_index, const std::string& tensor) const {
  const auto found = numbers_.find({layer_index, tensor});
  PARPLAN_CHECK(found != numbers_.end());
  return found->second;
}

std::vector<HeldRun> RunsOf(const RankProgram& program, const ModelSpec& model,
                            const ParameterNumbers& numbers, StateKind kind, int64_t element_size) {
  std::vector<HeldRun> runs;
  int slot = 0;
  bool has_embedding = false;
  for (const StageProgram& stage : program.stages) {
    for (const LayerProgram& layer : stage.layers) {
      LayerDefinition definition = model.layer_definitions()[layer.definition_index];
      if (layer.layer_index == 0) has_embedding = true;
      if (definition.tied_embedding && !has_embedding) definition = WithOwnTable(definition);
      const ParameterLayout layout =
          LayoutOfParameters(definition, layer.strategy.tensor_parallel_degree, layer.place.tensor);
      const Share share = ShareOf(program, layer, layout.size, kind, element_size);
      for (const ParameterTensor& tensor : layout.tensors) {
        AddRuns(tensor, numbers.Of(layer.layer_index, tensor.name), share, slot, runs);
      }
      ++slot;
    }
  }
  std::sort(runs.begin(), runs.end(),
            [](const HeldRun& a, const HeldRun& b) { return a.number < b.number; });
  return runs;
}

std::vector<StateTransfer> TransfersTo(int to_rank, const std::vector<HeldRun>& wanted,
                                       const std::vector<std::vector<HeldRun>>& held) {
  const int rank_count = static_cast<int>(held.size());
  std::vector<std::pair<int64_t, StateTransfer>> found;
  std::vector<HeldRun> missing = wanted;
  for (int distance = 0; distance < rank_count && !missing.empty(); ++distance) {
    const int source = (to_rank + distance) % rank_count;
    std::vector<HeldRun> still_missing;
    auto have = held[source].begin();
    const auto end = held[source].end();
    for (HeldRun want : missing) {
      while (want.count > 0) {
        while (have != end && have->number + have->count <= want.number) ++have;
        // Elements before the next run that some rank holds stay missing.
        const int64_t gap = have == end
                                ? want.count
                                : std::clamp<int64_t>(have->number - want.number, 0, want.count);
        if (gap > 0) {
          still_missing.push_back({want.number, want.layer_slot, want.offset, gap});
        } else {
          const int64_t skipped = want.number - have->number;
          const int64_t count = std::min(want.count, have->count - skipped);
          found.push_back({want.number,
                           {.from_rank = source,
                            .from_slot = have->layer_slot,
                            .from_offset = have->offset + skipped,
                            .to_slot = want.layer_slot,
                            .to_offset = want.offset,
                            .count = count}});
        }
        const int64_t done = gap > 0 ? gap : found.back().second.count;
        want.number += done;
        want.offset += done;
        want.count -= done;
      }
    }
    missing = std::move(still_missing);
  }
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<StateTransfer> transfers;
  for (auto& [number, transfer] : found) transfers.push_back(transfer);
  return transfers;
}

}  // namespace parplan
