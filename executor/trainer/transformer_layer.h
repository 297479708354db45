// An encoder or decoder layer on one rank, forward and backward (Vaswani et al. 2017 with
// the norms before each block; split as Megatron-LM does, Shoeybi et al. 2019, section 3, and
// Korthikanti et al. 2022, section 4.2).

#ifndef PARPLAN_EXECUTOR_TRAINER_TRANSFORMER_LAYER_H_
#define PARPLAN_EXECUTOR_TRAINER_TRANSFORMER_LAYER_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/trainer/attention_part.h"
#include "executor/trainer/layer_tools.h"
#include "executor/trainer/parameter_layout.h"

namespace parplan {

class TransformerLayer {
 public:
  // What the backward pass of a micro-batch needs.
  struct Kept {
    Array input;
    Array first_normal;
    Array first_moments;
    AttentionPart::Kept attention;
    Array attended;
    Array middle;
    Array second_normal;
    Array second_moments;
    Array inner;
    Array activated;
  };

  // `tools` and `layout` outlive it.
  TransformerLayer(const LayerTools& tools, const ParameterLayout& layout);

  // `parameters`: of this rank, by `layout`. Keeps what the backward pass needs, the input
  // too; all but the input counts as `use`. The errors of communicators and memory.
  absl::StatusOr<Array> Forward(const void* parameters, Array input, ArrayUse use,
                                Kept& kept) const;
  // Drops what selective recomputation does again, and does it again.
  static void DropAttention(Kept& kept) { kept.attention.logarithms.Reset(); }
  absl::Status RecomputeAttention(Kept& kept) const {
    return attention_.Recompute(kept.attention, kept.attended);
  }
  // The gradient of the input, in the place of that of the output; adds those of the parameters
  // to `gradients`. Leaves nothing kept: what was kept and is of no more use makes room for
  // gradients, so that little is needed besides.
  absl::StatusOr<Array> Backward(const void* parameters, Kept kept, Array output_gradient,
                                 void* gradients) const;

 private:
  const void* In(const void* parameters, const char* name) const;
  void* Out(void* gradients, const char* name) const;
  void Norm(const void* parameters, const char* gain, const char* bias, const void* x, void* y,
            void* moments) const;
  void NormBackward(const void* parameters, const char* gain, const char* bias, const void* dy,
                    const void* x, const void* moments, void* dx, void* gradients) const;
  absl::StatusOr<Array> Attend(const void* parameters, ArrayUse use, Kept& kept) const;
  absl::StatusOr<Array> FeedForward(const void* parameters, ArrayUse use, Kept& kept) const;
  // From the gradient of a block's output to that of its input, which passes by the block
  // unchanged besides.
  absl::Status FeedForwardBackward(const void* parameters, Kept& kept, Array& dx,
                                   void* gradients) const;
  absl::Status AttendBackward(const void* parameters, Kept& kept, Array& dx, void* gradients) const;
  // Behind a product with `normal`, whose input had the gradient `d_product`: adds the gradient
  // of the matrix to `matrix_gradient` and that of the norm's output to `dx` through the norm.
  // `normal` makes room.
  absl::Status ProductBackward(const void* parameters, const char* gain, const char* bias,
                               const char* matrix, int64_t width, Array d_product, Array normal,
                               const Array& x, const Array& moments, Array& dx,
                               void* gradients) const;
  // The sum of two rows of the residual stream: y += x.
  void AddResidual(const void* x, void* y) const;

  const LayerTools& tools_;
  const ParameterLayout& layout_;
  const AttentionPart attention_;
  const NormKind norm_;
  const int64_t hidden_;
  // Of the inner layer: columns on this rank, and of its first product.
  const int64_t inner_;
  const int64_t inner_product_;
};

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_TRAINER_TRANSFORMER_LAYER_H_
