#include "clients/calibrate/known_models.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace parplan::accuracy {
namespace {

struct KnownModel {
  // Letters and digits of the name's beginning, in lower case.
  absl::string_view name;
  int layer_count;
  int hidden_size;
  int attention_head_count;
  int key_value_head_count;
  int feed_forward_size;
  int vocabulary_size;
  int expert_count = 0;
  int experts_per_token = 0;
};
constexpr KnownModel kModels[] = {
    {"gpt3175b", 96, 12288, 96, 96, 49152, 51200},
    {"llama27b", 32, 4096, 32, 32, 11008, 32000},
    {"llama213b", 40, 5120, 40, 40, 13824, 32000},
    {"llama270b", 80, 8192, 64, 8, 28672, 32000},
    {"llama38b", 32, 4096, 32, 8, 14336, 128256},
    {"llama318b", 32, 4096, 32, 8, 14336, 128256},
    {"llama370b", 80, 8192, 64, 8, 28672, 128256},
    {"llama3170b", 80, 8192, 64, 8, 28672, 128256},
    {"llama31405b", 126, 16384, 128, 8, 53248, 128256},
    {"llama3405b", 126, 16384, 128, 8, 53248, 128256},
    {"mixtral8x7b", 32, 4096, 32, 8, 14336, 32000, 8, 2},
    {"mixtral8x22b", 56, 6144, 48, 8, 16384, 32000, 8, 2},
    {"mpt125m", 12, 768, 12, 12, 3072, 50368},
    {"mpt350m", 24, 1024, 16, 16, 4096, 50368},
    {"mpt760m", 24, 1536, 12, 12, 6144, 50368},
    {"mpt1b", 24, 2048, 16, 16, 8192, 50368},
    {"mpt3b", 32, 2560, 20, 20, 10240, 50368},
    {"mpt7b", 32, 4096, 32, 32, 16384, 50368},
    {"mpt13b", 40, 5120, 40, 40, 20480, 50368},
    {"mpt30b", 48, 7168, 56, 56, 28672, 50368},
    {"mpt70b", 80, 8192, 64, 64, 32768, 50368},
    {"nemotron8b", 32, 4096, 32, 32, 16384, 256000},
    {"nemotron15b", 32, 6144, 48, 8, 24576, 256000},
    {"nemotron415b", 32, 6144, 48, 8, 24576, 256000},
    {"nemotron340b", 96, 18432, 96, 8, 73728, 256000},
    {"nemotron4340b", 96, 18432, 96, 8, 73728, 256000},
};

}  // namespace

void FillKnownModel(const std::string& name, PublishedModel* model) {
  std::string plain;
  for (const char character : name) {
    if (absl::ascii_isalnum(character)) plain += absl::ascii_tolower(character);
  }
  for (const KnownModel& known : kModels) {
    if (!absl::StartsWith(plain, known.name)) continue;
    model->layer_count = known.layer_count;
    model->hidden_size = known.hidden_size;
    model->attention_head_count = known.attention_head_count;
    model->key_value_head_count = known.key_value_head_count;
    model->feed_forward_size = known.feed_forward_size;
    model->vocabulary_size = known.vocabulary_size;
    model->expert_count = known.expert_count;
    model->experts_per_token = known.experts_per_token;
    return;
  }
}

}  // namespace parplan::accuracy
