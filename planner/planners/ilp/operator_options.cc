#include "planner/planners/ilp/operator_options.h"

#include <array>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"

namespace parplan {
namespace {

// The choice of each axis for an operator, one letter per axis.
struct AxisChoices {
  std::array<char, kMeshAxisCount> letters;

  int SplitCount(const DeviceMesh& mesh, absl::string_view of) const {
    int split_count = 1;
    for (int axis = 0; axis < kMeshAxisCount; ++axis) {
      if (of.find(letters[axis]) != absl::string_view::npos) split_count *= mesh.axes[axis].size;
    }
    return split_count;
  }

  Layout With(char rows, char columns) const {
    Layout layout;
    for (int axis = 0; axis < kMeshAxisCount; ++axis) {
      if (letters[axis] == rows) layout.axes[axis] = AxisLayout::kRows;
      if (letters[axis] == columns) layout.axes[axis] = AxisLayout::kColumns;
    }
    return layout;
  }
};

absl::string_view LettersOf(OperatorKind kind) {
  switch (kind) {
    case OperatorKind::kMatrix:
      return "mnkr";
    case OperatorKind::kNorm:
      return "mr";
    case OperatorKind::kAttention:
    case OperatorKind::kElementwise:
      return "mnr";
  }
  return "r";
}

bool Divides(int shards, int64_t units) { return units == 0 || units % shards == 0; }

class OptionMaker {
 public:
  OptionMaker(const Operator& op, const DeviceMesh& mesh, const OperatorTimes& times,
              const OperatorScales& scales)
      : op_(op), mesh_(mesh), times_(times), scales_(scales) {}

  // Returns whether the sizes allow these choices.
  bool Allows(const AxisChoices& choices) const {
    const int columns = choices.SplitCount(mesh_, "n");
    if (!Divides(choices.SplitCount(mesh_, "m"), op_.row_units)) return false;
    if (!Divides(columns, op_.column_units)) return false;
    // Inputs of products are split along the inner dimension by `k`, other inputs as the output is.
    const int inner = op_.kind == OperatorKind::kMatrix ? choices.SplitCount(mesh_, "k") : columns;
    return Divides(inner, op_.inner_units);
  }

  OperatorOption Make(const AxisChoices& choices) const {
    OperatorOption option;
    for (int axis = 0; axis < kMeshAxisCount; ++axis) {
      if (mesh_.axes[axis].size > 1 || axis == kMeshAxisCount - 1) {
        option.cost.tag += choices.letters[axis];
      }
    }
    const bool is_matrix = op_.kind == OperatorKind::kMatrix;
    option.output = choices.With('m', 'n');
    option.input = is_matrix ? choices.With('m', 'k') : option.output;
    option.weight = is_matrix ? choices.With('k', 'n') : Layout();
    AddMemory(option);
    const Operator part = Part(choices);
    const double once = OncePerStep(choices, option);
    const double every = times_.DeviceSeconds(part) * scales_.time_factor + Sums(choices, option);
    option.cost.seconds = every * static_cast<double>(scales_.micro_batch_count) + once;
    return option;
  }

 private:
  double InputBytes() const { return op_.rows * op_.inner * scales_.element_bytes; }
  double OutputBytes() const { return op_.rows * op_.columns * scales_.element_bytes; }

  void AddMemory(OperatorOption& option) const {
    const double in = InputBytes() / option.input.Shards(mesh_);
    const double out = OutputBytes() / option.output.Shards(mesh_);
    const int shards = option.output.Shards(mesh_);
    option.cost.state_bytes =
        op_.parameter_count * scales_.state_bytes_per_parameter / option.weight.Shards(mesh_);
    option.cost.kept_bytes = scales_.activation_factor * op_.extra_kept_bytes / shards;
    // Gradients of output and input.
    option.cost.transient_bytes =
        out + (op_.has_input_gradient ? in : 0.0) + op_.extra_transient_bytes / shards;
  }

  // Returns the part of the operator on one device.
  Operator Part(const AxisChoices& choices) const {
    Operator part = op_;
    const int rows = choices.SplitCount(mesh_, "m");
    const int columns = choices.SplitCount(mesh_, "n");
    const int inner = op_.kind == OperatorKind::kMatrix ? choices.SplitCount(mesh_, "k") : columns;
    part.rows /= rows;
    part.columns /= columns;
    part.inner /= inner;
    const int split_count = choices.SplitCount(mesh_, "mnk");
    part.flops /= split_count;
    part.moved_bytes /= split_count;
    return part;
  }

  // Returns the seconds of the collectives of one micro-batch.
  double Sums(const AxisChoices& choices, const OperatorOption& option) const {
    double seconds = 0.0;
    for (int axis = 0; axis < kMeshAxisCount; ++axis) {
      const MeshAxis& shape = mesh_.axes[axis];
      if (op_.kind == OperatorKind::kMatrix && choices.letters[axis] == 'k') {
        seconds += AllReduce(shape, OutputBytes() / option.output.Shards(mesh_));
      }
      if (op_.kind == OperatorKind::kMatrix && choices.letters[axis] == 'n' &&
          op_.has_input_gradient) {
        seconds += AllReduce(shape, InputBytes() / option.input.Shards(mesh_));
      }
      if (op_.row_sum_count > 0 && choices.letters[axis] == 'n') {
        seconds +=
            op_.row_sum_count * AllReduce(shape, 4.0 * op_.rows / option.output.RowShards(mesh_));
      }
    }
    return seconds;
  }

  // Returns the seconds of reducing gradients of weights that several devices have for different
  // rows.
  double OncePerStep(const AxisChoices& choices, const OperatorOption& option) const {
    double seconds = 0.0;
    const double bytes = op_.parameter_count * scales_.gradient_message_bytes_per_parameter /
                         option.weight.Shards(mesh_);
    for (int axis = 0; axis < kMeshAxisCount; ++axis) {
      if (choices.letters[axis] == 'm') seconds += AllReduce(mesh_.axes[axis], bytes);
    }
    return seconds;
  }

  double AllReduce(const MeshAxis& axis, double bytes) const {
    return times_.CollectiveSeconds(Collective::kAllReduce, axis, bytes);
  }

  const Operator& op_;
  const DeviceMesh& mesh_;
  const OperatorTimes& times_;
  const OperatorScales& scales_;
};

}  // namespace

std::vector<OperatorOption> OptionsOf(const Operator& op, const DeviceMesh& mesh,
                                      const OperatorTimes& times, const OperatorScales& scales) {
  const OptionMaker maker(op, mesh, times, scales);
  const absl::string_view letters = LettersOf(op.kind);
  const auto letters_of = [&](int axis) {
    return mesh.axes[axis].size > 1 ? letters : absl::string_view("r");
  };
  std::vector<OperatorOption> options;
  for (const char outer : letters_of(0)) {
    for (const char inner : letters_of(1)) {
      const AxisChoices choices = {{outer, inner}};
      if (maker.Allows(choices)) options.push_back(maker.Make(choices));
    }
  }
  return options;
}

namespace {

// Returns the seconds of one direction.
double MoveSeconds(double bytes, const Layout& from, const Layout& to, const DeviceMesh& mesh,
                   const OperatorTimes& times) {
  // Bytes on one device.
  double held = bytes / from.Shards(mesh);
  double seconds = 0.0;
  const auto each_axis = [&](const auto& visit) {
    for (int axis = 0; axis < kMeshAxisCount; ++axis) {
      if (from.axes[axis] != to.axes[axis]) {
        visit(mesh.axes[axis], from.axes[axis], to.axes[axis]);
      }
    }
  };
  each_axis([&](const MeshAxis& axis, AxisLayout before, AxisLayout) {
    if (before == AxisLayout::kReplicated) held /= axis.size;
  });
  each_axis([&](const MeshAxis& axis, AxisLayout before, AxisLayout after) {
    if (before == AxisLayout::kReplicated || after == AxisLayout::kReplicated) return;
    seconds += times.CollectiveSeconds(Collective::kAllToAll, axis, held);
  });
  each_axis([&](const MeshAxis& axis, AxisLayout, AxisLayout after) {
    if (after != AxisLayout::kReplicated) return;
    held *= axis.size;
    seconds += times.CollectiveSeconds(Collective::kAllGather, axis, held);
  });
  return seconds;
}

}  // namespace

double ReshardSeconds(double bytes, const Layout& from, const Layout& to, const DeviceMesh& mesh,
                      const OperatorTimes& times) {
  return MoveSeconds(bytes, from, to, mesh, times) + MoveSeconds(bytes, to, from, mesh, times);
}

}  // namespace parplan
