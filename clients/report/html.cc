#include "clients/report/html.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/quantity_text.h"
#include "base/utf8.h"
#include "planner/model/strategy_fields.h"

namespace parplan::report {
namespace {

static_assert(kStrategyFieldCount == 13, "describe the new field");

bool IsControl(uint32_t value) { return value < 0x20 || (value >= 0x7F && value < 0xA0); }

// Marks that turn the direction of text would let a name rewrite its
// surroundings; noncharacters have no business in a page.
bool IsUnwelcome(uint32_t value) {
  return value == 0x061C || value == 0x200E || value == 0x200F ||
         (value >= 0x202A && value <= 0x202E) || (value >= 0x2066 && value <= 0x2069) ||
         (value >= 0xFDD0 && value <= 0xFDEF) || (value & 0xFFFE) == 0xFFFE;
}

}  // namespace

std::string Clean(absl::string_view text) {
  std::string clean;
  clean.reserve(text.size());
  while (!text.empty()) {
    const Utf8Character first = FirstUtf8Character(text);
    const size_t length = std::max<size_t>(first.size, 1);
    if (first.size == 0 || IsUnwelcome(first.code_point)) {
      absl::StrAppend(&clean, kUtf8Replacement);
    } else if (IsControl(first.code_point)) {
      clean += ' ';
    } else {
      absl::StrAppend(&clean, text.substr(0, length));
    }
    text.remove_prefix(length);
  }
  return clean;
}

std::string Escape(absl::string_view text) {
  std::string escaped;
  for (const char c : Clean(text)) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

std::string Shorten(absl::string_view text, int max_characters) {
  std::string clean = Clean(text);
  int characters = 0;
  size_t cut = 0;  // where the character before the last allowed one ends
  for (size_t at = 0; at < clean.size();
       at += FirstUtf8Character(absl::string_view(clean).substr(at)).size) {
    if (characters == max_characters - 1) cut = at;
    if (++characters > max_characters) return absl::StrCat(clean.substr(0, cut), "…");
  }
  return clean;
}

std::string Percent(double ratio) {
  if (!std::isfinite(ratio)) return "–";
  return absl::StrFormat("%.1f %%", 100.0 * ratio);
}

std::string Rate(double value) {
  return std::isfinite(value) ? ThreeDigits(value) : std::string("–");
}

std::string Range(int first, int count) {
  return count <= 1 ? absl::StrCat(first) : absl::StrCat(first, "–", first + count - 1);
}

std::string Count(int64_t count, absl::string_view noun) {
  return absl::StrCat(count, " ", noun, count == 1 ? "" : "s");
}

const char* Name(MemoryItemKind kind) {
  switch (kind) {
    case MemoryItemKind::kParameters:
      return "parameters";
    case MemoryItemKind::kGradients:
      return "gradients";
    case MemoryItemKind::kOptimizerStates:
      return "optimizer states";
    case MemoryItemKind::kActivations:
      return "activations";
    case MemoryItemKind::kCheckpoints:
      return "checkpoints";
    case MemoryItemKind::kTransient:
      return "transient";
    case MemoryItemKind::kContext:
      return "context";
    case MemoryItemKind::kMasterParameters:
      return "master parameters";
    case MemoryItemKind::kGatheredParameters:
      return "gathered parameters";
    case MemoryItemKind::kLogits:
      return "logits";
    case MemoryItemKind::kCommunicators:
      return "communicators";
    case MemoryItemKind::kWorkspace:
      return "workspace";
    case MemoryItemKind::kFragmentation:
      return "fragmentation";
  }
  return "";
}

const char* Name(TimeItemKind kind) {
  switch (kind) {
    case TimeItemKind::kForwardCompute:
      return "forward";
    case TimeItemKind::kBackwardCompute:
      return "backward";
    case TimeItemKind::kRecompute:
      return "recompute";
    case TimeItemKind::kTensorParallel:
      return "tensor parallel";
    case TimeItemKind::kShardedDataParallel:
      return "sharded data parallel";
    case TimeItemKind::kResharding:
      return "resharding";
    case TimeItemKind::kLaunch:
      return "launching kernels";
    case TimeItemKind::kContextParallel:
      return "context parallel";
    case TimeItemKind::kExpertParallel:
      return "expert parallel";
  }
  return "";
}

std::string EndOfSearch(SearchLimit limit) {
  switch (limit) {
    case SearchLimit::kNone:
      return "";
    case SearchLimit::kTime:
      return "its limit of time";
    case SearchLimit::kStates:
      return "its limit of states";
    case SearchLimit::kCancelled:
      return "an interrupt";
    case SearchLimit::kMethod:
      return "the planner's own method";
    case SearchLimit::kGap:
      return "the gap asked for";
    case SearchLimit::kMemory:
      return "its limit of memory";
  }
  return "";
}

std::string Change(double ratio) {
  if (!std::isfinite(ratio)) return "–";
  if (std::abs(ratio) < 5e-5) return "±0 %";
  return absl::StrFormat("%+.*f %%", std::abs(ratio) < 0.00095 ? 2 : 1, 100.0 * ratio);
}

std::string GroupsText(const Plan& plan) {
  if (plan.micro_batch_group_size == 0) return "";
  return absl::StrCat(", groups of ", plan.micro_batch_group_size);
}

std::string StrategyWords(const Strategy& strategy) {
  const bool tensor = strategy.tensor_parallel_degree > 1;
  const bool data = strategy.data_parallel_degree > 1;
  std::string words;
  if (tensor) absl::StrAppend(&words, "tensor parallel ", strategy.tensor_parallel_degree);
  if (strategy.sequence_parallel) words += " with sequence parallelism";
  if (tensor && data) {
    words += strategy.rank_order == RankOrder::kTensorInnermost ? " on neighbouring devices, "
                                                                : " on distant devices, ";
  }
  if (data) absl::StrAppend(&words, "data parallel ", strategy.data_parallel_degree);
  if (strategy.context_parallel_degree > 1) {
    const int exchange = strategy.head_exchange_degree();
    const int other = strategy.context_parallel_degree / exchange;
    const bool gathers = strategy.context_kind == ContextKind::kAllGather;
    if (other > 1) {
      absl::StrAppend(&words, words.empty() ? "" : ", ",
                      gathers ? "keys and values gathered by " : "context parallel ", other);
    }
    if (exchange > 1) {
      absl::StrAppend(&words, words.empty() ? "" : ", ", "sequences split by all-to-all (Ulysses) ",
                      exchange);
    }
  }
  if (words.empty()) words = "one device";
  if (strategy.expert_parallel_degree > 1) {
    absl::StrAppend(&words, ", expert parallel ", strategy.expert_parallel_degree);
  }
  if (strategy.expert_tensor_parallel_degree > 0) {
    absl::StrAppend(&words, ", experts tensor parallel ", strategy.expert_tensor_parallel_degree);
  }
  switch (strategy.sharding_level) {
    case ShardingLevel::kNone:
      break;
    case ShardingLevel::kOptimizer:
      words += " with optimizer states sharded";
      break;
    case ShardingLevel::kGradients:
      words += " with optimizer states and gradients sharded";
      break;
    case ShardingLevel::kParameters:
      words += " with parameters sharded";
      break;
  }
  if (strategy.sharding_degree > 0) {
    absl::StrAppend(&words, " over groups of ", strategy.sharding_degree);
  }
  if (strategy.recompute_level == RecomputeLevel::kFull) words += ", activations recomputed";
  if (strategy.recompute_level == RecomputeLevel::kSelective) {
    words += ", activations of attention recomputed";
  }
  if (strategy.recompute_level == RecomputeLevel::kModules) {
    absl::StrAppend(&words, ", activations of ", strategy.recompute_modules.ToString(", "),
                    " recomputed");
  }
  return words;
}

std::string Letter(int index) {
  std::string letters;
  for (int rest = index + 1; rest > 0; rest = (rest - 1) / 26) {
    letters.insert(letters.begin(), static_cast<char>('A' + (rest - 1) % 26));
  }
  return letters;
}

}  // namespace parplan::report
