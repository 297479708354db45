// Ranks of a job as threads of the test, each with a fabric of its own.

#ifndef PARPLAN_TESTS_EXECUTOR_DEVICE_COMM_RANK_THREADS_H_
#define PARPLAN_TESTS_EXECUTOR_DEVICE_COMM_RANK_THREADS_H_

#include <functional>

#include "executor/device/comm/job_fabric.h"

namespace parplan {

// Runs `work` on every rank of a job of `world_size`, and returns when all have ended.
// Each joins with `options`, but for rank, size, token and rendezvous, which are set here.
void RunRanks(int world_size, JobFabricOptions options,
              const std::function<void(JobFabric&)>& work);

}  // namespace parplan

#endif  // PARPLAN_TESTS_EXECUTOR_DEVICE_COMM_RANK_THREADS_H_
