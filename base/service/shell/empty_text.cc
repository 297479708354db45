#include "base/service/shell/empty_text.h"

#include <algorithm>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "absl/strings/str_cat.h"

namespace parplan::shell {

void RefuseEmptyTexts(const CLI::App& app) {
  for (const CLI::Option* const option : app.get_options()) {
    const std::vector<std::string>& texts = option->results();
    if (std::find(texts.begin(), texts.end(), "") != texts.end()) {
      throw CLI::ValidationError(absl::StrCat(
          option->get_name(), " ", option->get_required() ? "must not be empty" : kEmptyText));
    }
  }
  for (const CLI::App* const command : app.get_subcommands()) RefuseEmptyTexts(*command);
}

}  // namespace parplan::shell
