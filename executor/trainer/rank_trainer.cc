#include "executor/trainer/rank_trainer.h"

#include <utility>

#include "base/status_macros.h"
#include "executor/trainer/trainer_layer.h"

namespace parplan {

// A stage of the plan on this rank, with its layers and its messages to the stages beside it.
class RankTrainer::Stage {
 public:
  Stage(RankTrainer& trainer, const StageProgram& program) : trainer_(trainer), program_(program) {}

  // Makes the layers. `embedding`: the embedding if an earlier stage of this rank has it, else
  // null.
  absl::Status Prepare(TrainerLayer* embedding) {
    for (const LayerProgram& layer : program_.layers) {
      const LayerDefinition& definition =
          trainer_.model_.layer_definitions()[layer.definition_index];
      TrainerLayer::Setting setting{.tools = {.kernels = trainer_.setting_.kernels,
                                              .pool = trainer_.setting_.pool,
                                              .tensor = trainer_.Group(layer.tensor_group),
                                              .context = trainer_.Group(layer.context_group),
                                              .definition = &definition,
                                              .strategy = layer.strategy,
                                              .layout = layer.layout,
                                              .rank = trainer_.program_.rank,
                                              .gathers_ahead = trainer_.setting_.gathers_ahead},
                                    .program = layer,
                                    .gradient_group = trainer_.Group(layer.gradient_group),
                                    .tokens = trainer_.setting_.tokens,
                                    .optimizer = trainer_.setting_.optimizer,
                                    .seed = trainer_.setting_.seed,
                                    .micro_batch_size = trainer_.program_.micro_batch_size,
                                    .global_token_count = trainer_.program_.micro_batch_size *
                                                          trainer_.program_.micro_batch_count *
                                                          definition.sequence_length,
                                    .observer = trainer_.setting_.observer};
      if (definition.tied_embedding) {
        if (embedding == nullptr && !layers_.empty() && IsEmbedding(*layers_.front())) {
          embedding = layers_.front().get();
        }
        setting.tied = embedding;
        setting.copies_embedding = embedding == nullptr;
      }
      PARPLAN_ASSIGN_OR_RETURN(layers_.emplace_back(), TrainerLayer::Create(setting));
    }
    return absl::OkStatus();
  }

  absl::Status Forward(int64_t micro_batch) {
    Array x;
    trainer_.Enter(TrainerPhase::kForward, layers_.front()->program().layer_index);
    PARPLAN_RETURN_IF_ERROR(layers_.front()->StartGather(/*is_backward=*/false));
    if (program_.receive_forward_group >= 0) {
      trainer_.Enter(TrainerPhase::kReceive);
      PARPLAN_ASSIGN_OR_RETURN(x, TakeRows(layers_.front()->program().layout));
      PARPLAN_RETURN_IF_ERROR(
          trainer_.mover_.Receive(program_.receive_forward, layers_.front()->program().layout, x,
                                  *trainer_.Group(program_.receive_forward_group),
                                  trainer_.RanksOf(program_.receive_forward_group)));
    }
    for (size_t k = 0; k < layers_.size(); ++k) {
      const LayerProgram& layer = layers_[k]->program();
      if (!layer.enter.is_empty()) {
        trainer_.Enter(TrainerPhase::kReshard, layer.layer_index);
        PARPLAN_ASSIGN_OR_RETURN(
            x, trainer_.mover_.Reshard(layer.enter, layers_[k - 1]->program().layout, layer.layout,
                                       std::move(x), *trainer_.Group(program_.stage_group),
                                       trainer_.RanksOf(program_.stage_group)));
      }
      trainer_.Enter(TrainerPhase::kForward, layer.layer_index);
      // One layer ahead, while this one computes.
      if (k + 1 < layers_.size()) {
        PARPLAN_RETURN_IF_ERROR(layers_[k + 1]->StartGather(/*is_backward=*/false));
      }
      PARPLAN_ASSIGN_OR_RETURN(
          x, layers_[k]->Forward(trainer_.step_count_, micro_batch, std::move(x)));
    }
    if (program_.send_forward_group < 0) return absl::OkStatus();
    trainer_.Enter(TrainerPhase::kSend);
    return trainer_.mover_.Send(program_.send_forward, layers_.back()->program().layout,
                                std::move(x), *trainer_.Group(program_.send_forward_group),
                                trainer_.RanksOf(program_.send_forward_group), sent_forward_);
  }

  // Runs a backward pass. `is_last`: it is the stage's last of the step, after which this rank's
  // gradients are complete.
  absl::Status Backward(int64_t micro_batch, bool is_last) {
    Array dx;
    trainer_.Enter(TrainerPhase::kBackward, layers_.back()->program().layer_index);
    PARPLAN_RETURN_IF_ERROR(layers_.back()->StartGather(/*is_backward=*/true));
    if (program_.receive_backward_group >= 0) {
      trainer_.Enter(TrainerPhase::kReceive);
      PARPLAN_ASSIGN_OR_RETURN(dx, TakeRows(layers_.back()->program().layout));
      PARPLAN_RETURN_IF_ERROR(
          trainer_.mover_.Receive(program_.receive_backward, layers_.back()->program().layout, dx,
                                  *trainer_.Group(program_.receive_backward_group),
                                  trainer_.RanksOf(program_.receive_backward_group)));
    }
    for (size_t k = layers_.size(); k-- > 0;) {
      const LayerProgram& layer = layers_[k]->program();
      trainer_.Enter(TrainerPhase::kBackward, layer.layer_index);
      if (k > 0) PARPLAN_RETURN_IF_ERROR(layers_[k - 1]->StartGather(/*is_backward=*/true));
      PARPLAN_ASSIGN_OR_RETURN(dx, layers_[k]->Backward(trainer_.step_count_, micro_batch,
                                                        std::move(dx), trainer_.loss()));
      if (is_last) {
        trainer_.Enter(TrainerPhase::kGradientSync, layer.layer_index);
        PARPLAN_RETURN_IF_ERROR(layers_[k]->state().StartSynchronize());
      }
      if (!layer.leave_backward.is_empty()) {
        trainer_.Enter(TrainerPhase::kReshard, layer.layer_index);
        PARPLAN_ASSIGN_OR_RETURN(
            dx, trainer_.mover_.Reshard(layer.leave_backward, layer.layout,
                                        layers_[k - 1]->program().layout, std::move(dx),
                                        *trainer_.Group(program_.stage_group),
                                        trainer_.RanksOf(program_.stage_group)));
      }
    }
    if (program_.send_backward_group < 0) return absl::OkStatus();
    trainer_.Enter(TrainerPhase::kSend);
    return trainer_.mover_.Send(program_.send_backward, layers_.front()->program().layout,
                                std::move(dx), *trainer_.Group(program_.send_backward_group),
                                trainer_.RanksOf(program_.send_backward_group), sent_backward_);
  }

  // Waits for all messages that were sent.
  absl::Status Finish() {
    PARPLAN_RETURN_IF_ERROR(trainer_.mover_.Finish(sent_forward_));
    return trainer_.mover_.Finish(sent_backward_);
  }

  int index() const { return program_.stage_index; }
  std::vector<std::unique_ptr<TrainerLayer>>& layers() { return layers_; }

 private:
  bool IsEmbedding(const TrainerLayer& layer) const { return layer.program().layer_index == 0; }
  absl::StatusOr<Array> TakeRows(const ActivationLayout& layout) const {
    const int64_t elements = layout.RowCount() * trainer_.model_.layer(0).hidden_size;
    return trainer_.setting_.pool->Take(
        ArrayUse::kTransient, Bytes::Of(elements * ElementSize(trainer_.setting_.kernels->type())),
        Lifetime::kLasting);
  }

  RankTrainer& trainer_;
  const StageProgram& program_;
  std::vector<std::unique_ptr<TrainerLayer>> layers_;
  BlockMover::Outbox sent_forward_;
  BlockMover::Outbox sent_backward_;
};

RankTrainer::RankTrainer(const RankProgram& program, const ModelSpec& model,
                         const TrainerSetting& setting)
    : program_(program),
      model_(model),
      setting_(setting),
      mover_(*setting.kernels, *setting.pool, program.rank, model.layer(0).hidden_size) {}

RankTrainer::~RankTrainer() = default;

absl::StatusOr<std::unique_ptr<RankTrainer>> RankTrainer::Create(const RankProgram& program,
                                                                 const ModelSpec& model,
                                                                 const TrainerSetting& setting) {
  std::unique_ptr<RankTrainer> trainer(new RankTrainer(program, model, setting));
  PARPLAN_RETURN_IF_ERROR(trainer->Prepare());
  return trainer;
}

absl::Status RankTrainer::Prepare() {
  for (const GroupSpec& group : program_.groups) {
    PARPLAN_ASSIGN_OR_RETURN(groups_.emplace_back(), setting_.make_group(group));
    if (group.purpose == group_purpose::kLoss) loss_group_ = groups_.back().get();
  }
  // All ranks of a group use it or none does, and all go through their groups in the same order.
  for (const int group : UsedGroups()) PARPLAN_RETURN_IF_ERROR(groups_[group]->Warm());
  TrainerLayer* embedding = nullptr;
  for (const StageProgram& stage : program_.stages) {
    stages_.push_back(std::make_unique<Stage>(*this, stage));
    PARPLAN_RETURN_IF_ERROR(stages_.back()->Prepare(embedding));
    TrainerLayer* const first = stages_.back()->layers().front().get();
    if (first->program().layer_index == 0) embedding = first;
  }
  return absl::OkStatus();
}

std::set<int> RankTrainer::UsedGroups() const {
  std::set<int> used = {program_.tied_group};
  for (const StageProgram& stage : program_.stages) {
    used.insert({stage.receive_forward_group, stage.send_forward_group,
                 stage.receive_backward_group, stage.send_backward_group});
    for (const LayerProgram& layer : stage.layers) {
      used.insert({layer.tensor_group, layer.gradient_group});
      // Only attention looks at other tokens.
      if (IsTransformer(model_.layer_definitions()[layer.definition_index].kind)) {
        used.insert(layer.context_group);
      }
      // If layouts differ, rows move at least one of the two ways.
      if (!layer.enter.is_empty() || !layer.leave_backward.is_empty()) {
        used.insert(stage.stage_group);
      }
    }
  }
  for (size_t k = 0; k < groups_.size(); ++k) {
    if (groups_[k].get() == loss_group_) used.insert(static_cast<int>(k));
  }
  used.erase(-1);
  return used;
}

absl::StatusOr<double> RankTrainer::Step() {
  // It lives as long as the step: among passing arrays it would split the memory of the logits.
  PARPLAN_ASSIGN_OR_RETURN(
      loss_,
      setting_.pool->Take(ArrayUse::kTransient, Bytes::Of(sizeof(double)), Lifetime::kLasting));
  setting_.kernels->Zero(
      loss_.data(), static_cast<int64_t>(sizeof(double)) / ElementSize(setting_.kernels->type()));
  std::vector<int64_t> backward_counts(stages_.size());
  for (const PipelinePass& pass : program_.passes) {
    const int index = pass.stage_index / program_.pipeline_parallel_degree;
    Stage& stage = *stages_[index];
    // `RankProgram::Create` has refused schedules that split backward passes.
    if (!pass.is_backward()) {
      PARPLAN_RETURN_IF_ERROR(stage.Forward(pass.micro_batch));
      continue;
    }
    const bool is_last = ++backward_counts[index] == program_.micro_batch_count;
    PARPLAN_RETURN_IF_ERROR(stage.Backward(pass.micro_batch, is_last));
  }
  Enter(TrainerPhase::kSend);
  for (const std::unique_ptr<Stage>& stage : stages_) PARPLAN_RETURN_IF_ERROR(stage->Finish());
  PARPLAN_RETURN_IF_ERROR(SynchronizeGradients());
  ++step_count_;
  for (const std::unique_ptr<Stage>& stage : stages_) {
    for (const std::unique_ptr<TrainerLayer>& layer : stage->layers()) {
      Enter(TrainerPhase::kOptimizer, layer->program().layer_index);
      PARPLAN_RETURN_IF_ERROR(layer->state().Step(step_count_));
    }
  }
  Enter(TrainerPhase::kLoss);
  if (loss_group_ != nullptr) {
    PARPLAN_RETURN_IF_ERROR(loss_group_->AllReduce(ElementType::kFloat64, loss_.data(), 1));
  }
  // The only wait for the device's results; uploads of tokens wait for earlier uploads.
  double loss = 0.0;
  PARPLAN_RETURN_IF_ERROR(setting_.kernels->CopyToHost(loss_.data(), &loss, sizeof(loss)));
  loss_.Reset();
  Enter(TrainerPhase::kOutside);
  return loss;
}

absl::Status RankTrainer::SynchronizeGradients() {
  for (const std::unique_ptr<Stage>& stage : stages_) {
    for (const std::unique_ptr<TrainerLayer>& layer : stage->layers()) {
      Enter(TrainerPhase::kGradientSync, layer->program().layer_index);
      PARPLAN_RETURN_IF_ERROR(layer->state().Synchronize());
    }
  }
  if (program_.tied_group < 0) return absl::OkStatus();
  // The ranks of embedding and head each have a copy of the table.
  for (const std::unique_ptr<Stage>& stage : stages_) {
    for (const std::unique_ptr<TrainerLayer>& layer : stage->layers()) {
      if (!layer->layout().Has(tensor_names::kTable)) continue;
      PARPLAN_RETURN_IF_ERROR(layer->state().AddUpWith(*Group(program_.tied_group),
                                                       layer->layout().Find(tensor_names::kTable)));
    }
  }
  return absl::OkStatus();
}

absl::Status RankTrainer::VisitStates(
    const std::function<void(int, const ParameterLayout&, const std::vector<StatePart>&)>& visit) {
  for (const std::unique_ptr<Stage>& stage : stages_) {
    for (const std::unique_ptr<TrainerLayer>& layer : stage->layers()) {
      PARPLAN_ASSIGN_OR_RETURN(const std::vector<StatePart> parts, layer->state().Parts());
      visit(layer->program().layer_index, layer->layout(), parts);
    }
  }
  return absl::OkStatus();
}

absl::Status RankTrainer::VisitParameters(
    const std::function<void(int, const ParameterTensor&, const void*)>& visit) {
  const int64_t element_size = ElementSize(setting_.kernels->type());
  for (const std::unique_ptr<Stage>& stage : stages_) {
    for (const std::unique_ptr<TrainerLayer>& layer : stage->layers()) {
      PARPLAN_ASSIGN_OR_RETURN(const void* const parameters, layer->state().Parameters());
      for (const ParameterTensor& tensor : layer->layout().tensors) {
        visit(layer->program().layer_index, tensor,
              static_cast<const char*>(parameters) + tensor.offset * element_size);
      }
      layer->state().Release();
    }
  }
  return absl::OkStatus();
}

}  // namespace parplan
