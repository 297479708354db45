#include "executor/trainer/token_source.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "executor/device/kernels/mix_bits.h"

namespace parplan {
namespace {

uint64_t SampleKey(uint64_t seed, int64_t step, int64_t sample) {
  return MixBits(seed ^
                 MixBits(static_cast<uint64_t>(step) ^ MixBits(static_cast<uint64_t>(sample))));
}

class SyntheticTokens : public TokenSource {
 public:
  SyntheticTokens(int vocabulary_size, uint64_t seed)
      : vocabulary_size_(static_cast<uint64_t>(vocabulary_size)), seed_(seed) {}

  // Walks through the vocabulary in small steps; one token in eight is random.
  int32_t TokenAt(int64_t step, int64_t sample, int64_t position) const override {
    const uint64_t key = SampleKey(seed_, step, sample);
    const uint64_t noise = MixBits(key ^ static_cast<uint64_t>(position));
    if (noise % 8 == 0) return static_cast<int32_t>((noise >> 8) % vocabulary_size_);
    const uint64_t stride = 1 + key % 3;
    return static_cast<int32_t>(
        ((key >> 8) % vocabulary_size_ + stride * static_cast<uint64_t>(position)) %
        vocabulary_size_);
  }

 private:
  const uint64_t vocabulary_size_;
  const uint64_t seed_;
};

class TextTokens : public TokenSource {
 public:
  TextTokens(std::string text, int64_t sequence_length, uint64_t seed)
      : text_(std::move(text)),
        place_count_(text_.size() - static_cast<uint64_t>(sequence_length)),
        seed_(seed) {}

  int32_t TokenAt(int64_t step, int64_t sample, int64_t position) const override {
    const uint64_t place = SampleKey(seed_, step, sample) % place_count_;
    return static_cast<unsigned char>(text_[place + static_cast<uint64_t>(position)]);
  }

 private:
  const std::string text_;
  const uint64_t place_count_;
  const uint64_t seed_;
};

}  // namespace

std::unique_ptr<TokenSource> MakeSyntheticTokens(int vocabulary_size, uint64_t seed) {
  return std::make_unique<SyntheticTokens>(vocabulary_size, seed);
}

absl::StatusOr<std::unique_ptr<TokenSource>> MakeTextTokens(std::string text,
                                                            int64_t sequence_length,
                                                            int vocabulary_size, uint64_t seed) {
  if (static_cast<int64_t>(text.size()) <= sequence_length) {
    return absl::InvalidArgumentError(
        absl::StrCat("the text has ", text.size(), " bytes; a sample needs ", sequence_length + 1,
                     "; give a longer text or a model with a shorter sequence_length"));
  }
  if (vocabulary_size < 256) {
    return absl::InvalidArgumentError(absl::StrCat("bytes need a vocabulary of 256, not ",
                                                   vocabulary_size,
                                                   "; give a model with vocabulary_size >= 256"));
  }
  return std::make_unique<TextTokens>(std::move(text), sequence_length, seed);
}

}  // namespace parplan
