// Everything planctl reads of other programs. The first byte chooses the
// reader, the rest is the text; what is read must be valid by our own rules.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>

#include "clients/import/galvatron_plan.h"
#include "clients/import/galvatron_profile.h"
#include "clients/import/hugging_face.h"
#include "clients/import/opaque_config.h"
#include "exports/galvatron_plan_export.h"
#include "proto/wire/model_wire.h"
#include "proto/wire/profile_wire.h"

namespace {

using parplan::GalvatronFiles;
using parplan::ModelFlags;
using parplan::NamedText;

constexpr char kModelConfig[] =
    R"({"dim": 64, "n_heads": 4, "n_layers": 4, "vocab_size": 100, "n_positions": 16})";

void Require(bool holds) {
  if (!holds) std::abort();
}

void ReadProfile(const GalvatronFiles& files) {
  const auto import = parplan::ImportGalvatron(files, {});
  if (!import.ok()) return;
  Require(parplan::ValidateProfile(import->profile).ok());
  if (import->model.has_value()) Require(parplan::ModelFromProto(*import->model).ok());
}

void ReadPlan(const NamedText& file) {
  const auto config = parplan::ImportHuggingFace({"config.json", kModelConfig}, ModelFlags());
  Require(config.ok());
  const auto model = parplan::ModelFromProto(config->model);
  Require(model.ok());
  parplan::GalvatronPlanOptions options;
  options.ulysses_as_data_parallel = true;
  const auto import = parplan::ImportGalvatronPlan(file, *model, options);
  if (!import.ok()) return;
  const auto text = parplan::ExportGalvatronPlan(import->plan, *model);
  if (!text.ok()) return;
  for (bool sequence_parallel : {false, true}) {
    options.sequence_parallel = sequence_parallel;
    const auto again = parplan::ImportGalvatronPlan({"again.json", *text}, *model, options);
    Require(again.ok());
    if (again->plan == import->plan) return;
  }
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const NamedText file{"a_bf16_hidden64_head4_seqlen16.json",
                       std::string(reinterpret_cast<const char*>(data) + 1, size - 1)};
  GalvatronFiles files;
  files.model_config = NamedText{"config.json", kModelConfig};
  switch (data[0] % 8) {
    case 0:
      files.times = {file};
      ReadProfile(files);
      break;
    case 1:
      files.memory = {file};
      ReadProfile(files);
      break;
    case 2:
      files.model_config = file;
      ReadProfile(files);
      break;
    case 3:
      files.hardware.all_reduce = file;
      ReadProfile(files);
      break;
    case 4:
      files.hardware.send_receive = file;
      ReadProfile(files);
      break;
    case 5:
      files.hardware.tables = file;
      files.hardware.overlap = file;
      ReadProfile(files);
      break;
    case 6: {
      // Sizes of opaque layers stand behind a form feed, which JSON has nowhere.
      const size_t end = file.text.find('\f');
      parplan::GivenOpaqueLayers opaque;
      if (end != std::string::npos) {
        auto read = parplan::ReadOpaqueLayers({"sizes.json", file.text.substr(end + 1)});
        if (!read.ok()) return 0;
        opaque = *std::move(read);
      }
      const auto import =
          parplan::ImportHuggingFace({file.name, file.text.substr(0, end)}, ModelFlags(), opaque);
      if (import.ok()) Require(parplan::ModelFromProto(import->model).ok());
      break;
    }
    default:
      ReadPlan(file);
  }
  return 0;
}
