#include "studies/oracle/oracle_models.h"

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace parplan {
namespace {

// A config by its name in lower case. They are the configs of the profiled models (model card, or
// `meta_configs` of the engine); `llama-7b-v128k` has the width of its measured layers.
struct KnownConfig {
  absl::string_view name;
  // Hidden sizes of the layer runs, first to last.
  std::vector<int> hidden_sizes;
  absl::string_view config;
};

absl::Span<const KnownConfig> KnownConfigs() {
  static const auto* const configs = new std::vector<KnownConfig>{
      {"llama-7b",
       {4096},
       R"({"dim":4096,"ffn_dim":11008,"n_heads":32,"n_layers":32,"vocab_size":32000})"},
      {"llama2-7b",
       {4096},
       R"({"dim":4096,"ffn_dim":11008,"n_heads":32,"n_layers":32,"vocab_size":32000})"},
      {"llama-7b-v128k",
       {4096},
       R"({"dim":4096,"ffn_dim":15296,"n_heads":32,"n_layers":32,"vocab_size":131072})"},
      {"llama-13b",
       {5120},
       R"({"dim":5120,"ffn_dim":13824,"n_heads":40,"n_layers":40,"vocab_size":32000})"},
      {"llama2-13b",
       {5120},
       R"({"dim":5120,"ffn_dim":13824,"n_heads":40,"n_layers":40,"vocab_size":32000})"},
      {"llama-30b",
       {6656},
       R"({"dim":6656,"ffn_dim":17920,"n_heads":52,"n_layers":60,"vocab_size":32000})"},
      {"llama2-70b",
       {8192},
       R"({"dim":8192,"ffn_dim":28672,"n_heads":64,"n_kv_heads":8,"n_layers":80,)"
       R"("vocab_size":32000})"},
      {"llama3-8b",
       {4096},
       R"({"dim":4096,"ffn_dim":14336,"n_heads":32,"n_kv_heads":8,"n_layers":32,)"
       R"("vocab_size":128256})"},
      {"llama3-70b",
       {8192},
       R"({"dim":8192,"ffn_dim":28672,"n_heads":64,"n_kv_heads":8,"n_layers":80,)"
       R"("vocab_size":128256})"},
      {"qwen2.5-7b",
       {3584},
       R"({"dim":3584,"ffn_dim":18944,"n_heads":28,"n_kv_heads":4,"n_layers":28,)"
       R"("vocab_size":152064})"},
      {"qwen2.5-32b",
       {5120},
       R"({"dim":5120,"ffn_dim":27648,"n_heads":40,"n_kv_heads":8,"n_layers":64,)"
       R"("vocab_size":152064})"},
      {"qwen2.5-72b",
       {8192},
       R"({"dim":8192,"ffn_dim":29568,"n_heads":64,"n_kv_heads":8,"n_layers":80,)"
       R"("vocab_size":152064})"},
      {"gpt-1.5b", {1600}, R"({"n_embd":1600,"n_head":32,"n_layer":48,"vocab_size":50257})"},
      {"gpt-2.7b", {2560}, R"({"n_embd":2560,"n_head":32,"n_layer":32,"vocab_size":50257})"},
      {"gpt-6.7b", {4096}, R"({"n_embd":4096,"n_head":32,"n_layer":32,"vocab_size":50257})"},
      {"bert-base",
       {768},
       R"({"hidden_size":768,"num_hidden_layers":12,"num_attention_heads":12,"vocab_size":30522})"},
      {"bert-large",
       {1024},
       R"({"hidden_size":1024,"num_hidden_layers":24,"num_attention_heads":16,)"
       R"("vocab_size":30522})"},
      {"bert-huge",
       {1280},
       R"({"hidden_size":1280,"num_hidden_layers":32,"num_attention_heads":20,)"
       R"("vocab_size":30522})"},
      {"vit-huge",
       {1280},
       R"({"hidden_size":1280,"num_hidden_layers":32,"num_attention_heads":16,)"
       R"("intermediate_size":5120,"image_size":224,"patch_size":16,)"
       R"("num_labels":1000})"},
      {"swin-huge",
       {320, 640, 1280, 2560},
       R"({"embed_dim":320,"depths":[2,2,42,2],"num_heads":[8,16,32,64],)"
       R"("mlp_ratio":4,"image_size":224,"patch_size":4,"num_labels":1000})"},
      {"t5-3b",
       {1024, 1024},
       R"({"d_model":1024,"d_ff":16384,"d_kv":128,"num_heads":32,)"
       R"("num_layers":24,"vocab_size":32128})"},
      {"baichuan-7b",
       {4096},
       R"({"dim":4096,"ffn_dim":11008,"n_heads":32,"n_layers":32,"vocab_size":64000})"},
  };
  return *configs;
}

bool HasWidths(const KnownConfig& known, absl::Span<const OracleLayerRun> runs) {
  return std::equal(runs.begin(), runs.end(), known.hidden_sizes.begin(), known.hidden_sizes.end(),
                    [](const OracleLayerRun& run, int width) { return run.hidden_size == width; });
}

// The head's table, from the states of the head alone or of both ends.
int VocabularySize(const GalvatronMemory& memory, int hidden_size) {
  constexpr double kStateBytesPerParameter = 16.0;
  double parameters = 0.0;
  for (const GalvatronOtherMemory& other : memory.other) {
    const auto whole = other.state_megabytes.find(1);
    if (whole == other.state_megabytes.end()) continue;
    const double tables = other.place == GalvatronOtherMemory::Place::kBoth ? 2.0 : 1.0;
    parameters = std::max(parameters, whole->second * (1 << 20) / kStateBytesPerParameter / tables);
  }
  return std::max(1024, static_cast<int>(std::lround(parameters / hidden_size)));
}

int GatedFeedForwardSize(const GalvatronMemory& memory, int hidden_size) {
  double parameters = 0.0;
  for (const GalvatronLayerMemory& layer : memory.layers) {
    parameters = std::max(parameters, layer.parameter_megabytes * (1 << 20) / 4.0);
  }
  const double attention = 4.0 * hidden_size * hidden_size;
  return std::max(hidden_size,
                  static_cast<int>(std::lround((parameters - attention) / (3.0 * hidden_size))));
}

}  // namespace

NamedText OracleModelConfig(absl::string_view name, absl::Span<const OracleLayerRun> runs,
                            const GalvatronMemory& memory, std::vector<std::string>* notes) {
  const std::string lower = absl::AsciiStrToLower(name);
  absl::string_view plain = lower;
  // Profiles of a model under another schema have a suffix.
  absl::ConsumeSuffix(&plain, "-asprofiled");
  for (const KnownConfig& known : KnownConfigs()) {
    if (known.name == plain && HasWidths(known, runs)) {
      return {absl::StrCat("config of ", name), std::string(known.config)};
    }
  }
  const int hidden_size = runs.front().hidden_size;
  nlohmann::json config;
  config["dim"] = hidden_size;
  config["n_heads"] = hidden_size % 128 == 0 ? hidden_size / 128 : std::max(1, hidden_size / 64);
  config["n_layers"] = runs.front().layer_count;
  config["ffn_dim"] = GatedFeedForwardSize(memory, hidden_size);
  config["vocab_size"] = VocabularySize(memory, hidden_size);
  notes->push_back(absl::StrCat("no sizes are known of `", name,
                                "`; heads, feed-forward part and vocabulary are such that "
                                "parameters are as measured"));
  return {absl::StrCat("sizes of ", name), config.dump()};
}

}  // namespace parplan
