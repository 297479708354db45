#include "planner/planners/ilp/operator_times.h"

#include <set>

#include "planner/cost/fabric_time.h"
#include "planner/model/calibration.h"
#include "planner/model/coefficients.h"

namespace parplan {
namespace {

// Speeds of the nominal device: only their ratio matters, and it is about that of accelerators.
constexpr double kNominalFlopsPerSecond = 1e14;
constexpr double kNominalBytesPerSecond = 1e12;

}  // namespace

OperatorTimes::OperatorTimes(const PlanningProblem& problem, const std::vector<DeviceMesh>& meshes)
    : attention_flops_per_second_(kNominalFlopsPerSecond),
      bytes_per_second_(kNominalBytesPerSecond) {
  const int devices_per_node = problem.node_group(kSearchedGroup).devices_per_node;
  std::optional<FabricTime> fabric;
  if (const Hardware* const hardware = problem.hardware(kSearchedGroup); hardware != nullptr) {
    const DeviceDescription& device = hardware->device;
    const Precision precision = problem.model().precision();
    const Coefficients coefficients =
        problem.calibration().Resolve(device.device_family, problem.topology().cluster());
    matrix_time_.emplace(device, coefficients, precision);
    attention_flops_per_second_ = device.MatrixFlops(TraitsOf(precision).compute) *
                                  coefficients[Coefficient::kAttentionEfficiency];
    bytes_per_second_ =
        device.memory_bytes_per_second * coefficients[Coefficient::kMemoryEfficiency];
    kernel_overhead_ = coefficients[Coefficient::kKernelOverhead];
    fabric.emplace(hardware->fabric, coefficients, devices_per_node);
  }
  collectives_ = CollectiveCosts(problem.profile(kSearchedGroup), devices_per_node, fabric,
                                 /*allow_estimates=*/true);
  std::set<GroupShape> shapes;
  for (const DeviceMesh& mesh : meshes) {
    for (const MeshAxis& axis : mesh.axes) {
      if (axis.size > 1) shapes.insert({axis.size, axis.rank_stride});
    }
  }
  // Missing measurements are resolved one by one, and the notes are dropped: these times promise
  // nothing, because plans are predicted by the cost model.
  ResolutionNotes notes;
  for (const Collective collective : {Collective::kAllReduce, Collective::kAllGather,
                                      Collective::kReduceScatter, Collective::kAllToAll}) {
    collectives_.Resolve(collective, shapes, notes);
  }
}

double OperatorTimes::DeviceSeconds(const Operator& shape) const {
  switch (shape.kind) {
    case OperatorKind::kMatrix: {
      if (shape.flops == 0.0) return 2.0 * (shape.moved_bytes / bytes_per_second_);
      if (!matrix_time_) return 3.0 * shape.flops / kNominalFlopsPerSecond;
      const Seconds forward = matrix_time_->Time({shape.rows, shape.columns, shape.inner});
      const Seconds weights = matrix_time_->Time({shape.inner, shape.columns, shape.rows});
      const Seconds input = matrix_time_->Time({shape.rows, shape.inner, shape.columns});
      return (forward + weights + (shape.has_input_gradient ? input : Seconds())).value();
    }
    case OperatorKind::kAttention:
      return 3.5 * shape.flops / attention_flops_per_second_ +
             2.0 * shape.moved_bytes / bytes_per_second_ + 4.0 * kernel_overhead_;
    case OperatorKind::kNorm:
    case OperatorKind::kElementwise:
      return 3.0 * shape.moved_bytes / bytes_per_second_ + 2.0 * kernel_overhead_;
  }
  return 0.0;
}

double OperatorTimes::CollectiveSeconds(Collective collective, const MeshAxis& axis,
                                        double bytes) const {
  if (axis.size == 1 || bytes <= 0.0) return 0.0;
  const GroupShape shape{axis.size, axis.rank_stride};
  if (collectives_.Knows(collective, shape)) {
    return collectives_.Time(collective, shape, bytes).value();
  }
  switch (collective) {
    case Collective::kAllToAll:
      return CollectiveSeconds(Collective::kAllGather, axis, bytes);
    case Collective::kAllGather:
    case Collective::kReduceScatter:
      return 0.5 * CollectiveSeconds(Collective::kAllReduce, axis, bytes);
    default:
      return 0.0;
  }
}

}  // namespace parplan
