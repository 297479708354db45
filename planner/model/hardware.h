// The data sheets of a device and of the links between devices, from which the cost model estimates
// what was not measured. proto/wire/hardware_library.h has them by name; `PlanningProblem` holds
// those of its groups.

#ifndef PARPLAN_PLANNER_MODEL_HARDWARE_H_
#define PARPLAN_PLANNER_MODEL_HARDWARE_H_

#include <string>

#include "absl/status/statusor.h"
#include "base/check.h"
#include "base/units.h"
#include "planner/model/precision.h"

namespace parplan {

// One kind of accelerator. Rates are the vendor's peaks without sparsity; `Coefficients` has the
// shares that programs reach.
struct DeviceDescription {
  // Identifier in the library of devices, for example `a100-sxm-80gb`.
  std::string device_id;
  // Devices whose kernels reach similar shares of their peaks: `volta`, `turing`, `ampere`, `ada`,
  // `hopper`, `blackwell`, `blackwell-rtx`, `cdna2`, `cdna3`, `cdna4`. Calibrations are fitted by
  // family.
  std::string device_family;
  // Floating-point operations per second of the matrix units, by the format of their operands.
  double matrix_flops_16_bit = 0.0;
  double matrix_flops_fp32 = 0.0;   // of TF32 if the device has it
  double matrix_flops_8_bit = 0.0;  // 0 if they do not multiply such operands
  double matrix_flops_4_bit = 0.0;  // the same
  // Floating-point operations per second of the vector units.
  double vector_flops_fp32 = 0.0;
  // The device memory that programs may allocate.
  Bytes memory;
  // Peak rate of reading and writing `memory`.
  double memory_bytes_per_second = 0.0;
  Bytes last_level_cache;
  // Number of streaming multiprocessors, each of which works on one tile of a matrix at a time.
  int multiprocessor_count = 0;
  // The most that the device draws for longer than moments, in watts; 0 if unknown.
  double power_limit_watts = 0.0;

  // Returns `raw`, or INVALID_ARGUMENT (SPEC_INVALID) for the first number that is not finite and
  // above 0, or name that is empty; the rates of 8 and 4 bits and the power limit may be 0. Whether
  // the family is one of the above is not checked. The error names the member below `field` as
  // library files name it, for example `FIELD.memory_bytes`.
  static absl::StatusOr<DeviceDescription> Create(DeviceDescription raw, const std::string& field);

  // Returns the rate of the matrix units for operands in `format`. Narrow operands that they do not
  // multiply are widened to the next format that they do.
  double MatrixFlops(ComputeFormat format) const {
    switch (format) {
      case ComputeFormat::kFp32:
        return matrix_flops_fp32;
      case ComputeFormat::k4Bit:
        if (matrix_flops_4_bit > 0.0) return matrix_flops_4_bit;
        [[fallthrough]];
      case ComputeFormat::k8Bit:
        if (matrix_flops_8_bit > 0.0) return matrix_flops_8_bit;
        [[fallthrough]];
      case ComputeFormat::k16Bit:
        return matrix_flops_16_bit;
    }
    PARPLAN_CHECK(false);
  }
  // Returns whether the matrix units multiply operands in `format`.
  bool Multiplies(ComputeFormat format) const {
    switch (format) {
      case ComputeFormat::kFp32:
      case ComputeFormat::k16Bit:
        return true;
      case ComputeFormat::k8Bit:
        return matrix_flops_8_bit > 0.0;
      case ComputeFormat::k4Bit:
        return matrix_flops_4_bit > 0.0;
    }
    PARPLAN_CHECK(false);
  }
  friend bool operator==(const DeviceDescription&, const DeviceDescription&) = default;
};

// Links of one level: inside a node, or between nodes. Rates are one way.
struct LinkDescription {
  // For example `nvlink-3`, `pcie-4-x16`, `infiniband-hdr`.
  std::string link_id;
  // The most that one device can send.
  double bytes_per_second_per_device = 0.0;
  // The most that all devices of a node can send together: the rate of its adapters for a link
  // between nodes, of the shared bus for one inside. 0 if the devices do not share.
  double bytes_per_second_per_node = 0.0;
  // Time to the first byte, one way, software included.
  Seconds latency;

  // Returns `raw`, or the errors of `DeviceDescription::Create`, also for a latency that is not
  // above 0 (`FIELD.latency_duration`); `bytes_per_second_per_node` may be 0.
  static absl::StatusOr<LinkDescription> Create(LinkDescription raw, const std::string& field);
  friend bool operator==(const LinkDescription&, const LinkDescription&) = default;
};

// The two levels every cluster has.
struct FabricDescription {
  // Identifier in the library of fabrics, for example `nvlink-3+hdr-8x200`.
  std::string fabric_id;
  LinkDescription intra_node;
  LinkDescription inter_node;

  // Returns `raw`, or the errors of `LinkDescription::Create` for either level, or for an empty
  // `fabric_id`.
  static absl::StatusOr<FabricDescription> Create(FabricDescription raw, const std::string& field);
  friend bool operator==(const FabricDescription&, const FabricDescription&) = default;
};

// The devices and links of one job.
struct Hardware {
  DeviceDescription device;
  FabricDescription fabric;
  friend bool operator==(const Hardware&, const Hardware&) = default;
};

}  // namespace parplan

#endif  // PARPLAN_PLANNER_MODEL_HARDWARE_H_
