#include "clients/import/megatron_ends.h"

#include <cstddef>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "clients/import/megatron_degrees.h"

namespace parplan {
namespace {

constexpr absl::string_view kFirst = "decoder-first-pipeline-num-layers";
constexpr absl::string_view kLast = "decoder-last-pipeline-num-layers";
constexpr absl::string_view kEmbeddingCounts = "account-for-embedding-in-pipeline-split";
constexpr absl::string_view kLossCounts = "account-for-loss-in-pipeline-split";
constexpr absl::string_view kByStages = "num-virtual-stages-per-pipeline-rank";

// Divides the layers with embedding or loss counted as one each.
absl::Status CountEnds(const ArgumentList& arguments, int decoders, int pipeline,
                       UniformPlan* facts) {
  const int embedding = arguments.Has(kEmbeddingCounts) ? 1 : 0;
  const int loss = arguments.Has(kLossCounts) ? 1 : 0;
  const int slots = decoders + embedding + loss;
  const absl::string_view name = embedding > 0 ? kEmbeddingCounts : kLossCounts;
  if (slots % pipeline != 0) {
    return arguments.Fault(name, absl::StrCat("makes ", slots, " layers, which ", pipeline,
                                              " pipeline ranks do not divide"));
  }
  PARPLAN_ASSIGN_OR_RETURN(const int count, ReadMegatronVirtualStages(arguments, slots / pipeline));
  if (slots / pipeline % count != 0) {
    return arguments.Fault(kByStages, absl::StrCat("does not divide the ", slots / pipeline,
                                                   " layers of a pipeline rank"));
  }
  facts->virtual_stage_count = count;
  const int stage_count = pipeline * count;
  facts->stage_layer_counts.assign(static_cast<size_t>(stage_count), slots / stage_count);
  facts->stage_layer_counts.front() += 1 - embedding;
  facts->stage_layer_counts.back() += 1 - loss;
  return absl::OkStatus();
}

// Divides the layers that the first and the last rank leave.
absl::Status NameEnds(const ArgumentList& arguments, int decoders, int pipeline,
                      UniformPlan* facts) {
  const bool has_first = arguments.Has(kFirst);
  const bool has_last = arguments.Has(kLast);
  const absl::string_view name = has_first ? kFirst : kLast;
  const int ends = (has_first ? 1 : 0) + (has_last ? 1 : 0);
  const int first = arguments.Count(kFirst, 0);
  const int last = arguments.Count(kLast, 0);
  const int ranks = pipeline - ends;
  const int left = decoders - first - last;
  if (ranks < 0 || left < ranks || (ranks == 0 && left != 0) || (ranks > 0 && left % ranks != 0)) {
    return arguments.Fault(
        name, absl::StrCat("leaves ", left, " of ", decoders, " layers for ", ranks, " of ",
                           pipeline, " pipeline ranks, which do not divide them"));
  }
  std::vector<int> rank_layers(static_cast<size_t>(pipeline), ranks > 0 ? left / ranks : 0);
  if (has_first) rank_layers.front() = first;
  if (has_last) rank_layers.back() = last;
  // Layers of a rank between the ends, or of one at an end if there are no others.
  const int layers_of_rank = ranks > 0 ? left / ranks : rank_layers.front();
  PARPLAN_ASSIGN_OR_RETURN(const int count, ReadMegatronVirtualStages(arguments, layers_of_rank));
  facts->virtual_stage_count = count;
  for (const int layers : rank_layers) {
    if (layers % count == 0) continue;
    return arguments.Fault(name, absl::StrCat("leaves a pipeline rank ", layers, " layers, which ",
                                              count, " virtual stages do not divide"));
  }
  for (int chunk = 0; chunk < count; ++chunk) {
    for (const int layers : rank_layers) facts->stage_layer_counts.push_back(layers / count);
  }
  ++facts->stage_layer_counts.front();
  ++facts->stage_layer_counts.back();
  return absl::OkStatus();
}

}  // namespace

bool HasMegatronEnds(const ArgumentList& arguments) {
  return arguments.Has(kFirst) || arguments.Has(kLast) || arguments.Has(kEmbeddingCounts) ||
         arguments.Has(kLossCounts);
}

absl::Status ReadMegatronEnds(const ArgumentList& arguments, const ModelSpec& model, int pipeline,
                              UniformPlan* facts) {
  const int decoders = DecoderLayerCount(model);
  const bool counts = arguments.Has(kEmbeddingCounts) || arguments.Has(kLossCounts);
  const bool names = arguments.Has(kFirst) || arguments.Has(kLast);
  if (counts && names) {
    return arguments.Fault(
        arguments.Has(kFirst) ? kFirst : kLast,
        absl::StrCat("contradicts --",
                     arguments.Has(kEmbeddingCounts) ? kEmbeddingCounts : kLossCounts));
  }
  PARPLAN_RETURN_IF_ERROR(counts ? CountEnds(arguments, decoders, pipeline, facts)
                                 : NameEnds(arguments, decoders, pipeline, facts));
  // Layers that predict further tokens are beside the head.
  facts->stage_layer_counts.back() += FurtherTokenCount(model);
  return absl::OkStatus();
}

}  // namespace parplan
