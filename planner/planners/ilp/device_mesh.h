// Devices as a grid of one or two axes, and the placement of a matrix on it. Used by the files of
// this folder that build the graph of a model.

#ifndef PARPLAN_PLANNER_PLANNERS_ILP_DEVICE_MESH_H_
#define PARPLAN_PLANNER_PLANNERS_ILP_DEVICE_MESH_H_

#include <array>
#include <string>
#include <vector>

namespace parplan {

// Axes of a mesh; a mesh with one axis has a first axis of size 1.
inline constexpr int kMeshAxisCount = 2;

// An axis of `size` devices; consecutive ones are `rank_stride` ranks apart.
struct MeshAxis {
  int size = 1;
  int rank_stride = 1;
  friend bool operator==(const MeshAxis&, const MeshAxis&) = default;
};

// A grid of devices. The device at (i0, i1) has rank i0 * axes[0].rank_stride + i1; consecutive
// devices of axis 1 have consecutive ranks. With one axis, axis 0 has size 1.
struct DeviceMesh {
  std::array<MeshAxis, kMeshAxisCount> axes;

  // Returns the number of devices of the grid.
  int device_count() const { return axes[0].size * axes[1].size; }
  // Returns `8` or `2x4`.
  std::string ToString() const;
  friend bool operator==(const DeviceMesh&, const DeviceMesh&) = default;
};

// Returns all meshes of so many devices: the one with one axis, then those with two by ascending
// size of the outer axis. REQUIRES, unchecked: device_count >= 1.
std::vector<DeviceMesh> MeshesOf(int device_count);

// How an axis splits a matrix.
enum class AxisLayout { kReplicated = 0, kRows = 1, kColumns = 2 };
inline constexpr int kAxisLayoutCount = 3;

// How a mesh splits a matrix: one entry per axis; `kReplicated` on an axis of size 1.
struct Layout {
  std::array<AxisLayout, kMeshAxisCount> axes = {AxisLayout::kReplicated, AxisLayout::kReplicated};

  // Return the number of parts of the matrix along rows, along columns, and altogether.
  int RowShards(const DeviceMesh& mesh) const { return Shards(mesh, AxisLayout::kRows); }
  int ColumnShards(const DeviceMesh& mesh) const { return Shards(mesh, AxisLayout::kColumns); }
  int Shards(const DeviceMesh& mesh) const { return RowShards(mesh) * ColumnShards(mesh); }
  // Returns the index in [0, kLayoutCount).
  int index() const {
    return static_cast<int>(axes[0]) * kAxisLayoutCount + static_cast<int>(axes[1]);
  }
  // Returns whether each device's part under this layout is a part of what it has under `other`.
  bool IsSliceOf(const Layout& other) const;
  // Returns a text such as `0R`, one character per axis: `R`, `0` (rows) or `1` (columns).
  std::string ToString() const;
  friend bool operator==(const Layout&, const Layout&) = default;

 private:
  int Shards(const DeviceMesh& mesh, AxisLayout kind) const;
};
inline constexpr int kLayoutCount = kAxisLayoutCount * kAxisLayoutCount;

// Returns the layout with an index. REQUIRES: 0 <= index < kLayoutCount, which is not checked.
Layout LayoutOf(int index);

}  // namespace parplan

#endif  // PARPLAN_PLANNER_PLANNERS_ILP_DEVICE_MESH_H_
