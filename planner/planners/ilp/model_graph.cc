#include "planner/planners/ilp/model_graph.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "planner/planners/ilp/operator_graph.h"
#include "planner/planners/ilp/operator_options.h"

namespace parplan {
namespace {

// The parts of a definition that its instances share.
struct Block {
  OperatorGraph operators;
  OperatorScales scales;
  std::vector<std::vector<OperatorOption>> options;  // [operator]
};

double Ratio(double wanted, double had) { return had > 0.0 && wanted > 0.0 ? wanted / had : 1.0; }

// Adds the bytes of a kept output to every option, and to the unique bytes of the node.
void KeepOutput(const std::vector<OperatorOption>& options, double bytes, const DeviceMesh& mesh,
                GraphNode& node) {
  for (size_t i = 0; i < options.size(); ++i) {
    node.options[i].kept_bytes += bytes / options[i].output.Shards(mesh);
  }
  node.unique_bytes += bytes;
}

class GraphMaker {
 public:
  GraphMaker(const ModelSpec& model, const CostModel& costs, const OperatorTimes& times,
             const MeshQuestion& question)
      : model_(model), costs_(costs), times_(times), question_(question) {}

  StrategyGraph Make() {
    for (int index = 0; index < static_cast<int>(model_.layer_definitions().size()); ++index) {
      blocks_.push_back(MakeBlock(index));
    }
    const std::vector<int>& layers = model_.definition_of_layer();
    for (size_t begin = 0; begin < layers.size();) {
      size_t end = begin;
      while (end < layers.size() && layers[end] == layers[begin]) ++end;
      AddRun(layers[begin], static_cast<int>(end - begin));
      begin = end;
    }
    TieTables();
    return std::move(graph_);
  }

 private:
  Block MakeBlock(int definition_index) const {
    const LayerDefinition& definition = model_.layer_definitions()[definition_index];
    const int64_t samples = question_.micro_batch_size;
    Block block;
    block.operators = OperatorsOf(definition, model_.precision(), costs_.runtime(), samples,
                                  definition.tied_embedding);
    // The whole layer on one device.
    const LayerCost whole =
        costs_.searched_group().CostOfLayer(definition_index, Strategy(), samples, 1);
    const LayerFootprint footprint =
        costs_.searched_group().layer_source(definition_index).Footprint({}, 1);
    const auto parameter_count =
        static_cast<double>(footprint.parameter_count + footprint.expert_parameter_count);
    double parameters = 0.0;
    double seconds = 0.0;
    double kept = 0.0;
    const auto element = static_cast<double>(BytesPerElement(model_.precision()));
    for (const Operator& op : block.operators.operators) {
      parameters += op.parameter_count;
      seconds += times_.DeviceSeconds(op);
      kept += op.extra_kept_bytes + (op.keeps_input ? op.rows * op.inner * element : 0.0);
    }
    OperatorScales& scales = block.scales;
    scales.element_bytes = element;
    const double parameter_factor = Ratio(parameter_count, parameters);
    scales.state_bytes_per_parameter =
        parameters > 0.0 ? whole.memory.states().as_double() / parameters : 0.0;
    scales.gradient_message_bytes_per_parameter =
        parameter_factor * (TraitsOf(model_.precision()).has_master_weights()
                                ? costs_.runtime().gradient_message_bytes
                                : element);
    if (IsTransformer(definition.kind)) {
      scales.activation_factor = Ratio(whole.memory.kept.as_double(), kept);
    }
    scales.time_factor = Ratio((whole.forward + whole.backward).value(), seconds);
    scales.micro_batch_count = question_.micro_batch_count;
    for (const Operator& op : block.operators.operators) {
      block.options.push_back(OptionsOf(op, question_.mesh, times_, scales));
    }
    return block;
  }

  void AddRun(int definition_index, int layer_count) {
    switch (question_.folding) {
      case Folding::kNone:
        for (int i = 0; i < layer_count; ++i) AddInstance(definition_index, 1);
        return;
      case Folding::kMiddle:
        AddInstance(definition_index, 1);
        if (layer_count > 2) AddInstance(definition_index, layer_count - 2);
        if (layer_count > 1) AddInstance(definition_index, 1);
        return;
      case Folding::kAll:
        AddInstance(definition_index, layer_count);
        return;
    }
  }

  void AddInstance(int definition_index, int multiplicity) {
    const Block& block = blocks_[definition_index];
    const int first = static_cast<int>(graph_.nodes.size());
    for (size_t i = 0; i < block.operators.operators.size(); ++i) {
      GraphNode node;
      node.name = absl::StrCat(model_.layer_definitions()[definition_index].layer_definition_id,
                               ".", block.operators.operators[i].name);
      node.group = definition_index;
      node.instance = instance_count_;
      node.multiplicity = multiplicity;
      for (const OperatorOption& option : block.options[i]) node.options.push_back(option.cost);
      const Operator& op = block.operators.operators[i];
      node.unique_bytes = op.parameter_count * block.scales.state_bytes_per_parameter +
                          op.extra_kept_bytes * block.scales.activation_factor;
      graph_.nodes.push_back(std::move(node));
      place_.push_back({definition_index, static_cast<int>(i)});
      keeps_output_.push_back(false);
    }
    const int last = static_cast<int>(graph_.nodes.size()) - 1;
    for (const OperatorEdge& edge : block.operators.edges) {
      if (edge.from >= 0) {
        AddEdge(first + edge.from, first + edge.to, multiplicity);
        continue;
      }
      if (last_node_ >= 0) AddEdge(last_node_, first + edge.to, 1);
      if (multiplicity > 1) AddEdge(last, first + edge.to, multiplicity - 1);
    }
    if (block.operators.table_operator >= 0) {
      tables_.push_back(first + block.operators.table_operator);
    }
    last_node_ = last;
    ++instance_count_;
  }

  const Operator& OperatorOf(int node) const {
    return blocks_[place_[node].definition_index].operators.operators[place_[node].op];
  }
  const std::vector<OperatorOption>& OptionsAt(int node) const {
    return blocks_[place_[node].definition_index].options[place_[node].op];
  }
  const OperatorScales& ScalesOf(int node) const {
    return blocks_[place_[node].definition_index].scales;
  }

  // Groups options into classes by the layout that `layout_of` returns; returns the layouts of the
  // classes.
  template <typename LayoutOf>
  static std::vector<Layout> Classify(const std::vector<OperatorOption>& options,
                                      const LayoutOf& layout_of, std::vector<int>& classes) {
    std::vector<Layout> layouts;
    for (const OperatorOption& option : options) {
      const Layout layout = layout_of(option);
      const auto found = std::find(layouts.begin(), layouts.end(), layout);
      classes.push_back(static_cast<int>(found - layouts.begin()));
      if (found == layouts.end()) layouts.push_back(layout);
    }
    return layouts;
  }

  // Adds the edge of an activation.
  void AddEdge(int from, int to, int multiplicity) {
    GraphEdge edge;
    edge.from = from;
    edge.to = to;
    edge.multiplicity = multiplicity;
    const std::vector<Layout> before = Classify(
        OptionsAt(from), [](const OperatorOption& o) { return o.output; }, edge.from_class);
    const std::vector<Layout> after = Classify(
        OptionsAt(to), [](const OperatorOption& o) { return o.input; }, edge.to_class);
    const Operator& producer = OperatorOf(from);
    const double bytes = producer.rows * producer.columns * ScalesOf(from).element_bytes;
    const double kept_bytes = bytes * ScalesOf(from).activation_factor;
    const bool keeps = OperatorOf(to).keeps_input;
    edge.from_class_count = static_cast<int>(before.size());
    edge.to_class_count = static_cast<int>(after.size());
    for (const Layout& a : before) {
      for (const Layout& b : after) {
        edge.seconds.push_back(static_cast<double>(question_.micro_batch_count) *
                               ReshardSeconds(bytes, a, b, question_.mesh, times_));
        edge.kept_bytes.push_back(keeps && !b.IsSliceOf(a) ? kept_bytes / b.Shards(question_.mesh)
                                                           : 0.0);
      }
    }
    if (keeps && !keeps_output_[from]) {
      keeps_output_[from] = true;
      KeepOutput(OptionsAt(from), kept_bytes, question_.mesh, graph_.nodes[from]);
    }
    graph_.edges.push_back(std::move(edge));
  }

  // Ties the tables of embedding and head: the head reads the embedding's table, and a copy of the
  // parts it does not hold.
  void TieTables() {
    if (tables_.size() != 2) return;
    const int from = tables_[0];
    const int to = tables_[1];
    GraphEdge edge;
    edge.from = from;
    edge.to = to;
    const std::vector<Layout> before = Classify(
        OptionsAt(from), [](const OperatorOption& o) { return o.weight; }, edge.from_class);
    // The head uses the transposed table.
    const auto transposed = [](const OperatorOption& option) {
      Layout layout = option.weight;
      for (AxisLayout& axis : layout.axes) {
        axis = axis == AxisLayout::kRows      ? AxisLayout::kColumns
               : axis == AxisLayout::kColumns ? AxisLayout::kRows
                                              : axis;
      }
      return layout;
    };
    const std::vector<Layout> after = Classify(OptionsAt(to), transposed, edge.to_class);
    const Operator& table = OperatorOf(from);
    const double bytes = table.inner * table.columns * ScalesOf(from).element_bytes;
    edge.from_class_count = static_cast<int>(before.size());
    edge.to_class_count = static_cast<int>(after.size());
    for (const Layout& a : before) {
      for (const Layout& b : after) {
        // Once per step in each direction: the table before the step, its gradient after it.
        edge.seconds.push_back(ReshardSeconds(bytes, a, b, question_.mesh, times_));
        edge.kept_bytes.push_back(b.IsSliceOf(a) ? 0.0 : bytes / b.Shards(question_.mesh));
      }
    }
    graph_.edges.push_back(std::move(edge));
  }

  struct Place {
    int definition_index = 0;
    int op = 0;
  };

  const ModelSpec& model_;
  const CostModel& costs_;
  const OperatorTimes& times_;
  const MeshQuestion& question_;
  std::vector<Block> blocks_;  // [definition]
  StrategyGraph graph_;
  std::vector<Place> place_;  // [node]
  std::vector<bool> keeps_output_;
  std::vector<int> tables_;
  int last_node_ = -1;
  int instance_count_ = 0;
};

}  // namespace

StrategyGraph GraphOfModel(const ModelSpec& model, const CostModel& costs,
                           const OperatorTimes& times, const MeshQuestion& question) {
  return GraphMaker(model, costs, times, question).Make();
}

}  // namespace parplan
