#include "executor/trainer/rank_trainer.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/status_macros.h"
#include "executor/device/comm/null_communicator.h"
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
      TrainerLayer::Setting setting{
          .tools = {.kernels = trainer_.setting_.kernels,
                    .pool = trainer_.setting_.pool,
                    .tensor = trainer_.Group(layer.tensor_group),
                    .context = trainer_.Group(layer.context_group),
                    .definition = &definition,
                    .strategy = layer.strategy,
                    .layout = layer.layout,
                    .rank = trainer_.program_.rank,
                    .communicates_ahead = trainer_.setting_.communicates_ahead},
          .program = layer,
          .gradient_group = trainer_.Group(layer.gradient_group),
          .tokens = trainer_.setting_.tokens,
          .optimizer = trainer_.setting_.optimizer,
          .seed = trainer_.setting_.seed,
          .micro_batch_size = trainer_.program_.micro_batch_size,
          .global_token_count = trainer_.program_.micro_batch_size *
                                trainer_.program_.micro_batch_count * definition.sequence_length,
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

  // Starts to receive what the next pass of a direction needs from another stage, if it needs that
  // and it was not started. A direction's receives are started in the order of its passes.
  absl::Status PostReceive(bool is_backward) {
    const Way way = WayOf(is_backward);
    if (way.group < 0 || way.inbox.is_posted()) return absl::OkStatus();
    trainer_.Enter(TrainerPhase::kReceive);
    PARPLAN_ASSIGN_OR_RETURN(Array rows, TakeRows(way.layout));
    return trainer_.mover_.Post(way.program, way.layout, std::move(rows),
                                *trainer_.Group(way.group), trainer_.RanksOf(way.group), way.inbox);
  }

  // Waits for what a pass needs from another stage and returns it; null if it needs nothing. The
  // gathering of the parameters of the pass's first layer begins.
  absl::StatusOr<Array> Receive(bool is_backward) {
    TrainerLayer& first = is_backward ? *layers_.back() : *layers_.front();
    trainer_.Enter(is_backward ? TrainerPhase::kBackward : TrainerPhase::kForward,
                   first.program().layer_index);
    PARPLAN_RETURN_IF_ERROR(first.StartGather(is_backward));
    const Way way = WayOf(is_backward);
    if (way.group < 0) return Array();
    PARPLAN_RETURN_IF_ERROR(PostReceive(is_backward));
    trainer_.Enter(TrainerPhase::kReceive);
    return trainer_.mover_.Take(way.program, way.layout, way.inbox);
  }

  // Adds the ranks with which the messages of a step are exchanged, by the index of their group.
  void AddPeers(std::map<int, BlockMover::Peers>& peers) const {
    peers[program_.receive_forward_group].Add(program_.receive_forward);
    peers[program_.send_forward_group].Add(program_.send_forward);
    peers[program_.receive_backward_group].Add(program_.receive_backward);
    peers[program_.send_backward_group].Add(program_.send_backward);
    for (const LayerProgram& layer : program_.layers) {
      peers[program_.stage_group].Add(layer.enter);
      peers[program_.stage_group].Add(layer.leave_backward);
      // Only attention looks at other tokens.
      if (IsTransformer(trainer_.model_.layer_definitions()[layer.definition_index].kind)) {
        AddContextPeers(layer, peers[layer.context_group]);
      }
    }
  }

  // Runs a forward pass over what `Receive` returned.
  absl::Status Forward(int64_t micro_batch, Array x) {
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

  // Runs a backward pass over what `Receive` returned. `is_last`: it is the stage's last of the
  // step, after which this rank's gradients are complete.
  absl::Status Backward(int64_t micro_batch, bool is_last, Array dx) {
    for (size_t k = layers_.size(); k-- > 0;) {
      const LayerProgram& layer = layers_[k]->program();
      trainer_.Enter(TrainerPhase::kBackward, layer.layer_index);
      if (k > 0) PARPLAN_RETURN_IF_ERROR(layers_[k - 1]->StartGather(/*is_backward=*/true));
      PARPLAN_ASSIGN_OR_RETURN(dx, layers_[k]->Backward(trainer_.step_count_, micro_batch,
                                                        std::move(dx), trainer_.loss()));
      PARPLAN_RETURN_IF_ERROR(trainer_.FinishScatter());
      trainer_.scattering_ = &layers_[k]->state();
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
  // How a pass gets its input from another stage. `group` is -1 if it gets none.
  struct Way {
    const ReshardProgram& program;
    const ActivationLayout& layout;
    int group;
    BlockMover::Inbox& inbox;
  };
  Way WayOf(bool is_backward) {
    if (is_backward) {
      return {program_.receive_backward, layers_.back()->program().layout,
              program_.receive_backward_group, received_backward_};
    }
    return {program_.receive_forward, layers_.front()->program().layout,
            program_.receive_forward_group, received_forward_};
  }
  void AddContextPeers(const LayerProgram& layer, BlockMover::Peers& peers) const {
    if (layer.context_group < 0) return;
    const std::vector<int>& ranks = trainer_.RanksOf(layer.context_group);
    const auto own = static_cast<int>(
        std::find(ranks.begin(), ranks.end(), trainer_.program_.rank) - ranks.begin());
    const auto size = static_cast<int>(ranks.size());
    for (int distance = 1; distance < size; ++distance) {
      peers.receivers.insert(ranks[(own + distance) % size]);
      peers.senders.insert(ranks[(own - distance + size) % size]);
      // A ring sends to the next rank alone.
      if (layer.strategy.context_kind == ContextKind::kRing) break;
    }
  }
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
  BlockMover::Inbox received_forward_;
  BlockMover::Inbox received_backward_;
  BlockMover::Outbox sent_forward_;
  BlockMover::Outbox sent_backward_;
};

namespace {

// See TrainerSetting::rehearses.
absl::Status Rehearse(RankProgram program, const ModelSpec& model, TrainerSetting setting) {
  std::erase_if(program.passes, [](const PipelinePass& pass) { return pass.micro_batch != 0; });
  setting.rehearses = false;
  setting.observer = nullptr;
  setting.make_group =
      [rank =
           program.rank](const GroupSpec& group) -> absl::StatusOr<std::unique_ptr<Communicator>> {
    const auto own = std::find(group.ranks.begin(), group.ranks.end(), rank);
    return std::make_unique<NullCommunicator>(group.purpose,
                                              static_cast<int>(own - group.ranks.begin()),
                                              static_cast<int>(group.ranks.size()));
  };
  {
    PARPLAN_ASSIGN_OR_RETURN(const std::unique_ptr<RankTrainer> trainer,
                             RankTrainer::Create(program, model, setting));
    PARPLAN_RETURN_IF_ERROR(trainer->Step().status());
  }
  setting.pool->ResetPeaks();
  return absl::OkStatus();
}

}  // namespace

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
  if (setting.rehearses) PARPLAN_RETURN_IF_ERROR(Rehearse(program, model, setting));
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
  return setting_.communicates_ahead ? ConnectPeers() : absl::OkStatus();
}

absl::Status RankTrainer::ConnectPeers() {
  std::map<int, BlockMover::Peers> peers;
  for (const std::unique_ptr<Stage>& stage : stages_) stage->AddPeers(peers);
  // All ranks go through their groups in the same order.
  for (const auto& [group, of_group] : peers) {
    if (group < 0) continue;
    PARPLAN_RETURN_IF_ERROR(mover_.Connect(of_group, *groups_[group], RanksOf(group)));
  }
  return absl::OkStatus();
}

absl::Status RankTrainer::FinishScatter() {
  LayerState* const layer = std::exchange(scattering_, nullptr);
  return layer == nullptr ? absl::OkStatus() : layer->FinishScatter();
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
  const auto index_of = [this](const PipelinePass& pass) {
    return pass.stage_index / program_.pipeline_parallel_degree;
  };
  for (size_t k = 0; k < program_.passes.size(); ++k) {
    const PipelinePass& pass = program_.passes[k];
    Stage& stage = *stages_[index_of(pass)];
    PARPLAN_ASSIGN_OR_RETURN(Array input, stage.Receive(pass.is_backward()));
    // One pass ahead. The wait for it stays where it was, so ranks that would not wait for each
    // other in a circle without it do not with it.
    if (setting_.communicates_ahead && k + 1 < program_.passes.size()) {
      const PipelinePass& next = program_.passes[k + 1];
      PARPLAN_RETURN_IF_ERROR(stages_[index_of(next)]->PostReceive(next.is_backward()));
    }
    // `RankProgram::Create` has refused schedules that split backward passes.
    if (!pass.is_backward()) {
      // A forward pass adds activations: no whole gradient is held beside them. The scattering has
      // had the time until this pass's input came.
      PARPLAN_RETURN_IF_ERROR(FinishScatter());
      PARPLAN_RETURN_IF_ERROR(stage.Forward(pass.micro_batch, std::move(input)));
      continue;
    }
    const bool is_last = ++backward_counts[index_of(pass)] == program_.micro_batch_count;
    PARPLAN_RETURN_IF_ERROR(stage.Backward(pass.micro_batch, is_last, std::move(input)));
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
