// The number formats a model is trained with.
//
// `Precision` names a combination of formats, as the contract does: one in which weights and
// activations lie in memory, one that the matrix units multiply, one in which the optimizer sums
// up, one that travels. Code asks for the format it means:
//
//   const PrecisionTraits& formats = TraitsOf(model.precision());
//   device.MatrixFlops(formats.compute);       // rate of the products
//   BytesPerElement(formats.storage);          // size of a stored activation
//
// The cost model, the exporters and the importers ask it.

#ifndef PARPLAN_PLANNER_MODEL_PRECISION_H_
#define PARPLAN_PLANNER_MODEL_PRECISION_H_

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace parplan {

// Values as in proto/parplan/v1/model.proto.
enum class Precision { kFp32 = 1, kBf16 = 2, kFp16 = 3 };
inline constexpr int kPrecisionCount = 3;

// A format of numbers in memory and in messages.
enum class StorageFormat { kFp32, kBf16, kFp16 };

// A format of the operands of matrix products: one rate of the matrix units each.
enum class ComputeFormat {
  // TF32 if the device has it.
  kFp32,
  // bf16 or fp16, which matrix units multiply at the same rate.
  k16Bit,
};

struct PrecisionTraits {
  Precision precision;
  // Name in flags and file names: `bf16`.
  absl::string_view name;
  // Weights that layers read, activations and their gradients.
  StorageFormat storage;
  // Operands of the layers' matrix products and of attention.
  ComputeFormat compute;
  // Weights that the optimizer updates, and its moments.
  StorageFormat accumulation;
  // Activations and parameters in messages. Gradients travel as the runtime says.
  StorageFormat communication;
  // The loss is scaled so that small gradients do not vanish, and gradients are checked for
  // overflow before each optimizer step.
  bool scales_loss;

  // The optimizer keeps a copy of the weights in its own format.
  bool has_master_weights() const { return storage != accumulation; }
};

// Returns the rows of all precisions in the order of their values. The table is static.
absl::Span<const PrecisionTraits> KnownPrecisions();

// Returns the row of `precision`. O(1).
const PrecisionTraits& TraitsOf(Precision precision);

// Returns the precision with that `PrecisionTraits::name`, or nothing.
std::optional<Precision> FindPrecision(absl::string_view name);

// Returns the precision that a description such as `bfloat16 mixed` names, or nothing. REQUIRES:
// its letters are lower-case, and the caller has refused descriptions of products of 8 bits or
// fewer, which this function may take for the 16-bit format beside them (`bf16 with fp8`).
std::optional<Precision> FindPrecisionIn(absl::string_view description);

// Returns the size of one element in bytes.
int64_t BytesPerElement(StorageFormat format);
int64_t BytesPerElement(ComputeFormat format);

// Returns the size of one stored weight or activation in bytes: that of its storage format.
int64_t BytesPerElement(Precision precision);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_MODEL_PRECISION_H_
