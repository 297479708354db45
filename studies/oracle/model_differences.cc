#include "studies/oracle/model_differences.h"

#include <algorithm>
#include <string>

namespace parplan::oracle {
namespace {

// Seconds of one stage by kind, forward and backward together, and what comes once.
struct StageCosts {
  double compute = 0.0;
  double inner = 0.0;
  double gather = 0.0;
  double layout = 0.0;
  // Sends that count as work of the stage.
  double send_work = 0.0;
  // Sends that do not, one way.
  double send = 0.0;
  double sync = 0.0;
  double optimizer = 0.0;
  double forward_share = 1.0 / 3.0;

  StageTimes Times() const {
    const double work = compute + inner + gather + layout + send_work;
    StageTimes times;
    times.forward = Seconds::Of(work * forward_share);
    times.backward = Seconds::Of(work * (1.0 - forward_share));
    times.send = Seconds::Of(send);
    times.gradient_sync = Seconds::Of(sync + optimizer);
    return times;
  }
};

StageCosts OurCosts(const StagePrediction& stage) {
  const auto of = [&stage](TimeItemKind kind) { return stage.time[kind].value(); };
  StageCosts costs;
  costs.compute = of(TimeItemKind::kForwardCompute) + of(TimeItemKind::kBackwardCompute) +
                  of(TimeItemKind::kRecompute) + of(TimeItemKind::kLaunch) +
                  of(TimeItemKind::kExpertParallel);
  costs.inner = of(TimeItemKind::kTensorParallel) + of(TimeItemKind::kContextParallel);
  costs.gather = of(TimeItemKind::kShardedDataParallel);
  costs.layout = of(TimeItemKind::kResharding);
  costs.send = stage.send.value();
  costs.sync = stage.gradient_sync.value();
  costs.optimizer = stage.optimizer_step.value();
  const double work = (stage.forward + stage.backward).value();
  if (work > 0.0) costs.forward_share = stage.forward.value() / work;
  return costs;
}

double Simulate(const Plan& plan, const std::vector<StageCosts>& stages) {
  std::vector<StageTimes> times;
  for (const StageCosts& stage : stages) times.push_back(stage.Times());
  return StepTime(plan.schedule, times, plan.micro_batch_count).value();
}

}  // namespace

std::vector<Difference> ModelDifferences(const EngineModel& model, const EnginePlan& plan,
                                         Seconds said, const Plan& ours,
                                         const Prediction& prediction) {
  std::vector<StageCosts> stages;
  for (const EngineStage& stage : EngineStages(model, plan)) {
    StageCosts& costs = stages.emplace_back();
    costs.compute = stage.layers.compute + stage.ends.compute;
    costs.inner = stage.layers.inner + stage.ends.inner;
    costs.gather = stage.layers.gather + stage.ends.gather;
    costs.send_work = stage.layers.send + stage.ends.send;
    costs.sync = std::max(0.0, stage.layers.with_sync() - stage.without_sync());
  }
  std::vector<StageCosts> wanted;
  for (const StagePrediction& stage : prediction.stages) wanted.push_back(OurCosts(stage));

  std::vector<Difference> differences;
  double last = said.value();
  const auto note = [&](const char* what, double now) {
    differences.push_back({what, Seconds::Of(now - last)});
    last = now;
  };
  note("pipeline: passes simulated, not the formula of the first and the last stage",
       Simulate(ours, stages));
  const auto replace = [&](const char* what, const auto& field) {
    for (size_t i = 0; i < stages.size(); ++i) field(stages[i], wanted[i]);
    note(what, Simulate(ours, stages));
  };
  replace("computation: measured points, imperfect splitting, ends by themselves; no fitted lines",
          [](StageCosts& a, const StageCosts& b) { a.compute = b.compute; });
  replace("tensor parallelism and Ulysses: by message size, hidden where the runtime does",
          [](StageCosts& a, const StageCosts& b) { a.inner = b.inner; });
  replace("sharded parameters: gathered forward and backward, behind computation as it lasts",
          [](StageCosts& a, const StageCosts& b) { a.gather = b.gather; });
  replace("layout changes between layers: a share of the step, not only of the search",
          [](StageCosts& a, const StageCosts& b) { a.layout = b.layout; });
  replace("messages between stages: on their way beside the work, not work",
          [](StageCosts& a, const StageCosts& b) {
            a.send_work = 0.0;
            a.send = b.send;
          });
  replace("gradient synchronisation: of embedding, head and Ulysses ranks too",
          [](StageCosts& a, const StageCosts& b) { a.sync = b.sync; });
  replace("the optimizer's step: the engine has none",
          [](StageCosts& a, const StageCosts& b) { a.optimizer = b.optimizer; });
  replace("forward and backward: their own shares, not one to two",
          [](StageCosts& a, const StageCosts& b) { a.forward_share = b.forward_share; });
  note("host time of a step", prediction.step.value());
  return differences;
}

}  // namespace parplan::oracle
