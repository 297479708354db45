// The tokens that a model is trained on. `TrainerLayer` asks for them, row by row.

#ifndef PARPLAN_EXECUTOR_TRAINER_TOKEN_SOURCE_H_
#define PARPLAN_EXECUTOR_TRAINER_TOKEN_SOURCE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace parplan {

// Samples by step and by number within the step's global batch, both from 0; the same on every rank
// and under every plan. Safe from any thread.
class TokenSource {
 public:
  virtual ~TokenSource() = default;
  // Returns token `position` of `sample` of `step`, in [0, vocabulary). `position` may be the
  // length of the sequence: the target of the last token. REQUIRES, unchecked: it is not above
  // that, and no argument is below 0.
  virtual int32_t TokenAt(int64_t step, int64_t sample, int64_t position) const = 0;
};

// Makes tokens that follow each other by a rule with some noise, so that a model can learn them.
// REQUIRES, unchecked: `vocabulary_size` is above 0.
std::unique_ptr<TokenSource> MakeSyntheticTokens(int vocabulary_size, uint64_t seed);

// Makes tokens of the bytes of `text`, 0 to 255; samples begin at offsets computed from step and
// number, and may overlap. INVALID_ARGUMENT with no `Reason` if the text is shorter than a sample
// and the token after it, else if the vocabulary is less than 256. Takes `sequence_length` as at
// least 0, unchecked.
absl::StatusOr<std::unique_ptr<TokenSource>> MakeTextTokens(std::string text,
                                                            int64_t sequence_length,
                                                            int vocabulary_size, uint64_t seed);

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_TRAINER_TOKEN_SOURCE_H_
