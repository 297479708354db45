#include "executor/device/cuda/cudnn_graph.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"

namespace parplan::cuda {
namespace {

namespace fe = cudnn_frontend;

// Largest workspace of a graph; one that needs more is not used. Deterministic gradients on Hopper
// keep all scores in bf16 unless the library has an ordered sum (`LoadCudnn`, cudnn_attention.cc):
// 4 GiB at 8192 tokens of 32 heads, which no plan of memory knows of.
constexpr int64_t kMaxWorkspaceBytes = int64_t{1} << 30;

}  // namespace

std::string ShortMessage(const std::string& message) {
  constexpr size_t kMaxSize = 200;
  return message.substr(0, std::min(message.find('\n'), kMaxSize));
}

CudnnMask MaskOf(const AttentionShape& shape) {
  if (!shape.is_causal || shape.first_query >= shape.key_count - 1) return CudnnMask::kNone;
  if (shape.first_query == 0) return CudnnMask::kTopLeft;
  if (shape.first_query > 0 && shape.first_query == shape.key_count - shape.query_count) {
    return CudnnMask::kBottomRight;
  }
  return CudnnMask::kUnknown;
}

GraphKey KeyOf(const AttentionShape& s, const AttentionShape& gradients, bool is_backward) {
  return {is_backward,
          static_cast<int64_t>(MaskOf(s)),
          s.sample_count,
          s.query_count,
          s.key_count,
          s.head_count,
          s.key_value_head_count,
          s.head_size,
          s.query_stride,
          s.key_value_stride,
          s.output_stride,
          s.query_sample_stride,
          s.key_value_sample_stride,
          s.output_sample_stride,
          is_backward ? gradients.query_stride : 0,
          is_backward ? gradients.key_value_stride : 0,
          is_backward ? gradients.query_sample_stride : 0,
          is_backward ? gradients.key_value_sample_stride : 0};
}

std::string BuildGraph(const GraphSetting& setting, cudnnHandle_t handle, CudnnGraph& result) {
  using Numbers = std::vector<int64_t>;
  const auto graph = std::make_shared<fe::graph::Graph>();
  graph->set_io_data_type(fe::DataType_t::BFLOAT16)
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  graph->set_sm_version(setting.compute_capability);

  const AttentionShape& s = setting.shape;
  const CudnnMask mask = MaskOf(s);
  const int64_t size = s.head_size;
  const Numbers query_dim = {s.sample_count, s.head_count, s.query_count, size};
  const Numbers key_dim = {s.sample_count, s.key_value_head_count, s.key_count, size};
  const Numbers stats_dim = {s.sample_count, s.head_count, s.query_count, 1};
  const Numbers stats_stride = {s.head_count * s.query_count, s.query_count, 1, 1};
  const auto queries = [size](const AttentionShape& rows) {
    return Numbers{rows.query_sample_stride, size, rows.query_stride, 1};
  };
  const auto keys = [size](const AttentionShape& rows) {
    return Numbers{rows.key_value_sample_stride, size, rows.key_value_stride, 1};
  };
  const Numbers output_stride = {s.output_sample_stride, size, s.output_stride, 1};
  const auto input = [&](const char* name, CudnnArray array, const Numbers& dim,
                         const Numbers& stride) {
    return graph->tensor(
        fe::graph::Tensor_attributes().set_name(name).set_uid(array).set_dim(dim).set_stride(
            stride));
  };
  const auto set_mask = [&](auto& attributes) {
    attributes.set_attn_scale(
        static_cast<float>(1.0 / std::sqrt(static_cast<double>(s.head_size))));
    if (mask == CudnnMask::kNone) return;
    attributes
        .set_diagonal_alignment(mask == CudnnMask::kTopLeft ? fe::DiagonalAlignment_t::TOP_LEFT
                                                            : fe::DiagonalAlignment_t::BOTTOM_RIGHT)
        .set_diagonal_band_right_bound(0);
  };
  const auto q = input("q", kQ, query_dim, queries(s));
  const auto k = input("k", kK, key_dim, keys(s));
  const auto v = input("v", kV, key_dim, keys(s));
  if (setting.is_backward) {
    const auto o = input("o", kO, query_dim, output_stride);
    const auto output_gradient = input("do", kDo, query_dim, output_stride);
    const auto stats = input("stats", kStats, stats_dim, stats_stride);
    stats->set_data_type(fe::DataType_t::FLOAT);
    auto attributes = fe::graph::SDPA_backward_attributes().set_name("attention_backward");
    set_mask(attributes);
    attributes.set_deterministic_algorithm(setting.is_deterministic);
    const auto [dq, dk, dv] = graph->sdpa_backward(q, k, v, o, output_gradient, stats, attributes);
    dq->set_output(true).set_uid(kDq).set_dim(query_dim).set_stride(queries(setting.gradients));
    dk->set_output(true).set_uid(kDk).set_dim(key_dim).set_stride(keys(setting.gradients));
    dv->set_output(true).set_uid(kDv).set_dim(key_dim).set_stride(keys(setting.gradients));
  } else {
    auto attributes = fe::graph::SDPA_attributes().set_name("attention").set_generate_stats(true);
    set_mask(attributes);
    const auto [o, stats] = graph->sdpa(q, k, v, attributes);
    if (o == nullptr || stats == nullptr) return "no statistics";
    o->set_output(true).set_uid(kO).set_dim(query_dim).set_stride(output_stride);
    stats->set_output(true)
        .set_uid(kStats)
        .set_data_type(fe::DataType_t::FLOAT)
        .set_dim(stats_dim)
        .set_stride(stats_stride);
  }

  const auto check = [](const char* step, const fe::error_t& error) {
    return error.is_good() ? std::string() : absl::StrCat(step, ": ", ShortMessage(error.err_msg));
  };
  std::string reason = check("validate", graph->validate());
  if (reason.empty()) reason = check("graph", graph->build_operation_graph(handle));
  if (reason.empty()) {
    reason = check("plans",
                   graph->create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK}));
  }
  if (reason.empty()) reason = check("support", graph->check_support());
  if (reason.empty()) reason = check("build", graph->build_plans());
  int64_t workspace_bytes = 0;
  if (reason.empty()) reason = check("workspace", graph->get_workspace_size(workspace_bytes));
  if (reason.empty() && workspace_bytes > kMaxWorkspaceBytes) {
    reason = absl::StrCat("a workspace of ", workspace_bytes, " bytes");
  }
  if (!reason.empty()) return reason;
  result = {.graph = graph, .workspace_bytes = workspace_bytes};
  return reason;
}

}  // namespace parplan::cuda
