// The files that parplan-exec needs to run on this machine, and the program as a process.

#ifndef PARPLAN_TESTS_EXECUTOR_EXEC_EXEC_WORLD_H_
#define PARPLAN_TESTS_EXECUTOR_EXEC_EXEC_WORLD_H_

#include <sys/types.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "executor/device/ranks/child_process.h"
#include "parplan/v1/plan.pb.h"
#include "planner/model/model_spec.h"
#include "planner/model/plan.h"
#include "planner/model/topology.h"
#include "tests/support/test_folder.h"

namespace parplan {

// Files of one model, on so many cores of this machine, and plans signed by one key.
class ExecWorld {
 public:
  explicit ExecWorld(int rank_count);

  // Signs `plan`, valid from now for a day unless `change` says otherwise, and gives the file.
  std::string WritePlan(const std::string& name, const Plan& plan,
                        const std::function<void(v1::PlanPayload&)>& change = nullptr);
  std::string Write(const std::string& name, const std::string& text);
  std::string PathOf(const std::string& name) const;

  // Flags for a plan; a test may add others.
  std::vector<std::string> Arguments(const std::string& plan_file) const;
  // Those for ranks of ours.
  std::vector<std::string> LaunchArguments(const std::string& plan_file) const;

  const ModelSpec& model() const { return model_; }
  // Two ways to run the model on two ranks.
  Plan DataParallel() const;
  Plan Pipeline() const;

 private:
  const int rank_count_;
  const std::string folder_;
  const ModelSpec model_;
  const Topology topology_;
};

// parplan-exec, which is killed where the test's thread ends.
class ExecProcess {
 public:
  explicit ExecProcess(const std::vector<std::string>& arguments,
                       const std::map<std::string, std::string>& environment = {});
  ~ExecProcess();

  pid_t pid() const { return child_.pid; }
  // Until a line with `text` has come, or the output has ended: then false.
  bool AwaitLine(const std::string& text);
  // Until it has ended; gives its exit status, or minus the signal that killed it.
  int Wait();
  // All it wrote so far, to either output.
  const std::string& output() const { return output_; }
  // Processes it has started and that still run, by PARPLAN_RANK.
  std::map<int, pid_t> Ranks() const;

 private:
  bool Read();

  ChildProcess child_;
  std::string output_;
  size_t looked_at_ = 0;
  bool has_ended_ = false;
};

// The bytes of a file; none where it cannot be read.
std::string ReadText(const std::string& path);

// Whether it runs or waits, and is not only remembered by its parent.
bool IsRunning(pid_t pid);

}  // namespace parplan

#endif  // PARPLAN_TESTS_EXECUTOR_EXEC_EXEC_WORLD_H_
