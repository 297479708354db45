// The limit of sums of gradients in 16 bits.

#ifndef PARPLAN_EXECUTOR_EXEC_GRADIENT_SUMS_H_
#define PARPLAN_EXECUTOR_EXEC_GRADIENT_SUMS_H_

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "planner/model/model_spec.h"

namespace parplan {

// A sum in bf16 has 8 significant bits: of terms of one size the 257th changes it no more.
inline constexpr int64_t kMostBf16Terms = int64_t{1} << 8;

// Returns what to say of a plan that adds the gradients of `micro_batch_count` micro-batches, which
// the executor does in the precision of the parameters; empty if nothing is to be said.
inline std::string GradientSumWarning(Precision precision, int64_t micro_batch_count) {
  if (precision != Precision::kBf16 || micro_batch_count <= kMostBf16Terms) return "";
  return absl::StrCat("gradients of ", micro_batch_count,
                      " micro-batches are added in bf16, which has 8 significant bits: those after "
                      "the ",
                      kMostBf16Terms,
                      "th hardly count; train the model in fp32, or in larger micro-batches");
}

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_EXEC_GRADIENT_SUMS_H_
