// What is trained on.

#ifndef PARPLAN_EXECUTOR_TRAINER_TOKEN_SOURCE_H_
#define PARPLAN_EXECUTOR_TRAINER_TOKEN_SOURCE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace parplan {

// Samples by step and number: the same on every rank, whatever the plan. Thread-compatible.
class TokenSource {
 public:
  virtual ~TokenSource() = default;
  // Token `position` of `sample` of `step`, in [0, vocabulary). Positions go one further than
  // the sequence: the last token's target.
  virtual int32_t TokenAt(int64_t step, int64_t sample, int64_t position) const = 0;
};

// Tokens that follow one another by a rule with some noise, so that a model can learn them.
std::unique_ptr<TokenSource> MakeSyntheticTokens(int vocabulary_size, uint64_t seed);

// The bytes of a text as tokens; samples begin at places that follow from step and number.
// INVALID_ARGUMENT where the text is shorter than a sample or the vocabulary than 256.
absl::StatusOr<std::unique_ptr<TokenSource>> MakeTextTokens(std::string text,
                                                            int64_t sequence_length,
                                                            int vocabulary_size, uint64_t seed);

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_TRAINER_TOKEN_SOURCE_H_
