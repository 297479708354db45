#include "clients/import/layer_name.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "clients/import/model_facts.h"

namespace parplan {

std::string LayerName(const LayerParts& parts, const std::vector<LayerParts>& all,
                      bool is_encoder) {
  const auto others = [&](auto&& differs) {
    return std::any_of(all.begin(), all.end(), [&](const LayerParts& other) {
      return other.mixer == parts.mixer && other.has_feed_forward == parts.has_feed_forward &&
             differs(other);
    });
  };
  std::string name;
  switch (parts.mixer) {
    case LayerMixer::kAttention:
      name = is_encoder ? "encoder" : "decoder";
      break;
    case LayerMixer::kStateSpace:
      name = "state-space";
      break;
    case LayerMixer::kNone:
      name = "feed-forward";
      break;
    case LayerMixer::kConvolution:
      name = "convolution";
      break;
    case LayerMixer::kRecurrence:
      name = "recurrence";
      break;
    case LayerMixer::kBoth:
      name = "attention-and-state-space";
      break;
    case LayerMixer::kOpaque:
      return absl::StrCat("opaque", parts.opaque_kind == "*" ? "" : "-",
                          parts.opaque_kind == "*" ? "" : ModelIdFrom(parts.opaque_kind));
  }
  if (others([&](const LayerParts& other) { return other.has_experts != parts.has_experts; })) {
    absl::StrAppend(&name, parts.has_experts ? "-experts" : "-dense");
  }
  if (parts.attention_head_count > 0 && others([&](const LayerParts& other) {
        return other.attention_head_count != parts.attention_head_count;
      })) {
    absl::StrAppend(&name, "-", parts.attention_head_count, "-heads");
  }
  if (parts.key_value_head_count > 0 && others([&](const LayerParts& other) {
        return other.key_value_head_count != parts.key_value_head_count;
      })) {
    absl::StrAppend(&name, "-", parts.key_value_head_count, "-groups");
  }
  if (parts.feed_forward_size > 0 && others([&](const LayerParts& other) {
        return other.feed_forward_size != parts.feed_forward_size;
      })) {
    absl::StrAppend(&name, "-", parts.feed_forward_size, "-wide");
  }
  if (others([&](const LayerParts& other) { return other.head_size != parts.head_size; }) &&
      parts.head_size > 0) {
    absl::StrAppend(&name, "-heads-of-", parts.head_size);
  }
  if (parts.has_indexer && others([](const LayerParts& other) { return !other.has_indexer; })) {
    absl::StrAppend(&name, "-indexed");
  }
  if (parts.shares_indexer) absl::StrAppend(&name, "-shared-indexer");
  if (parts.compression == KeyCompression::kSparse) absl::StrAppend(&name, "-sparse-keys");
  if (parts.compression == KeyCompression::kHeavy) absl::StrAppend(&name, "-compressed-keys");
  if (parts.shares_keys) absl::StrAppend(&name, "-shared-keys");
  if (!parts.has_feed_forward && std::any_of(all.begin(), all.end(), [&](const LayerParts& other) {
        return other.mixer == parts.mixer && other.has_feed_forward;
      })) {
    absl::StrAppend(&name, "-alone");
  }
  const bool has_window = parts.attention_window > 0 || parts.attention_chunk_size > 0;
  if (has_window && others([](const LayerParts& other) {
        return other.attention_window == 0 && other.attention_chunk_size == 0;
      })) {
    absl::StrAppend(&name, kWindowSuffix);
  }
  return name;
}

}  // namespace parplan
