#include "clients/import/compressed_attention.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "clients/import/attention_config.h"
#include "clients/import/named_text.h"

namespace parplan {
namespace {

// Tokens whose keys become one, if no field says how many.
constexpr int kSparseRate = 4;
constexpr int kHeavyRate = 128;

constexpr char kSparseName[] = "compressed_sparse_attention";
constexpr char kHeavyName[] = "heavily_compressed_attention";

struct Rates {
  int64_t sparse = kSparseRate;
  int64_t heavy = kHeavyRate;
};

Rates ReadRates(ConfigFields& fields) {
  Rates rates;
  rates.sparse = fields.Optional({"compress_rate_csa"}, kSparseRate);
  rates.heavy = fields.Optional({"compress_rate_hca"}, kHeavyRate);
  const nlohmann::json* const nested = fields.Object("compress_rates");
  if (nested == nullptr) return rates;
  ConfigFields inner(*nested, fields.file_name(), "compress_rates.");
  rates.sparse = inner.Optional({kSparseName}, static_cast<int>(rates.sparse));
  rates.heavy = inner.Optional({kHeavyName}, static_cast<int>(rates.heavy));
  inner.RefuseAllUnknown();
  fields.Take(inner);
  return rates;
}

// Returns the parameters of what makes one key of `rate` tokens: keys and their weights, `overlap`
// times as wide as a head of `size`, a bias of each place and a norm.
int64_t CompressorCount(int64_t hidden, int64_t size, int64_t overlap, int64_t rate) {
  return 2 * hidden * overlap * size + rate * overlap * size + size;
}

// Returns the parameters of what chooses among compressed keys: a compressor of its own, queries
// from the narrow vector and a weight of each head.
int64_t IndexerCount(ConfigFields& fields, int64_t hidden, int64_t query_rank, int64_t rate,
                     std::vector<std::string>* notes) {
  const int heads = fields.Size({"index_n_heads"});
  const int size = fields.Size({"index_head_dim"});
  const int chosen = fields.Size({"index_topk"});
  notes->push_back(absl::StrCat("index_topk ", chosen,
                                ": what chooses compressed keys counts as parameters of its "
                                "layers"));
  return CompressorCount(hidden, size, 2, rate) + query_rank * CappedProduct(heads, size) +
         hidden * heads;
}

int64_t ReadStreams(ConfigFields& fields) {
  constexpr int kMostStreams = 64;
  const int streams = fields.Optional({"hc_mult"}, 4);
  if (streams > kMostStreams)
    fields.Fail("hc_mult", absl::StrCat("must be at most ", kMostStreams));
  return streams;
}

// Makes all layers pass on several times their width, and counts the maps between these streams:
// `weights` of each token and three, or two, scales before each of the two parts of a layer, and
// the map behind the last layer.
void PassStreams(int64_t streams, int64_t weights, int64_t scales, int64_t hidden,
                 std::vector<LayerParts>& layers, ModelFacts& facts,
                 std::vector<std::string>* notes) {
  for (LayerParts& layer : layers) {
    layer.extra_parameter_count += 2 * (weights * (streams * hidden + 1) + scales);
    layer.passed_values = streams * hidden;
  }
  facts.head_extra_parameter_count += streams * (streams * hidden + 1) + 1;
  notes->push_back(absl::StrCat(
      "hc_mult ", streams, ": layers pass ", streams,
      " times their width on. They are opaque, without tensor parallelism, and are planned with "
      "measured times only; their parameters follow from the fields, and they keep what they "
      "receive, attention without what chooses or compresses its keys, and the feed-forward part"));
}

}  // namespace

bool HasCompressedAttention(const FamilyTraits& traits) {
  return traits.model_type == "deepseek_v4";
}

std::vector<std::string> NamesByCompression(ConfigFields& fields, int layer_count) {
  std::vector<std::string> names;
  const bool is_listed = fields.IsList("compress_ratios");
  const std::vector<int> ratios = fields.List("compress_ratios", 0);
  // Entries behind the layers of the model are those of layers that predict further tokens.
  if (is_listed && static_cast<int>(ratios.size()) < layer_count) {
    fields.Fail("compress_ratios",
                absl::StrCat("must have an entry for each of the ", layer_count, " layers"));
    return names;
  }
  for (int i = 0; i < layer_count; ++i) {
    const int otherwise = i > 1 && i % 2 == 1 ? kSparseRate : kHeavyRate;
    const int ratio = is_listed ? ratios[i] : otherwise;
    if (ratio > 1 && ratio != kSparseRate && ratio != kHeavyRate) {
      fields.Fail(absl::StrCat("compress_ratios[", i, "]"),
                  absl::StrCat("must be 0 or 1, ", kSparseRate, " or ", kHeavyRate));
      return names;
    }
    names.emplace_back(ratio <= 1             ? "sliding_attention"
                       : ratio == kSparseRate ? kSparseName
                                              : kHeavyName);
  }
  return names;
}

void ReadCompressedAttention(ConfigFields& fields, const TransformerRunFacts& run,
                             std::vector<LayerParts>& layers, ModelFacts& facts,
                             std::vector<std::string>* notes) {
  const int64_t hidden = run.hidden_size;
  const int64_t heads = run.attention_head_count;
  const int64_t size = HeadSize(run);
  const int64_t width = heads * size;
  const int64_t query_rank = fields.Size({"q_lora_rank"});
  const int64_t output_rank = fields.Size({"o_lora_rank"});
  const int64_t output_groups = fields.Size({"o_groups"});
  const int64_t streams = ReadStreams(fields);
  const Rates rates = ReadRates(fields);
  // Iterations, and tokens whose experts a table gives, which nothing trains.
  for (const char* key : {"hc_sinkhorn_iters", "num_hash_layers", "qk_rope_head_dim"}) {
    fields.MarkRead(key);
  }
  if (run.key_value_head_count != 1) fields.Fail("num_key_value_heads", "must be 1");
  if (width % output_groups != 0) {
    fields.Fail("o_groups", absl::StrCat("must divide the width of all heads, ", width));
  }
  const bool has_sparse = std::any_of(layers.begin(), layers.end(), [](const LayerParts& layer) {
    return layer.compression == KeyCompression::kSparse;
  });
  const int64_t indexer =
      has_sparse ? IndexerCount(fields, hidden, query_rank, rates.sparse, notes) : 0;
  for (const char* key : {"index_n_heads", "index_head_dim", "index_topk"}) fields.MarkRead(key);
  if (!fields.status().ok()) return;
  // Queries behind a narrow vector with a norm, one key with a norm, the output of groups of heads
  // behind narrow vectors, and a sink of each head.
  const int64_t attention = query_rank * (hidden + 1 + width) + hidden * size + size +
                            width * output_rank + output_groups * output_rank * hidden + heads;
  // Those that DefinitionOf (made_layers.cc) counts for the same heads.
  const int64_t counted = 2 * hidden * width + 2 * hidden * size;
  for (LayerParts& layer : layers) {
    layer.extra_parameter_count += attention - counted;
    if (layer.compression == KeyCompression::kSparse) {
      layer.extra_parameter_count += CompressorCount(hidden, size, 2, rates.sparse) + indexer;
    } else if (layer.compression == KeyCompression::kHeavy) {
      layer.extra_parameter_count += CompressorCount(hidden, size, 1, rates.heavy);
    }
  }
  // Weights of each stream before and behind a part, and between streams.
  PassStreams(streams, (2 + streams) * streams, 3, hidden, layers, facts, notes);
  fields.Note("num_nextn_predict_layers",
              "layers that predict further tokens are left out: opaque ones have no run", notes);
}

void ReadIndependentStreams(ConfigFields& fields, const TransformerRunFacts& run,
                            std::vector<LayerParts>& layers, ModelFacts& facts,
                            std::vector<std::string>* notes) {
  const int64_t streams = ReadStreams(fields);
  // Scales and first values.
  for (const char* key : {"hc_magnitude", "learnable_sink_init"}) fields.MarkRead(key);
  if (!run.latent_attention.has_value()) {
    fields.Fail("kv_lora_rank", "is required: attention of this family is latent");
  }
  if (!fields.status().ok()) return;
  // A gate as wide as the values of all heads, and sinks.
  for (LayerParts& layer : layers) {
    layer.extra_parameter_count +=
        int64_t{run.attention_head_count} *
        (int64_t{run.hidden_size} * run.latent_attention->value_head_size + 1);
  }
  PassStreams(streams, 2 * streams, 2, run.hidden_size, layers, facts, notes);
  fields.Note("num_nextn_predict_layers",
              "layers that predict further tokens are left out: opaque ones have no run", notes);
}

}  // namespace parplan
