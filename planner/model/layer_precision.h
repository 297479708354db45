// The recipe by which a layer's linear maps are quantised. The cost model asks it.

#ifndef PARPLAN_PLANNER_MODEL_LAYER_PRECISION_H_
#define PARPLAN_PLANNER_MODEL_LAYER_PRECISION_H_

#include <optional>

#include "planner/model/hardware.h"
#include "planner/model/layer_definition.h"
#include "planner/model/precision.h"
#include "planner/model/runtime_traits.h"

namespace parplan {

// Returns the recipe of `precision` for the linear maps of `layer`; nothing if they have the
// operands that lie in memory: those of tables and heads, of layers with `wide_products`, and all
// maps of a precision without a recipe.
inline std::optional<Quantisation> QuantisationOf(const LayerDefinition& layer,
                                                  Precision precision) {
  if (!IsTransformer(layer.kind) || layer.wide_products) return std::nullopt;
  return TraitsOf(precision).quantisation;
}

// Returns whether the weights of linear maps exist quantised only, which takes a recipe that can
// and a runtime that does.
inline bool HasQuantisedParameters(Precision precision, const RuntimeTraits& runtime) {
  const std::optional<Quantisation>& quantisation = TraitsOf(precision).quantisation;
  return quantisation.has_value() && quantisation->has_parameters && runtime.quantised_parameters;
}

// Returns how many copies of a quantised tensor products need on `device`, which is null if it is
// not known. Matrix units of Hopper read 8-bit operands in one order only, so a transposed copy
// serves products over the other dimension. Those of Blackwell (compute capability 10) read them in
// both orders: a tensor with one scale has one copy (Transformer Engine,
// common/gemm/cublaslt_gemm.cu and pytorch Float8Quantizer, which make none if
// `is_non_tn_fp8_gemm_supported`). Scales of rows, columns and blocks differ by the order, so such
// tensors have both copies everywhere. A precision without a recipe has no such tensors; the result
// is then 2 and has no meaning.
inline int QuantisedCopyCount(Precision precision, const DeviceDescription* device) {
  const std::optional<Quantisation>& quantisation = TraitsOf(precision).quantisation;
  const bool reads_both_orders = device != nullptr && device->device_family == "blackwell";
  const bool has_one = quantisation.has_value() && quantisation->has_tensor_scale;
  return has_one && reads_both_orders ? 1 : Quantisation::kCopyCount;
}

// Reads of an input or of a gradient of an output that `IsRotated` adds to `read_count`: the
// kernel that rotates and converts the copy which sums over tokens reads the tensor itself, beside
// the one that converts the other copy. The largest values of both are found in one read.
inline constexpr int kRotationReads = 1;

// Values of four bits that one random number of 32 bits rounds.
inline constexpr double kRoundedByOneNumber = 4.0;

// Returns whether both operands of the gradients of weights of `layer` are rotated by random
// Hadamard matrices before they are quantised, and gradients of outputs are rounded by chance, as
// the recipe of NVFP4 has it ("Pretraining Large Language Models with NVFP4", arXiv 2509.25149,
// section 4; Transformer Engine, pytorch/csrc/quantizer.cpp, `NVFP4Quantizer::quantize_impl`, and
// `cvt.rs.satfinite.e2m1x4` in its kernels). Frozen weights have no gradients.
inline bool IsRotated(const LayerDefinition& layer, Precision precision) {
  return precision == Precision::kNvfp4 && !layer.frozen &&
         QuantisationOf(layer, precision).has_value();
}

}  // namespace parplan

#endif  // PARPLAN_PLANNER_MODEL_LAYER_PRECISION_H_
