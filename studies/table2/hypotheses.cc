#include "studies/table2/hypotheses.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"

namespace parplan::table2 {
namespace {

constexpr Definition kDefinitions[kDefinitionCount] = {Definition::kPeak,
                                                       Definition::kPersistent,
                                                       Definition::kWeights,
                                                       Definition::kRedundant,
                                                       Definition::kActivations,
                                                       Definition::kTemporary,
                                                       Definition::kActivationsAndTemporary,
                                                       Definition::kProgram,
                                                       Definition::kProgramActivations,
                                                       Definition::kProgramRedundant};

double LogError(double ours, double theirs) {
  return std::log(std::max(ours, kLeastMb) / std::max(theirs, kLeastMb));
}

// Returns ours of the last column to each of the others, row by row.
std::vector<double> RatiosOf(absl::Span<const std::array<double, kColumnCount>> memory_mb) {
  std::vector<double> ratios;
  for (const std::array<double, kColumnCount>& row : memory_mb) {
    for (int column = 0; column < kRatioCount; ++column) {
      ratios.push_back(std::max(row[static_cast<int>(Column::kTheirs)], kLeastMb) /
                       std::max(row[column], kLeastMb));
    }
  }
  return ratios;
}

double MeanOfMagnitudes(absl::Span<const double> values) {
  double sum = 0.0;
  for (const double value : values) sum += std::fabs(value);
  return values.empty() ? 0.0 : sum / static_cast<double>(values.size());
}

// REQUIRES: values.
double MedianOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return 0.5 * (values[(values.size() - 1) / 2] + values[values.size() / 2]);
}

std::vector<double> RanksOf(absl::Span<const double> values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin;
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    for (size_t i = begin; i < end; ++i) {
      ranks[order[i]] = 0.5 * static_cast<double>(begin + end - 1);
    }
    begin = end;
  }
  return ranks;
}

// The plans of all rows under every batch, for one precision and optimizer.
class PlanGrid {
 public:
  using Cells = std::array<TableMemory, kColumnCount>;

  PlanGrid(const PublishedTable& table, std::string device, Precision precision,
           Optimizer optimizer)
      : table_(table), device_(std::move(device)), precision_(precision), optimizer_(optimizer) {}

  absl::Status Fill() {
    for (size_t row = 0; row < table_.rows.size(); ++row) {
      const int devices = table_.rows[row].device_count;
      std::set<int64_t> batches;
      for (const int64_t batch : kTriedBatches) {
        batches.insert(batch);
        batches.insert(batch * devices);
      }
      for (const int64_t batch : batches) {
        Cells& cells = cells_[{row, batch}];
        for (int column = 0; column < kColumnCount; ++column) {
          PARPLAN_ASSIGN_OR_RETURN(cells[column], MemoryOfPlan({.model = table_.rows[row].model,
                                                                .device_count = devices,
                                                                .global_batch_size = batch,
                                                                .precision = precision_,
                                                                .optimizer = optimizer_,
                                                                .device = device_},
                                                               static_cast<Column>(column)));
        }
      }
    }
    return absl::OkStatus();
  }

  // Adds the hypotheses of all definitions and batch rules.
  void AddHypotheses(std::vector<Hypothesis>& hypotheses) const {
    for (const Definition definition : kDefinitions) {
      for (const int64_t batch : kTriedBatches) {
        Add(
            definition, BatchRule::kGlobal, absl::StrCat(batch), [batch](size_t) { return batch; },
            hypotheses);
        Add(
            definition, BatchRule::kPerDevice, absl::StrCat(batch, " a device"),
            [this, batch](size_t row) { return batch * table_.rows[row].device_count; },
            hypotheses);
      }
      AddFitted(
          definition, BatchRule::kByDeviceCount,
          [](const PublishedRow& row) { return absl::StrCat(row.device_count); }, hypotheses);
      AddFitted(
          definition, BatchRule::kByModel, [](const PublishedRow& row) { return row.model; },
          hypotheses);
    }
  }

 private:
  std::array<double, kColumnCount> OverheadsOf(size_t row, int64_t batch,
                                               Definition definition) const {
    std::array<double, kColumnCount> overheads;
    const Cells& cells = cells_.at({row, batch});
    for (int column = 0; column < kColumnCount; ++column) {
      overheads[column] = OverheadOf(cells[column], definition);
    }
    return overheads;
  }

  void Add(Definition definition, BatchRule rule, std::string text,
           const std::function<int64_t(size_t)>& batch_of,
           std::vector<Hypothesis>& hypotheses) const {
    Hypothesis hypothesis{.definition = definition,
                          .precision = precision_,
                          .optimizer = optimizer_,
                          .rule = rule,
                          .batches = {},
                          .batch_text = std::move(text),
                          .memory_mb = {}};
    for (size_t row = 0; row < table_.rows.size(); ++row) {
      hypothesis.batches.push_back(batch_of(row));
      hypothesis.memory_mb.push_back(OverheadsOf(row, batch_of(row), definition));
    }
    Judge(table_, hypothesis);
    hypotheses.push_back(std::move(hypothesis));
  }

  // Takes the batch with the least error for each group of rows.
  void AddFitted(Definition definition, BatchRule rule,
                 const std::function<std::string(const PublishedRow&)>& group_of,
                 std::vector<Hypothesis>& hypotheses) const {
    std::vector<std::string> groups;
    for (const PublishedRow& row : table_.rows) {
      if (std::find(groups.begin(), groups.end(), group_of(row)) == groups.end()) {
        groups.push_back(group_of(row));
      }
    }
    std::map<std::string, int64_t> batch_of_group;
    std::vector<std::string> texts;
    for (const std::string& group : groups) {
      double least = std::numeric_limits<double>::infinity();
      for (const int64_t batch : kTriedBatches) {
        double error = 0.0;
        for (size_t row = 0; row < table_.rows.size(); ++row) {
          if (group_of(table_.rows[row]) != group) continue;
          const std::array<double, kColumnCount> ours = OverheadsOf(row, batch, definition);
          for (int column = 0; column < kColumnCount; ++column) {
            error += std::fabs(LogError(ours[column], table_.rows[row].memory_mb[column]));
          }
        }
        if (error >= least) continue;
        least = error;
        batch_of_group[group] = batch;
      }
      texts.push_back(absl::StrCat(group, ": ", batch_of_group[group]));
    }
    Add(
        definition, rule, absl::StrJoin(texts, ", "),
        [&](size_t row) { return batch_of_group.at(group_of(table_.rows[row])); }, hypotheses);
  }

  const PublishedTable& table_;
  const std::string device_;
  const Precision precision_;
  const Optimizer optimizer_;
  std::map<std::pair<size_t, int64_t>, Cells> cells_;  // by row and batch
};

}  // namespace

const char* DefinitionName(Definition definition) {
  switch (definition) {
    case Definition::kPeak:
      return "process peak";
    case Definition::kPersistent:
      return "persistent";
    case Definition::kWeights:
      return "weights alone";
    case Definition::kRedundant:
      return "redundant";
    case Definition::kActivations:
      return "activations";
    case Definition::kTemporary:
      return "temporary";
    case Definition::kActivationsAndTemporary:
      return "activations + temporary";
    case Definition::kProgram:
      return "program: states + activations";
    case Definition::kProgramActivations:
      return "program: activations";
    case Definition::kProgramRedundant:
      return "program: redundant";
  }
  return "";
}

double OverheadOf(const TableMemory& memory, Definition definition) {
  const auto megabytes = [](Bytes bytes) { return bytes.as_double() * 1e-6; };
  switch (definition) {
    case Definition::kPeak:
      return megabytes(memory.peak);
    case Definition::kPersistent:
      return megabytes(memory.persistent);
    case Definition::kWeights:
      return megabytes(memory.weights);
    case Definition::kRedundant:
      return megabytes(memory.redundant);
    case Definition::kActivations:
      return megabytes(memory.activations);
    case Definition::kTemporary:
      return megabytes(memory.temporary);
    case Definition::kActivationsAndTemporary:
      return megabytes(memory.activations + memory.temporary);
    case Definition::kProgram:
      return megabytes(memory.program_memory);
    case Definition::kProgramActivations:
      return megabytes(memory.program_activations);
    case Definition::kProgramRedundant:
      return megabytes(memory.program_redundant);
  }
  return 0.0;
}

double RankCorrelation(absl::Span<const double> a, absl::Span<const double> b) {
  const std::vector<double> ranks_of_a = RanksOf(a);
  const std::vector<double> ranks_of_b = RanksOf(b);
  const double mean = 0.5 * (static_cast<double>(a.size()) - 1.0);
  double both = 0.0;
  double of_a = 0.0;
  double of_b = 0.0;
  for (size_t i = 0; i < a.size(); ++i) {
    both += (ranks_of_a[i] - mean) * (ranks_of_b[i] - mean);
    of_a += (ranks_of_a[i] - mean) * (ranks_of_a[i] - mean);
    of_b += (ranks_of_b[i] - mean) * (ranks_of_b[i] - mean);
  }
  return of_a > 0.0 && of_b > 0.0 ? both / std::sqrt(of_a * of_b) : 0.0;
}

void Judge(const PublishedTable& table, Hypothesis& hypothesis) {
  std::vector<double> errors;
  std::vector<std::array<double, kColumnCount>> theirs;
  for (size_t row = 0; row < table.rows.size(); ++row) {
    theirs.push_back(table.rows[row].memory_mb);
    for (int column = 0; column < kColumnCount; ++column) {
      errors.push_back(
          LogError(hypothesis.memory_mb[row][column], table.rows[row].memory_mb[column]));
    }
  }
  hypothesis.memory_factor = std::exp(MeanOfMagnitudes(errors));
  const double median = MedianOf(errors);
  for (double& error : errors) error -= median;
  hypothesis.shape_factor = std::exp(MeanOfMagnitudes(errors));
  const std::vector<double> ours = RatiosOf(hypothesis.memory_mb);
  const std::vector<double> published = RatiosOf(theirs);
  std::vector<double> ratio_errors;
  for (size_t i = 0; i < ours.size(); ++i) ratio_errors.push_back(std::log(ours[i] / published[i]));
  hypothesis.ratio_factor = std::exp(MeanOfMagnitudes(ratio_errors));
  const auto memory_count = static_cast<double>(errors.size());
  const auto ratio_count = static_cast<double>(ratio_errors.size());
  hypothesis.total_factor = std::exp((memory_count * std::log(hypothesis.memory_factor) +
                                      ratio_count * std::log(hypothesis.ratio_factor)) /
                                     (memory_count + ratio_count));
  hypothesis.ratio_rank_correlation = RankCorrelation(ours, published);
}

Hypothesis YardstickOf(const PublishedTable& table) {
  Hypothesis yardstick;
  for (const PublishedRow& row : table.rows) {
    std::vector<double> all;
    for (const PublishedRow& other : table.rows) {
      if (other.model != row.model) continue;
      all.insert(all.end(), other.memory_mb.begin(), other.memory_mb.end());
    }
    yardstick.memory_mb.emplace_back().fill(MedianOf(std::move(all)));
  }
  Judge(table, yardstick);
  return yardstick;
}

absl::StatusOr<Hypothesis> TryOne(const PublishedTable& table, const std::string& device,
                                  Definition definition, Precision precision, Optimizer optimizer,
                                  std::vector<int64_t> batches, std::string batch_text) {
  Hypothesis hypothesis{.definition = definition,
                        .precision = precision,
                        .optimizer = optimizer,
                        .batches = std::move(batches),
                        .batch_text = std::move(batch_text),
                        .memory_mb = {}};
  for (size_t row = 0; row < table.rows.size(); ++row) {
    std::array<double, kColumnCount>& cells = hypothesis.memory_mb.emplace_back();
    for (int column = 0; column < kColumnCount; ++column) {
      PARPLAN_ASSIGN_OR_RETURN(const TableMemory memory,
                               MemoryOfPlan({.model = table.rows[row].model,
                                             .device_count = table.rows[row].device_count,
                                             .global_batch_size = hypothesis.batches[row],
                                             .precision = precision,
                                             .optimizer = optimizer,
                                             .device = device},
                                            static_cast<Column>(column)));
      cells[column] = OverheadOf(memory, definition);
    }
  }
  Judge(table, hypothesis);
  return hypothesis;
}

absl::StatusOr<std::vector<Hypothesis>> TryHypotheses(const PublishedTable& table,
                                                      const std::string& device) {
  std::vector<Hypothesis> hypotheses;
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
    for (const Optimizer optimizer : {Optimizer::kAdam, Optimizer::kSgd}) {
      PlanGrid grid(table, device, precision, optimizer);
      PARPLAN_RETURN_IF_ERROR(grid.Fill());
      grid.AddHypotheses(hypotheses);
    }
  }
  std::stable_sort(
      hypotheses.begin(), hypotheses.end(), [](const Hypothesis& a, const Hypothesis& b) {
        // Rounded, so that the order does not depend on the last digits of a logarithm.
        const auto key = [](const Hypothesis& h) { return std::llround(h.total_factor * 1e6); };
        return key(a) < key(b);
      });
  return hypotheses;
}

}  // namespace parplan::table2
