#include "executor/trainer/layer_tools.h"

#include <utility>

#include "base/status_macros.h"

namespace parplan {

LayerTools::LayerTools(const Setting& setting)
    : setting_(setting),
      place_(setting.layout.PlaceOf(setting.rank)),
      element_size_(ElementSize(setting.kernels->type())),
      statistic_size_(ElementSize(setting.kernels->statistics_type())) {}

absl::StatusOr<Array> LayerTools::Take(ArrayUse use, int64_t element_count) const {
  return setting_.pool->Take(use, Bytes::Of(element_count * element_size_));
}

absl::StatusOr<Array> LayerTools::TakeOutput(int64_t element_count) const {
  return setting_.pool->Take(ArrayUse::kTransient, Bytes::Of(element_count * element_size_),
                             Lifetime::kLasting);
}

absl::StatusOr<Array> LayerTools::TakeStatistics(ArrayUse use, int64_t element_count) const {
  return setting_.pool->Take(use, Bytes::Of(element_count * statistic_size_));
}

absl::StatusOr<Array> LayerTools::TakeZeroStatistics(ArrayUse use, int64_t element_count) const {
  PARPLAN_ASSIGN_OR_RETURN(Array array, TakeStatistics(use, element_count));
  ZeroStatistics(array.data(), element_count);
  return array;
}

void LayerTools::ZeroStatistics(void* data, int64_t element_count) const {
  // The bits of a zero are zero in every type.
  kernels().Zero(data, element_count * statistic_size_ / element_size_);
}

absl::StatusOr<const void*> LayerTools::Gather(const void* x, int64_t width,
                                               Array& gathered) const {
  if (!is_sequence_parallel()) return x;
  PARPLAN_ASSIGN_OR_RETURN(gathered, Take(ArrayUse::kTransient, product_row_count() * width));
  PARPLAN_RETURN_IF_ERROR(
      setting_.tensor->AllGather(kernels().type(), x, gathered.data(), row_count() * width));
  return gathered.data();
}

absl::StatusOr<Array> LayerTools::SumUp(Array partial, int64_t width) const {
  if (setting_.tensor == nullptr) return partial;
  if (!is_sequence_parallel()) {
    PARPLAN_RETURN_IF_ERROR(
        setting_.tensor->AllReduce(kernels().type(), partial.data(), row_count() * width));
    return partial;
  }
  PARPLAN_ASSIGN_OR_RETURN(Array sum, TakeOutput(row_count() * width));
  PARPLAN_RETURN_IF_ERROR(setting_.tensor->ReduceScatter(kernels().type(), partial.data(),
                                                         sum.data(), row_count() * width));
  return sum;
}

}  // namespace parplan
