#include "planner/planners/ilp/device_mesh.h"

#include "absl/strings/str_cat.h"

namespace parplan {

std::string DeviceMesh::ToString() const {
  return axes[0].size == 1 ? absl::StrCat(axes[1].size)
                           : absl::StrCat(axes[0].size, "x", axes[1].size);
}

std::vector<DeviceMesh> MeshesOf(int device_count) {
  std::vector<DeviceMesh> meshes;
  for (int outer = 1; outer < device_count || outer == 1; ++outer) {
    if (device_count % outer != 0) continue;
    const int inner = device_count / outer;
    meshes.push_back({{MeshAxis{outer, inner}, MeshAxis{inner, 1}}});
  }
  return meshes;
}

bool Layout::IsSliceOf(const Layout& other) const {
  for (int axis = 0; axis < kMeshAxisCount; ++axis) {
    if (other.axes[axis] != AxisLayout::kReplicated && other.axes[axis] != axes[axis]) return false;
  }
  return true;
}

std::string Layout::ToString() const {
  std::string text;
  for (const AxisLayout axis : axes) {
    text += axis == AxisLayout::kReplicated ? 'R' : axis == AxisLayout::kRows ? '0' : '1';
  }
  return text;
}

int Layout::Shards(const DeviceMesh& mesh, AxisLayout kind) const {
  int shards = 1;
  for (int axis = 0; axis < kMeshAxisCount; ++axis) {
    if (axes[axis] == kind) shards *= mesh.axes[axis].size;
  }
  return shards;
}

Layout LayoutOf(int index) {
  return {{static_cast<AxisLayout>(index / kAxisLayoutCount),
           static_cast<AxisLayout>(index % kAxisLayoutCount)}};
}

}  // namespace parplan
