#include "clients/import/encoder_decoder_config.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "clients/import/extra_parameters.h"

namespace parplan {
namespace {

// Parameters before and behind the layers of encoder and decoder. Fields say the same of BART and
// mBART; the values are those of the model classes of Hugging Face Transformers, counted by
// tests/frameworks/transformers_test.py.
struct EndTraits {
  absl::string_view family;
  // Rows that the table of positions has beyond positions.
  int extra_position_count = 0;
  // Training learns positions.
  bool has_position_table = true;
  bool has_embedding_norm = false;
  bool has_final_norm = true;
};

constexpr EndTraits kEnds[] = {
    {.family = "bart",
     .extra_position_count = 2,
     .has_embedding_norm = true,
     .has_final_norm = false},
    {.family = "blenderbot"},
    {.family = "blenderbot-small", .has_embedding_norm = true, .has_final_norm = false},
    {.family = "m2m_100", .has_position_table = false},
    {.family = "marian", .has_position_table = false, .has_final_norm = false},
    {.family = "mbart", .extra_position_count = 2, .has_embedding_norm = true},
    {.family = "pegasus", .has_position_table = false},
    {.family = "plbart",
     .extra_position_count = 2,
     .has_embedding_norm = true,
     .has_final_norm = false},
    // The sines of its encoder are a table that files of weights hold.
    {.family = "whisper"},
};

EndTraits EndsOf(absl::string_view family, ConfigFields& config) {
  EndTraits ends;
  const auto* const known =
      std::find_if(std::begin(kEnds), std::end(kEnds),
                   [family](const EndTraits& entry) { return entry.family == family; });
  if (known != std::end(kEnds)) ends = *known;
  ends.extra_position_count = config.Count({"extra_pos_embeddings"}, ends.extra_position_count);
  ends.has_position_table = !config.Flag({"static_position_embeddings"}, !ends.has_position_table);
  ends.has_embedding_norm = config.Flag({"normalize_embedding"}, ends.has_embedding_norm);
  ends.has_final_norm =
      config.Flag({"add_final_layer_norm", "normalize_before"}, ends.has_final_norm);
  return ends;
}

}  // namespace

ModelFacts ReadT5(absl::string_view family, bool counts_all_parameters, ConfigFields& config) {
  ModelFacts facts;
  TransformerRunFacts run;
  run.kind = v1::LAYER_KIND_ENCODER;
  run.layer_count = config.Size({"num_layers"});
  run.hidden_size = config.Size({"d_model"});
  run.attention_head_count = config.Size({"num_heads"});
  run.head_size = config.Optional({"d_kv"}, 0);
  run.feed_forward_size = config.Size({"d_ff"});
  run.feed_forward_kind = absl::StartsWith(config.Text("feed_forward_proj"), "gated")
                              ? v1::FEED_FORWARD_KIND_SWIGLU
                              : v1::FEED_FORWARD_KIND_GELU;
  run.sequence_length = config.Optional({"n_positions"}, 0);
  if (run.head_size == 0 && run.hidden_size % run.attention_head_count != 0) {
    config.Fail("num_heads",
                absl::StrCat("must divide d_model ", run.hidden_size, " unless d_kv is given"));
  }
  const int buckets = config.Optional({"relative_attention_num_buckets"}, 32);
  config.MarkRead("relative_attention_max_distance");
  // Biases of relative positions: one table for all layers, or, in UMT5, one for each.
  const int64_t biases = int64_t{buckets} * run.attention_head_count;
  const bool has_many_tables = family == "umt5";
  if (counts_all_parameters) {
    // The tables of encoder and decoder, and the encoder's last norm.
    facts.embedding_extra_parameter_count = (has_many_tables ? 0 : 2 * biases) + run.hidden_size;
    if (has_many_tables) run.extra_parameter_count = biases;
  }
  facts.runs.push_back(run);
  run.kind = v1::LAYER_KIND_CROSS_DECODER;
  run.layer_count = config.Optional({"num_decoder_layers"}, run.layer_count);
  facts.runs.push_back(run);
  return facts;
}

ModelFacts ReadEncoderAndDecoder(absl::string_view family, ConfigFields& config,
                                 std::vector<std::string>* notes) {
  ModelFacts facts;
  const bool hears = config.Has("num_mel_bins");
  const int longest = config.Optional({"max_position_embeddings"}, 1024);
  TransformerRunFacts run;
  run.hidden_size = config.Size({"d_model"});
  run.feed_forward_kind = v1::FEED_FORWARD_KIND_GELU;
  run.kind = v1::LAYER_KIND_ENCODER;
  run.layer_count = config.Size({"encoder_layers"});
  run.attention_head_count = config.Size({"encoder_attention_heads"});
  run.feed_forward_size = config.Size({"encoder_ffn_dim"});
  // Whisper hears 30 s and writes 448 tokens.
  run.sequence_length = config.Optional({"max_source_positions"}, hears ? 1500 : longest);
  config.MarkRead("num_hidden_layers");
  // Scales and shifts of the norms, and biases. Whisper's keys have none.
  const int64_t width = run.hidden_size;
  const int64_t missing = hears ? width : 0;
  run.extra_parameter_count = 2 * width + BiasCount(run, 1, true, true, true) - missing;
  TransformerRunFacts decoder = run;
  decoder.kind = v1::LAYER_KIND_CROSS_DECODER;
  decoder.layer_count = config.Size({"decoder_layers"});
  decoder.attention_head_count = config.Size({"decoder_attention_heads"});
  decoder.feed_forward_size = config.Size({"decoder_ffn_dim"});
  decoder.sequence_length = config.Optional({"max_target_positions"}, hears ? 448 : longest);
  const EndTraits ends = EndsOf(family, config);
  // Marian's way to say that there are two tables.
  const int words = config.Optional({"vocab_size"}, 0);
  if (config.Optional({"decoder_vocab_size"}, words) != words ||
      !config.Flag({"share_encoder_decoder_embeddings"}, true)) {
    config.Fail("share_encoder_decoder_embeddings", "must be true, with vocabularies of one size");
  }
  if (!config.status().ok()) return facts;
  for (const auto& [field, heads] :
       {std::pair{"encoder_attention_heads", run.attention_head_count},
        std::pair{"decoder_attention_heads", decoder.attention_head_count}}) {
    if (run.hidden_size % heads != 0) {
      config.Fail(field, absl::StrCat("must divide d_model ", run.hidden_size));
      return facts;
    }
  }
  decoder.extra_parameter_count = 3 * width + BiasCount(decoder, 2, true, true, true) - 2 * missing;
  if (ends.has_position_table) {
    facts.embedding_extra_parameter_count +=
        (int64_t{run.sequence_length} + decoder.sequence_length +
         int64_t{2} * ends.extra_position_count) *
        width;
  }
  if (ends.has_embedding_norm) facts.embedding_extra_parameter_count += 4 * width;
  // The last norms of encoder and decoder. The head's definition has the scale of one.
  facts.embedding_extra_parameter_count += (ends.has_final_norm ? 3 : -1) * width;
  if (hears) {
    // Two convolutions of three samples.
    facts.embedding_extra_parameter_count +=
        3 * int64_t{config.Size({"num_mel_bins"})} * width + 3 * width * width + 2 * width;
    notes->push_back(
        "the convolutions before the encoder count as parameters of the embedding; their time is "
        "not priced");
  }
  facts.runs.push_back(run);
  facts.runs.push_back(decoder);
  return facts;
}

}  // namespace parplan
