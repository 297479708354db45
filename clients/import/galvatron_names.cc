#include "clients/import/galvatron_names.h"

#include <cstddef>
#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "clients/import/named_text.h"

namespace parplan {
namespace {

// Takes a key apart from the left.
class KeyReader {
 public:
  explicit KeyReader(absl::string_view text) : rest_(text) {}

  bool Literal(absl::string_view literal) { return absl::ConsumePrefix(&rest_, literal); }

  // A whole number of digits, at least 0.
  bool Number(int* value) {
    size_t length = 0;
    while (length < rest_.size() && absl::ascii_isdigit(rest_[length])) ++length;
    if (length == 0 || !absl::SimpleAtoi(rest_.substr(0, length), value)) return false;
    if (*value > kMaxImportCount) return false;
    rest_.remove_prefix(length);
    return true;
  }

  // `[2,4]`.
  bool Bracketed(std::vector<int>* values) {
    if (!Literal("[")) return false;
    do {
      int value = 0;
      Literal(" ");
      if (!Number(&value)) return false;
      values->push_back(value);
    } while (Literal(","));
    return Literal("]");
  }

  // `512`, `[512,512]` or `512_512`.
  bool Sequence(std::vector<int>* values) {
    if (absl::StartsWith(rest_, "[")) return Bracketed(values);
    int value = 0;
    if (!Number(&value)) return false;
    values->push_back(value);
    while (rest_.size() > 1 && rest_[0] == '_' && absl::ascii_isdigit(rest_[1])) {
      Literal("_");
      if (!Number(&value)) return false;
      values->push_back(value);
    }
    return true;
  }

  absl::string_view rest() const { return rest_; }
  bool done() const { return rest_.empty(); }

 private:
  absl::string_view rest_;
};

// The number right after the first `word` that has one.
int NumberAfter(absl::string_view text, absl::string_view word) {
  for (size_t at = text.find(word); at != absl::string_view::npos; at = text.find(word, at + 1)) {
    KeyReader reader(text.substr(at + word.size()));
    int value = 0;
    if (reader.Number(&value)) return value;
  }
  return 0;
}

// The number that ends where the first `word` begins.
int NumberBefore(absl::string_view text, absl::string_view word) {
  const size_t end = text.find(word);
  if (end == absl::string_view::npos) return 0;
  size_t begin = end;
  while (begin > 0 && absl::ascii_isdigit(text[begin - 1])) --begin;
  int value = 0;
  if (!absl::SimpleAtoi(text.substr(begin, end - begin), &value)) return 0;
  return value <= kMaxImportCount ? value : 0;
}

}  // namespace

std::optional<GalvatronTimeKey> ParseGalvatronTimeKey(absl::string_view key) {
  GalvatronTimeKey parsed;
  KeyReader reader(key);
  if (reader.Literal("layertype_other")) {
    parsed.kind = GalvatronTimeKey::Kind::kOther;
    reader.Literal("_0");  // Some releases number it, always 0.
  } else if (reader.Literal("layertype_")) {
    if (!reader.Number(&parsed.layer_type)) return std::nullopt;
  } else if (reader.Literal("layernum")) {
    parsed.kind = GalvatronTimeKey::Kind::kWholeModel;
    if (!reader.Bracketed(&parsed.layer_counts)) return std::nullopt;
  } else {
    return std::nullopt;
  }
  if (reader.Literal("_bsz") && (!reader.Number(&parsed.batch_size) || parsed.batch_size < 1)) {
    return std::nullopt;
  }
  if (reader.Literal("_seq") && !reader.Sequence(&parsed.sequence_lengths)) return std::nullopt;
  for (int length : parsed.sequence_lengths) {
    if (length < 1) return std::nullopt;
  }
  if (reader.Literal("_attention")) {
    parsed.part = "attention";
  } else if (reader.Literal("_mlp")) {
    parsed.part = "mlp";
  }
  if (!reader.done()) return std::nullopt;
  return parsed;
}

std::optional<GalvatronMemoryBlock> ParseGalvatronMemoryBlock(absl::string_view key) {
  GalvatronMemoryBlock block;
  KeyReader reader(key);
  if (!reader.Number(&block.pipeline) || !reader.Literal("_") || !reader.Number(&block.tensor) ||
      !reader.Literal("_") || !reader.Number(&block.data)) {
    return std::nullopt;
  }
  if (block.pipeline < 1 || block.tensor < 1 || block.data < 1) return std::nullopt;
  block.checkpoint = reader.Literal("_c");
  block.vocabulary_tensor = reader.Literal("_vtp");
  block.sequence_parallel = reader.Literal("_sp");
  if (!reader.done()) return std::nullopt;
  return block;
}

std::optional<GalvatronMemoryKey> ParseGalvatronMemoryKey(absl::string_view key) {
  GalvatronMemoryKey parsed;
  KeyReader reader(key);
  if (!reader.Literal("layernum") || !reader.Bracketed(&parsed.layer_counts) ||
      !reader.Literal("_bsz") || !reader.Number(&parsed.batch_size) || parsed.batch_size < 1) {
    return std::nullopt;
  }
  if (reader.Literal("_seq") && !reader.Sequence(&parsed.sequence_lengths)) return std::nullopt;
  if (!reader.Literal("_rank") || !reader.Number(&parsed.rank)) return std::nullopt;
  if (reader.rest() == "_ms") {
    parsed.kind = GalvatronMemoryKey::Kind::kModelStates;
  } else if (reader.rest() == "_act") {
    parsed.kind = GalvatronMemoryKey::Kind::kActivation;
  } else if (reader.rest() == "_act_peak") {
    parsed.kind = GalvatronMemoryKey::Kind::kActivationPeak;
  } else {
    return std::nullopt;
  }
  return parsed;
}

std::vector<int> ParseGalvatronSequenceList(absl::string_view text) {
  KeyReader reader(text);
  std::vector<int> values;
  if (!reader.Sequence(&values) || !reader.done()) return {};
  for (int value : values) {
    if (value < 1) return {};
  }
  return values;
}

GalvatronFileName ParseGalvatronFileName(absl::string_view name) {
  const size_t slash = name.find_last_of("/\\");
  if (slash != absl::string_view::npos) name.remove_prefix(slash + 1);
  GalvatronFileName facts;
  facts.hidden_size = NumberAfter(name, "hidden");
  facts.attention_head_count = NumberAfter(name, "_head");
  facts.sequence_length = NumberAfter(name, "seqlen");
  for (const char* precision : {"bf16", "fp16", "fp32"}) {
    if (absl::StrContains(name, precision)) facts.precision = precision;
  }
  facts.node_count = NumberBefore(name, "nodes_");
  facts.devices_per_node = NumberBefore(name, "gpus_per_node");
  if (facts.node_count > 0 && facts.devices_per_node > 0) {
    const int64_t count = int64_t{facts.node_count} * facts.devices_per_node;
    if (count <= kMaxImportCount) facts.device_count = static_cast<int>(count);
  } else if (facts.devices_per_node == 0) {
    facts.device_count = NumberBefore(name, "_gpus");
    if (facts.device_count == 0) facts.device_count = NumberBefore(name, "gpus");
  }
  absl::string_view model = name;
  absl::ConsumeSuffix(&model, ".json");
  if (absl::ConsumePrefix(&model, "computation_profiling_") ||
      absl::ConsumePrefix(&model, "memory_profiling_")) {
    for (const char* precision : {"bf16_", "fp16_", "fp32_"}) {
      absl::ConsumePrefix(&model, precision);
    }
    for (const char* part : {"_all", "_attention", "_mlp"}) absl::ConsumeSuffix(&model, part);
    facts.model = std::string(model);
  }
  return facts;
}

}  // namespace parplan
