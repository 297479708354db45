#include "clients/import/end_parameters.h"

#include <cstdint>

#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace parplan {
namespace {

// Whether positions are biases of scores instead of a table.
bool HasAlibi(ConfigFields& fields) {
  if (const nlohmann::json* const attention = fields.Object("attn_config")) {
    ConfigFields inner(*attention, fields.file_name(), "attn_config.");
    const bool has_alibi = inner.Flag({"alibi"}, false);
    fields.Take(inner);
    if (has_alibi) return true;
  }
  return fields.Flag({"alibi"}, false);
}

// Whether a table of positions is added to that of words.
bool HasPositionTable(const FamilyTraits& traits, ConfigFields& fields) {
  const bool has_alibi = HasAlibi(fields);
  const std::string kind = fields.Text("position_embedding_type");
  const bool has_table =
      fields.Flag({"learned_pos_emb", "position_biased_input"}, traits.has_position_table);
  const bool is_rotary = fields.Has("rope_theta") || fields.Has("rope_parameters");
  const bool is_absolute = kind.empty() ? !is_rotary : absl::StrContains(kind, "absolute");
  return has_table && !has_alibi && is_absolute;
}

// Parameters of scores that depend on the distance of two tokens and its direction (DeBERTa): a
// table with a norm for all layers. Projections of it are those of queries and keys.
int64_t RelativePositionCount(ConfigFields& fields, const TransformerRunFacts& run,
                              std::vector<std::string>* notes) {
  const bool is_relative = fields.Flag({"relative_attention"}, false);
  const bool has_norm = absl::StrContains(fields.Text("norm_rel_ebd"), "layer_norm");
  // A list, or a text with a bar between names.
  fields.MarkRead("pos_att_type");
  // -1 stands for as many as there are positions.
  int rows = fields.Has("position_buckets") && !fields.IsNegative("position_buckets")
                 ? fields.Count({"position_buckets"}, 0)
                 : 0;
  if (rows == 0 && fields.Has("max_relative_positions") &&
      !fields.IsNegative("max_relative_positions")) {
    rows = fields.Count({"max_relative_positions"}, 0);
  }
  if (rows == 0) rows = run.sequence_length;
  for (const char* key : {"position_buckets", "max_relative_positions"}) fields.MarkRead(key);
  const bool shares_keys = fields.Flag({"share_att_key"}, false);
  // Opaque layers have them.
  if (is_relative && !shares_keys && run.kind != v1::LAYER_KIND_OPAQUE) {
    fields.Fail("share_att_key",
                "must be true: projections of distances in each layer are not "
                "supported");
  }
  if (!is_relative) return 0;
  notes->push_back(
      "scores by the distance of two tokens count as parameters of the embedding; their time is "
      "not priced");
  return (2 * int64_t{rows} + (has_norm ? 2 : 0)) * run.hidden_size;
}

// Parameters of MPNet's scores, which depend on the distance of two tokens: a number for each head
// and range of distances, the same in all layers.
int64_t BucketCount(const FamilyTraits& traits, ConfigFields& fields,
                    const TransformerRunFacts& run, std::vector<std::string>* notes) {
  // That of the class.
  constexpr int kBuckets = 32;
  if (traits.model_type != "mpnet") return 0;
  const int64_t buckets = fields.Optional({"relative_attention_num_buckets"}, kBuckets);
  notes->push_back(
      "scores by the distance of two tokens count as parameters of the embedding; their time is "
      "not priced");
  return buckets * run.attention_head_count;
}

// Returns the words that the head has no rows for, such as those of images and sounds in
// Apertus 1.5.
int64_t CutRowsOfHead(int64_t words, bool is_tied, ConfigFields& fields,
                      std::vector<std::string>* notes) {
  constexpr char kRows[] = "output_vocab_size";
  if (!fields.Has(kRows)) return 0;
  const int64_t rows = fields.Size({kRows});
  if (rows > words) fields.Fail(kRows, absl::StrCat("must be at most vocab_size, ", words));
  if (rows < words && is_tied) {
    fields.Fail(kRows,
                "must be vocab_size beside tie_word_embeddings: the head uses all rows then");
  }
  if (rows < words) {
    notes->push_back(absl::StrCat(kRows, " ", rows,
                                  ": the head has as many rows; its time is that "
                                  "of vocab_size, ",
                                  words));
  }
  return words - rows;
}

}  // namespace

void ReadEndParameters(const FamilyTraits& traits, bool counts_all_parameters,
                       const TransformerRunFacts& run, const LayerExtras& extra,
                       ConfigFields& fields, std::vector<std::string>* notes, ModelFacts* facts) {
  const int64_t hidden = run.hidden_size;
  const int64_t words = fields.Optional({"vocab_size", "padded_vocab_size"}, 0);
  // The width of the tables, if it is another one.
  const int64_t width = fields.Optional({"word_embed_proj_dim", "embedding_size"}, run.hidden_size);
  const bool is_tied = fields.Flag({"tie_word_embeddings", "tie_embedding", "use_embedding_sharing",
                                    "share_input_output_layers"},
                                   traits.is_tied);
  const bool has_head_bias = fields.Flag({"lm_head_bias", "decoder_bias"}, traits.has_head_bias);
  const bool has_positions = HasPositionTable(traits, fields);
  const int types = fields.Count({"type_vocab_size"}, traits.token_type_count);
  if (!fields.Flag({"lm_head"}, true)) {
    fields.Fail("lm_head", "must be true: models without a head are not supported");
  }
  // The widths of a classifier, of which the model has none.
  if (!fields.Flag({"add_classification_head"}, false)) fields.MarkRead("dense_list");
  const int64_t distances =
      RelativePositionCount(fields, run, notes) + BucketCount(traits, fields, run, notes);
  if (!fields.status().ok() || !counts_all_parameters) return;
  // Scales, and shifts if the layers' norms have some.
  const int64_t norm = traits.norm_vector_count > 2 ? 2 : 1;

  int64_t& before = facts->embedding_extra_parameter_count;
  int64_t& behind = facts->head_extra_parameter_count;
  if (has_positions) {
    // Those of decoders are added behind the projection.
    before += (int64_t{run.sequence_length} + traits.extra_position_count) *
              (traits.is_encoder ? width : hidden);
  }
  before += types * width + distances;
  if (traits.has_embedding_norm) before += norm * width;
  if (width != hidden) {
    notes->push_back(absl::StrCat("the table of words is ", width, " wide, the layers ", hidden,
                                  ": its projections count as parameters, and the head is priced "
                                  "at the width of the layers"));
    const int64_t narrower = words * (width - hidden);
    // Into the layers, with a bias in encoders.
    before += narrower + width * hidden + (traits.is_encoder ? hidden : 0);
    if (!is_tied) behind += narrower;
    if (!traits.has_dense_head) behind += hidden * width;
  }
  if (traits.has_dense_head) {
    const bool has_bias = fields.Flag({"classifier_bias"}, norm == 2);
    behind += hidden * width + (has_bias ? width : 0) + norm * width;
  }
  if (has_head_bias) behind += words;
  behind -= CutRowsOfHead(words, is_tied, fields, notes) * hidden;
  // The head's definition has the scale of one norm; where there is none, the embedding has less.
  if (extra.final_norm_vectors > 0) {
    behind += int64_t{extra.final_norm_vectors - 1} * hidden;
  } else if (behind >= hidden) {
    behind -= hidden;
  } else {
    before -= hidden;
  }
}

}  // namespace parplan
