// An encoder or decoder layer on one rank, forward and backward (Vaswani et al. 2017, with the
// norms before each block; split as in Megatron-LM, Shoeybi et al. 2019, section 3, and Korthikanti
// et al. 2022, section 4.2).
//
// Shapes below: `rows` is LayerTools::row_count, `product rows` LayerTools::product_row_count.

#ifndef PARPLAN_EXECUTOR_TRAINER_TRANSFORMER_LAYER_H_
#define PARPLAN_EXECUTOR_TRAINER_TRANSFORMER_LAYER_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/trainer/attention_part.h"
#include "executor/trainer/layer_tools.h"
#include "executor/trainer/parameter_layout.h"

namespace parplan {

// `TrainerLayer` has one. Used by the thread of the trainer; after an error it must be destroyed.
class TransformerLayer {
 public:
  // Arrays that the backward pass of a micro-batch needs.
  struct Kept {
    // [rows x hidden]
    Array input;
    // Output [rows x hidden] and statistics [2 rows] of the norm before attention.
    Array first_normal;
    Array first_moments;
    AttentionPart::Kept attention;
    // Output of attention [product rows x output_width()].
    Array attended;
    // The residual stream between attention and feed-forward block [rows x hidden].
    Array middle;
    // Output [rows x hidden] and statistics [2 rows] of the norm before the feed-forward block.
    Array second_normal;
    Array second_moments;
    // Output of the first product [product rows x inner_product_], and of the activation function
    // [product rows x inner_].
    Array inner;
    Array activated;
  };

  // `tools` and `layout` outlive it.
  TransformerLayer(const LayerTools& tools, const ParameterLayout& layout);

  // Returns UNIMPLEMENTED if the device has no kernels for its attention; before the first step.
  absl::Status Check() const { return attention_.Check(); }

  // Returns the output [rows x hidden]. `parameters`: those of this rank, by `layout`. Keeps what
  // the backward pass needs; all of it except the input counts under `use`. Collective over the
  // tensor- and the context-parallel group, as `Backward` is; `RecomputeAttention` is so over the
  // latter. Returns the errors of memory and communicators (layer_tools.h).
  absl::StatusOr<Array> Forward(const void* parameters, Array input, ArrayUse use,
                                Kept& kept) const;
  // Drop what selective recomputation recomputes, and recompute it. This and `Backward` return the
  // errors of `Forward`.
  static void DropAttention(Kept& kept) { kept.attention.logarithms.Reset(); }
  absl::Status RecomputeAttention(Kept& kept) const {
    return attention_.Recompute(kept.attention, kept.attended);
  }
  // Returns the gradient of the input, in the array of `output_gradient` [rows x hidden]; adds the
  // gradients of the parameters to `gradients`, by `layout`. REQUIRES, unchecked: what
  // `DropAttention` dropped is recomputed. Frees what was kept as it goes, and reuses it for
  // gradients, so that little more memory is needed.
  absl::StatusOr<Array> Backward(const void* parameters, Kept kept, Array output_gradient,
                                 void* gradients) const;

 private:
  const void* In(const void* parameters, const char* name) const;
  void* Out(void* gradients, const char* name) const;
  void Norm(const void* parameters, const char* gain, const char* bias, const void* x, void* y,
            void* moments) const;
  void NormBackward(const void* parameters, const char* gain, const char* bias, const void* dy,
                    const void* x, const void* moments, void* dx, void* gradients) const;
  // Returns what attention adds to its input, without the bias, which `FeedForward` adds together
  // with the input, in `kept.middle`.
  absl::StatusOr<Array> Attend(const void* parameters, ArrayUse use, Kept& kept) const;
  absl::StatusOr<Array> FeedForward(const void* parameters, ArrayUse use, Kept& kept) const;
  // Turn dx from the gradient of a block's output into that of its input: add the part through the
  // block to the part along the residual stream.
  absl::Status FeedForwardBackward(const void* parameters, Kept& kept, Array& dx,
                                   void* gradients) const;
  absl::Status AttendBackward(const void* parameters, Kept& kept, Array& dx, void* gradients) const;
  // Goes backward through a product of the norm's output `normal` with `matrix`, whose output
  // [product rows x width] has the gradient `d_product`: adds the gradient of the matrix to
  // `gradients` and, through the norm, that of the norm's input `x` to `dx`. Reuses `normal`.
  absl::Status ProductBackward(const void* parameters, const char* gain, const char* bias,
                               const char* matrix, int64_t width, Array d_product, Array normal,
                               const Array& x, const Array& moments, Array& dx,
                               void* gradients) const;
  // Returns the bias, null if the layer has none of this name.
  const void* BiasIn(const void* parameters, const char* name) const;

  const LayerTools& tools_;
  const ParameterLayout& layout_;
  const AttentionPart attention_;
  const NormKind norm_;
  const int64_t hidden_;
  // Columns of the inner layer on this rank, and of its first product: twice as many if it has a
  // gate.
  const int64_t inner_;
  const int64_t inner_product_;
};

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_TRAINER_TRANSFORMER_LAYER_H_
