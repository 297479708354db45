// The graphs by which cuDNN computes attention of one shape. `CudnnAttention` keeps and runs them.
// Included only by files that know cuDNN's headers.

#ifndef PARPLAN_EXECUTOR_DEVICE_CUDA_CUDNN_GRAPH_H_
#define PARPLAN_EXECUTOR_DEVICE_CUDA_CUDNN_GRAPH_H_

#include <cudnn_frontend.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "executor/device/kernels/layer_kernels.h"

namespace parplan::cuda {

// How a causal mask is given to cuDNN.
enum class CudnnMask { kNone, kTopLeft, kBottomRight, kUnknown };
// Returns how `shape` is masked; kUnknown where cuDNN has no such mask.
CudnnMask MaskOf(const AttentionShape& shape);

// Everything a graph depends on.
using GraphKey = std::array<int64_t, 21>;
GraphKey KeyOf(const AttentionShape& s, const AttentionShape& gradients, bool is_backward);

// Names of a graph's arrays.
enum CudnnArray : int64_t { kQ = 1, kK, kV, kO, kStats, kDo, kDq, kDk, kDv };

struct CudnnGraph {
  // Null if our own kernels serve this shape.
  std::shared_ptr<cudnn_frontend::graph::Graph> graph;
  int64_t workspace_bytes = 0;
};

// The attention that a graph computes.
struct GraphSetting {
  const AttentionShape& shape;
  // Rows of the gradients of queries, keys and values; read backward only.
  const AttentionShape& gradients;
  bool is_backward = false;
  // Whether gradients are summed in a fixed order; read backward only.
  bool is_deterministic = false;
  // 90 for 9.0.
  int compute_capability = 0;
};

// Makes a graph, which may take seconds. Returns why it cannot be used; empty if it can.
// REQUIRES, unchecked: the mask of the shape is known. Throws what cuDNN's frontend throws.
std::string BuildGraph(const GraphSetting& setting, cudnnHandle_t handle, CudnnGraph& result);

// Returns the start of a message of cuDNN, which has many lines for each of its engines;
// CUDNN_FRONTEND_LOG_INFO=1 with CUDNN_FRONTEND_LOG_FILE=stderr shows all of it.
std::string ShortMessage(const std::string& message);

}  // namespace parplan::cuda

#endif  // PARPLAN_EXECUTOR_DEVICE_CUDA_CUDNN_GRAPH_H_
