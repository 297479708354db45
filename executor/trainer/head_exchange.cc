#include "executor/trainer/head_exchange.h"

#include "base/status_macros.h"

namespace parplan {

HeadExchange::HeadExchange(const LayerTools& tools, int64_t row_count)
    : tools_(tools), row_count_(row_count), ways_(tools.strategy().context_parallel_degree) {}

absl::Status HeadExchange::Exchange(const Array& packed, const Array& arrived,
                                    int64_t width) const {
  return tools_.setting().context->Run({.operation = Operation::kAllToAll,
                                        .type = tools_.kernels().type(),
                                        .count = row_count_ * width / ways_,
                                        .send = packed.data(),
                                        .receive = arrived.data()});
}

absl::Status HeadExchange::ToHeads(const void* rows, int64_t row_stride, int64_t width, void* whole,
                                   int64_t whole_stride) const {
  const int64_t part = width / ways_;
  PARPLAN_ASSIGN_OR_RETURN(const Array packed,
                           tools_.Take(ArrayUse::kTransient, row_count_ * width));
  PARPLAN_ASSIGN_OR_RETURN(const Array arrived,
                           tools_.Take(ArrayUse::kTransient, row_count_ * width));
  for (int other = 0; other < ways_; ++other) {
    tools_.kernels().CopyRows(tools_.At(rows, other * part), row_stride,
                              tools_.At(packed.data(), other * row_count_ * part), part, row_count_,
                              part);
  }
  PARPLAN_RETURN_IF_ERROR(Exchange(packed, arrived, width));
  // Ranks have consecutive tokens in order, so the rows that arrive are in order too.
  tools_.kernels().CopyRows(arrived.data(), part, whole, whole_stride, row_count_ * ways_, part);
  return absl::OkStatus();
}

absl::Status HeadExchange::ToTokens(const void* whole, int64_t whole_stride, int64_t width,
                                    void* rows, int64_t row_stride) const {
  const int64_t part = width / ways_;
  PARPLAN_ASSIGN_OR_RETURN(const Array packed,
                           tools_.Take(ArrayUse::kTransient, row_count_ * width));
  PARPLAN_ASSIGN_OR_RETURN(const Array arrived,
                           tools_.Take(ArrayUse::kTransient, row_count_ * width));
  tools_.kernels().CopyRows(whole, whole_stride, packed.data(), part, row_count_ * ways_, part);
  PARPLAN_RETURN_IF_ERROR(Exchange(packed, arrived, width));
  for (int other = 0; other < ways_; ++other) {
    tools_.kernels().CopyRows(tools_.At(arrived.data(), other * row_count_ * part), part,
                              tools_.At(rows, other * part), row_stride, row_count_, part);
  }
  return absl::OkStatus();
}

}  // namespace parplan
