#include "clients/import/model_config.h"

#include <cstddef>
#include <initializer_list>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "clients/import/named_text.h"

namespace parplan {
namespace {

using nlohmann::json;

// Reads sizes by any of several names and remembers the first error, so that a
// family reads as a list of its fields.
class Config {
 public:
  Config(const json& object, absl::string_view file_name)
      : object_(object), file_name_(file_name) {}

  bool Has(const char* key) const { return object_.contains(key) && !object_[key].is_null(); }

  // The first of `keys` that is there; an error when none is.
  int Size(std::initializer_list<const char*> keys) {
    const int value = Optional(keys, 0);
    if (value == 0 && status_.ok()) {
      status_ = ImportError(Reason::kSpecInvalid, file_name_, *keys.begin(),
                            "is required and at least 1");
    }
    return value;
  }

  // The same, or `otherwise`.
  int Optional(std::initializer_list<const char*> keys, int otherwise) {
    for (const char* key : keys) {
      if (!Has(key)) continue;
      const absl::StatusOr<int> value =
          ReadCount(object_[key], 1, Reason::kSpecInvalid, file_name_, key);
      if (value.ok()) return *value;
      if (status_.ok()) status_ = value.status();
      return 0;
    }
    return otherwise;
  }

  std::vector<int> List(const char* key) {
    std::vector<int> values;
    if (!Has(key) || !object_[key].is_array() || object_[key].empty()) {
      if (status_.ok()) {
        status_ = ImportError(Reason::kSpecInvalid, file_name_, key, "must be a list of sizes");
      }
      return values;
    }
    for (const json& entry : object_[key]) {
      const absl::StatusOr<int> value = ReadCount(entry, 1, Reason::kSpecInvalid, file_name_, key);
      if (!value.ok() && status_.ok()) status_ = value.status();
      values.push_back(value.ok() ? *value : 1);
    }
    return values;
  }

  bool Flag(const char* key, bool otherwise) const {
    return Has(key) && object_[key].is_boolean() ? object_[key].get<bool>() : otherwise;
  }

  std::string Text(const char* key) const {
    return Has(key) && object_[key].is_string() ? object_[key].get<std::string>() : "";
  }

  absl::Status Error(absl::string_view field, absl::string_view rule) const {
    return ImportError(Reason::kSpecInvalid, file_name_, field, rule);
  }

  const absl::Status& status() const { return status_; }

 private:
  const json& object_;
  const std::string file_name_;
  absl::Status status_;
};

// The family of a config that names none: Galvatron's own.
std::string FamilyFromKeys(const Config& config) {
  if (config.Has("dim") && config.Has("n_heads")) return "llama";
  if (config.Has("n_embd")) return "gpt2";
  if (config.Has("d_model") && config.Has("d_ff")) return "t5";
  if (config.Has("embed_dim") && config.Has("depths")) return "swin";
  if (config.Has("image_size") && config.Has("hidden_size")) return "vit";
  if (config.Has("num_hidden_layers") && config.Has("vocab_size")) return "bert";
  return "";
}

// Llama's rule: two thirds of four times the width, rounded up.
int GatedFeedForwardSize(int hidden_size, int multiple) {
  const int wide = static_cast<int>(int64_t{hidden_size} * 8 / 3);
  return static_cast<int>((int64_t{wide} + multiple - 1) / multiple * multiple);
}

int FourTimes(int hidden_size) {
  return hidden_size <= kMaxImportCount / 4 ? hidden_size * 4 : kMaxImportCount;
}

TransformerRunFacts ReadGatedDecoder(Config& config, std::vector<std::string>* notes) {
  TransformerRunFacts run;
  run.kind = v1::LAYER_KIND_DECODER;
  run.layer_count = config.Size({"num_hidden_layers", "n_layers"});
  run.hidden_size = config.Size({"hidden_size", "dim"});
  run.attention_head_count = config.Size({"num_attention_heads", "n_heads"});
  run.key_value_head_count = config.Optional({"num_key_value_heads", "n_kv_heads"}, 0);
  run.head_size = config.Optional({"head_dim"}, 0);
  run.feed_forward_size = config.Optional({"intermediate_size", "ffn_dim"}, 0);
  if (run.feed_forward_size == 0) {
    run.feed_forward_size =
        GatedFeedForwardSize(run.hidden_size, config.Optional({"multiple_of"}, 256));
    notes->push_back(absl::StrCat("feed_forward_size ", run.feed_forward_size,
                                  " follows Llama's rule; the config gives none"));
  }
  run.feed_forward_kind = v1::FEED_FORWARD_KIND_SWIGLU;
  run.sequence_length = config.Optional({"max_position_embeddings", "n_positions"}, 0);
  return run;
}

// GPT-2, GPT-NeoX, OPT, BLOOM, Falcon, MPT and BERT: two matrices in the
// feed-forward part.
TransformerRunFacts ReadPlainLayer(Config& config, const std::string& family) {
  TransformerRunFacts run;
  run.kind = family == "bert" ? v1::LAYER_KIND_ENCODER : v1::LAYER_KIND_DECODER;
  run.layer_count = config.Size({"num_hidden_layers", "n_layer", "n_layers"});
  run.hidden_size = config.Size({"hidden_size", "n_embd", "n_embed", "d_model"});
  run.attention_head_count = config.Size({"num_attention_heads", "n_head", "n_heads"});
  run.feed_forward_size = config.Optional(
      {"intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size"}, FourTimes(run.hidden_size));
  run.feed_forward_kind = v1::FEED_FORWARD_KIND_GELU;
  run.sequence_length = config.Optional(
      {"max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "n_ctx"}, 0);
  if (family == "falcon") {
    const bool grouped = config.Flag("new_decoder_architecture", false);
    if (grouped) {
      run.key_value_head_count = config.Optional({"num_kv_heads", "n_head_kv"}, 0);
    } else if (config.Flag("multi_query", true)) {
      run.key_value_head_count = 1;
    }
  }
  if (family == "mpt" && !config.Has("ffn_hidden_size")) {
    const int64_t size = int64_t{config.Optional({"expansion_ratio"}, 4)} * run.hidden_size;
    run.feed_forward_size = size <= kMaxImportCount ? static_cast<int>(size) : kMaxImportCount;
  }
  return run;
}

void ReadT5(Config& config, ModelFacts* facts) {
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
  facts->runs.push_back(run);
  run.kind = v1::LAYER_KIND_CROSS_DECODER;
  run.layer_count = config.Optional({"num_decoder_layers"}, run.layer_count);
  facts->runs.push_back(run);
}

// Values of one patch and patches of one image; true when they fit.
bool ReadPatches(Config& config, ModelFacts* facts, int* patches_a_side) {
  const int image_size = config.Optional({"image_size"}, 224);
  const int patch_size = config.Size({"patch_size"});
  const int channels = config.Optional({"num_channels"}, 3);
  if (patch_size < 1 || patch_size > 4096 || channels > 64 || image_size > 65536) return false;
  facts->patch_value_count = patch_size * patch_size * channels;
  facts->class_count = config.Optional({"num_labels"}, 1000);
  *patches_a_side = image_size / patch_size;
  return *patches_a_side > 0;
}

absl::Status ReadVit(Config& config, ModelFacts* facts) {
  int side = 0;
  if (!ReadPatches(config, facts, &side)) {
    PARPLAN_RETURN_IF_ERROR(config.status());
    return config.Error("patch_size", "must divide the image into patches");
  }
  TransformerRunFacts run;
  run.kind = v1::LAYER_KIND_ENCODER;
  run.layer_count = config.Size({"num_hidden_layers"});
  run.hidden_size = config.Size({"hidden_size"});
  run.attention_head_count = config.Size({"num_attention_heads"});
  run.feed_forward_size = config.Optional({"intermediate_size"}, FourTimes(run.hidden_size));
  run.feed_forward_kind = v1::FEED_FORWARD_KIND_GELU;
  if (side > 2048) return config.Error("image_size", "must have at most 2048 patches a side");
  run.sequence_length = side * side + 1;
  facts->runs.push_back(run);
  return absl::OkStatus();
}

absl::Status ReadSwin(Config& config, ModelFacts* facts, std::vector<std::string>* notes) {
  int side = 0;
  if (!ReadPatches(config, facts, &side)) {
    PARPLAN_RETURN_IF_ERROR(config.status());
    return config.Error("patch_size", "must divide the image into patches");
  }
  const std::vector<int> depths = config.List("depths");
  const std::vector<int> heads = config.List("num_heads");
  int width = config.Size({"embed_dim"});
  const int ratio = config.Optional({"mlp_ratio"}, 4);
  PARPLAN_RETURN_IF_ERROR(config.status());
  if (depths.size() != heads.size() || depths.size() > 8) {
    return config.Error("num_heads", "must have as many entries as depths, at most 8");
  }
  if (width > 1 << 16 || ratio > 64) {
    return config.Error("embed_dim", "must be at most 65536, and mlp_ratio at most 64");
  }
  if (side > 2048) return config.Error("image_size", "must have at most 2048 patches a side");
  for (size_t i = 0; i < depths.size() && side > 0; ++i, width *= 2, side /= 2) {
    TransformerRunFacts run;
    run.kind = v1::LAYER_KIND_ENCODER;
    run.layer_count = depths[i];
    run.hidden_size = width;
    run.attention_head_count = heads[i];
    run.feed_forward_size = width * ratio;
    run.feed_forward_kind = v1::FEED_FORWARD_KIND_GELU;
    run.sequence_length = side * side;
    facts->runs.push_back(run);
  }
  notes->push_back(
      "windows and patch merging of Swin are not in the sizes; times and memory are of the layers "
      "as measured");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModelFacts> ReadModelConfig(const json& object, absl::string_view file_name,
                                           std::vector<std::string>* notes) {
  Config config(object, file_name);
  std::string family = config.Text("model_type");
  const bool galvatron = family.empty();
  for (const char* key : {"num_local_experts", "num_experts", "n_routed_experts"}) {
    if (config.Has(key) && config.Optional({key}, 1) > 1) family = "mixture of experts";
  }
  PARPLAN_RETURN_IF_ERROR(config.status());
  if (family == "mixture of experts" || family == "mixtral" || absl::StrContains(family, "moe")) {
    return config.Error(
        "model_type",
        "mixtures of experts are not supported; this importer reads dense layers only, "
        "so write the model by hand (docs/files.md)");
  }
  if (galvatron) family = FamilyFromKeys(config);

  ModelFacts facts;
  // Whether Hugging Face ties the head of this family when the config is silent.
  bool tied = false;
  if (family == "llama" || family == "mistral" || family == "qwen2" || family == "gemma" ||
      family == "baichuan") {
    facts.runs.push_back(ReadGatedDecoder(config, notes));
    tied = family == "gemma";
  } else if (family == "gpt2" || family == "gpt_neox" || family == "opt" || family == "bloom" ||
             family == "falcon" || family == "mpt" || family == "bert") {
    facts.runs.push_back(ReadPlainLayer(config, family));
    tied = family != "gpt_neox";
    if (family == "opt" && config.Has("word_embed_proj_dim") &&
        config.Size({"word_embed_proj_dim"}) != facts.runs[0].hidden_size) {
      return config.Error("word_embed_proj_dim",
                          "must be hidden_size; a projection between "
                          "embedding and layers is not supported");
    }
  } else if (family == "t5" || family == "mt5") {
    ReadT5(config, &facts);
    tied = family == "t5";
  } else if (family == "vit") {
    PARPLAN_RETURN_IF_ERROR(ReadVit(config, &facts));
  } else if (family == "swin") {
    PARPLAN_RETURN_IF_ERROR(ReadSwin(config, &facts, notes));
  } else {
    return config.Error(
        "model_type",
        absl::StrCat(galvatron ? "is missing and the keys are of no known family"
                               : absl::StrCat("`", family, "` is not supported"),
                     "; supported are llama, mistral, qwen2, gemma, baichuan, gpt2, gpt_neox, opt, "
                     "bloom, falcon, mpt, bert, vit, swin and t5. Write the model file by hand "
                     "(docs/) or give the sizes as flags"));
  }
  if (facts.patch_value_count == 0) {
    facts.vocabulary_size = config.Size({"vocab_size"});
    // Galvatron trains every model with a head of its own.
    facts.tied_embedding = config.Flag("tie_word_embeddings", galvatron ? false : tied);
  }
  PARPLAN_RETURN_IF_ERROR(config.status());
  return facts;
}

}  // namespace parplan
