// The number formats a model is trained with.
//
// `Precision` names a combination of formats, as the contract does: one in which weights and
// activations lie in memory, one that the matrix units multiply, one in which the optimizer sums
// up, one that travels. Code asks for the format it means:
//
//   const PrecisionTraits& formats = TraitsOf(model.precision());
//   device.MatrixFlops(formats.compute);       // rate of attention, head and router
//   device.MatrixFlops(formats.products());    // rate of the layers' linear maps
//   BytesPerElement(formats.storage);          // size of a stored activation
//
// Recipes of 8 and 4 bits store weights, activations and gradients in bf16 and quantise the
// operands of the layers' linear maps (`Quantisation`). Attention, the router, embedding and head
// keep 16 bits. docs/cost-model.md has the table with its sources.
//
// The cost model, the exporters and the importers ask it.

#ifndef PARPLAN_PLANNER_MODEL_PRECISION_H_
#define PARPLAN_PLANNER_MODEL_PRECISION_H_

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace parplan {

// The combination of formats, by the numbers of proto/parplan/v1/model.proto. All but `kFp32` have
// fp32 weights in the optimizer.
enum class Precision {
  kFp32 = 1,
  kBf16 = 2,
  kFp16 = 3,
  // bf16 with 8-bit linear maps, one scale for each
  kFp8Delayed = 4,    // tensor, from the largest values of earlier steps
  kFp8Current = 5,    // tensor, from its own largest value
  kFp8Rowwise = 6,    // row, from its own largest value
  kFp8Blockwise = 7,  // 128 elements of activations, 128 x 128 weights
  kMxfp8 = 8,         // 32 elements
  // bf16 with 4-bit linear maps, one scale for 16 elements and one for the tensor
  kNvfp4 = 9,
};
inline constexpr int kPrecisionCount = 9;

// A format of numbers in memory and in messages.
enum class StorageFormat { kFp32, kBf16, kFp16 };

// A format of the operands of matrix products: one rate of the matrix units each.
enum class ComputeFormat {
  // TF32 if the device has it.
  kFp32,
  // bf16 or fp16, which matrix units multiply at the same rate.
  k16Bit,
  k8Bit,
  k4Bit,
};

// How the operands of linear maps are quantised: those of the forward pass, and those of both
// gradients. Quantisation is a kernel of its own over each activation, each gradient of an output,
// and, once a step, each weight.
struct Quantisation {
  ComputeFormat format;
  // Bytes of one element with its share of the scales.
  double operand_bytes;
  // Whether a tensor has one scale, whichever order it is read in.
  bool has_tensor_scale;
  // Number of times that quantisation reads a tensor: once to find its largest value if a scale
  // depends on all of it, and once to convert it.
  int read_count;
  // Whether ranks can gather sharded weights quantised: the same numbers serve products that sum
  // over rows and over columns.
  bool gathers_weights;
  // Whether weights can exist quantised only (`RuntimeTraits::quantised_parameters`).
  bool has_parameters;
  // Whether sequence-parallel ranks gather the inputs of linear maps quantised.
  bool gathers_inputs;

  // The most copies of a quantised tensor: one for products that sum over its rows, one for those
  // over its columns. `QuantisedCopyCount` (layer_precision.h) has those on a device.
  static constexpr int kCopyCount = 2;
};

// The formats of one precision: a row of the table `KnownPrecisions`.
struct PrecisionTraits {
  Precision precision;
  // Name in flags and file names: `bf16`.
  absl::string_view name;
  // Weights that layers read, activations and their gradients.
  StorageFormat storage;
  // Operands of attention and of all matrix products that are not quantised.
  ComputeFormat compute;
  // Weights that the optimizer updates, and its moments unless `RuntimeTraits::moment_bytes` is 2.
  StorageFormat accumulation;
  // Activations and parameters in messages. Gradients travel as the runtime says.
  StorageFormat communication;
  // The loss is scaled so that small gradients do not vanish, and gradients are checked for
  // overflow before each optimizer step.
  bool scales_loss;
  // The recipe of the layers' linear maps; absent if their operands are as they lie in memory.
  std::optional<Quantisation> quantisation = std::nullopt;

  // Returns the format of the operands of the layers' linear maps.
  ComputeFormat products() const {
    return quantisation.has_value() ? quantisation->format : compute;
  }
  // The optimizer keeps a copy of the weights in its own format.
  bool has_master_weights() const { return storage != accumulation; }
};

// Returns the rows of all precisions in the order of their values. The table is static.
absl::Span<const PrecisionTraits> KnownPrecisions();

// Returns the row of `precision`, one of the values above; aborts for another. O(1).
const PrecisionTraits& TraitsOf(Precision precision);

// Returns the precision with that `PrecisionTraits::name`, or nothing.
std::optional<Precision> FindPrecision(absl::string_view name);

// Returns the precision that a description such as `bfloat16 mixed` names, or nothing. REQUIRES,
// unchecked: its letters are lower-case, and it is the name of a precision, or the caller has
// refused descriptions of products of 8 bits or fewer, which this function may take for the 16-bit
// format beside them (`bf16 with fp8`).
std::optional<Precision> FindPrecisionIn(absl::string_view description);

// Returns the size of one element in bytes.
int64_t BytesPerElement(StorageFormat format);
// Without scales: a half in 4 bits.
double BytesPerElement(ComputeFormat format);

// Returns the size of one stored weight or activation in bytes: that of its storage format.
int64_t BytesPerElement(Precision precision);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_MODEL_PRECISION_H_
