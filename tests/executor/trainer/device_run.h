// Trains plans on ranks with devices of any kind.

#ifndef PARPLAN_TESTS_EXECUTOR_TRAINER_DEVICE_RUN_H_
#define PARPLAN_TESTS_EXECUTOR_TRAINER_DEVICE_RUN_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "executor/device/comm/job_fabric.h"
#include "executor/device/kernels/array_pool.h"
#include "executor/device/kernels/layer_kernels.h"
#include "executor/trainer/rank_trainer.h"
#include "planner/model/model_spec.h"
#include "planner/model/plan.h"

namespace parplan {

// The device of a rank. Must be used from one thread and must outlive what it makes.
class RankDevice {
 public:
  virtual ~RankDevice() = default;
  virtual LayerKernels& kernels() = 0;
  virtual DeviceMemory& memory() = 0;
  virtual absl::StatusOr<std::unique_ptr<Communicator>> MakeGroup(
      JobFabric& fabric, const std::string& name, const std::vector<int>& ranks) = 0;
  // Whether the trainer communicates ahead, and rehearses (TrainerSetting).
  virtual bool communicates_ahead() const { return false; }
};

struct DeviceRun {
  // One entry for each step.
  std::vector<double> losses;
  // [layer][name] whole tensors, row by row.
  std::map<std::pair<int, std::string>, std::vector<double>> parameters;
};

// Steps of `plan`. `make` is called on the thread of each rank.
DeviceRun RunOnDevices(const Plan& plan, const ModelSpec& model, const OptimizerSettings& optimizer,
                       const std::function<std::unique_ptr<RankDevice>(int rank)>& make,
                       int step_count = 3);

// Kernels of the processor and its memory.
std::unique_ptr<RankDevice> MakeNearDevice(ElementType type);
// The same where the host sees nothing of the memory: groups go by copies. Ends the process
// where kernels are given memory of the host or the other way round.
std::unique_ptr<RankDevice> MakeFarDevice(ElementType type);

}  // namespace parplan

#endif  // PARPLAN_TESTS_EXECUTOR_TRAINER_DEVICE_RUN_H_
