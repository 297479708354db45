#include "base/service/shell/command_line.h"

#include <cerrno>
#include <cmath>
#include <iostream>
#include <type_traits>

#include <CLI/CLI.hpp>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/service/shell/empty_text.h"
#include "base/service/shell/whole_number.h"
#include "base/system/posix_file.h"

namespace parplan::shell {
namespace {

// Adds the options of the program to the help of its commands, which take them too.
class CommandFormatter : public CLI::Formatter {
 public:
  std::string make_footer(const CLI::App* app) const override {
    std::string footer = CLI::Formatter::make_footer(app);
    const CLI::App* program = app;
    while (program->get_parent() != nullptr) program = program->get_parent();
    if (program == app || !app->get_fallthrough()) return footer;
    const std::vector<const CLI::Option*> options =
        program->get_options([program](const CLI::Option* option) {
          return !option->get_group().empty() && option != program->get_help_ptr() &&
                 option != program->get_version_ptr();
        });
    const std::string group = make_group("Options of every command", false, options);
    return absl::StrCat(absl::StripPrefix(group, "\n"), "\n", footer);
  }
};

constexpr int kUsageError = 2;
// The exit code where standard output is closed or its disk is full, as of every command
// (exit_code.h).
constexpr int kCannotPrint = 1;

std::optional<double> FiniteNumber(const std::string& text) {
  double value = 0.0;
  if (!absl::SimpleAtod(text, &value) || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::string IsPositive(const std::string& text) {
  const std::optional<double> value = FiniteNumber(text);
  return value > 0.0 ? "" : "must be a number above 0";
}

std::string IsNotNegative(const std::string& text) {
  const std::optional<double> value = FiniteNumber(text);
  return value >= 0.0 ? "" : "must be a number from 0 on";
}

std::string IsShare(const std::string& text) {
  const std::optional<double> value = FiniteNumber(text);
  return value >= 0.0 && value < 1.0 ? "" : "must be a number from 0 to below 1";
}

std::string IsRisk(const std::string& text) {
  const std::optional<double> value = FiniteNumber(text);
  return value >= 1e-6 && value <= 0.5 ? "" : "must be a number from 1e-06 to 0.5";
}

std::string IsNotEmpty(const std::string& text) { return text.empty() ? kEmptyText : ""; }

// Returns the chosen command that lacks one of its own, with its name as users type it; null if no
// command does.
const CLI::App* CommandWithoutChoice(const CLI::App& program, std::string& name) {
  const CLI::App* command = &program;
  name = program.get_name();
  while (!command->get_subcommands().empty()) {
    command = command->get_subcommands().front();
    absl::StrAppend(&name, " ", command->get_name());
  }
  return command->get_require_subcommand_min() > 0 ? command : nullptr;
}

// Returns what is wrong with arguments that choose no command where one is required: the word that
// is no command, if there is one, and the commands. Empty if all required commands are chosen.
std::string MissingCommand(const CLI::App& program) {
  std::string name;
  const CLI::App* const command = CommandWithoutChoice(program, name);
  if (command == nullptr) return "";
  std::vector<std::string> names;
  for (const CLI::App* const below : command->get_subcommands(nullptr)) {
    // Moved commands have no group.
    if (!below->get_group().empty()) names.push_back(below->get_name());
  }
  const std::string known = absl::StrJoin(names, ", ");
  const std::vector<std::string> unread = program.remaining(/*recurse=*/true);
  // A word behind an unknown flag may be its value.
  if (!unread.empty() && !absl::StartsWith(unread.front(), "-")) {
    return absl::StrCat("`", unread.front(), "` is no command of `", name, "`; it has: ", known);
  }
  return absl::StrCat("`", name, "` needs a command: ", known);
}

}  // namespace

ValueCheck::ValueCheck(std::function<std::string(const std::string&)> check,
                       const std::string& type_name)
    : validator_(std::make_shared<CLI::Validator>(
          [check = std::move(check)](std::string& text) { return check(text); }, type_name)) {}

ValueCheck::ValueCheck(std::shared_ptr<const CLI::Validator> validator)
    : validator_(std::move(validator)) {}

std::string ValueCheck::operator()(const std::string& text) const { return (*validator_)(text); }

ValueCheck Positive() { return ValueCheck(IsPositive, "POSITIVE"); }
ValueCheck NotNegative() { return ValueCheck(IsNotNegative, "NUMBER"); }
ValueCheck Share() { return ValueCheck(IsShare, "SHARE"); }
ValueCheck Risk() { return ValueCheck(IsRisk, "PROBABILITY"); }
ValueCheck NotEmpty() { return ValueCheck(IsNotEmpty, "NAME"); }

ValueCheck Between(int lowest, int highest) {
  return ValueCheck(std::make_shared<const CLI::Validator>(CLI::Range(lowest, highest)));
}

ValueCheck Between(double lowest, double highest) {
  // CLI::Range lets NaN pass, which is neither below nor above a number.
  const auto check = [lowest, highest](const std::string& text) {
    const std::optional<double> value = FiniteNumber(text);
    const bool is_within = value.has_value() && *value >= lowest && *value <= highest;
    return is_within ? "" : absl::StrCat("must be a number from ", lowest, " to ", highest);
  };
  return ValueCheck(check, absl::StrCat("FLOAT in [", lowest, " - ", highest, "]"));
}

ValueCheck OneOf(std::vector<std::string> words) {
  return ValueCheck(std::make_shared<const CLI::Validator>(CLI::IsMember(std::move(words))));
}

Option& Option::Required(bool required) {
  option_->required(required);
  return *this;
}

Option& Option::Check(const ValueCheck& check) {
  option_->check(*check.validator_);
  return *this;
}

Option& Option::Needs(const Option& other) {
  option_->needs(other.option_);
  return *this;
}

Option& Option::Excludes(const Option& other) {
  option_->excludes(other.option_);
  return *this;
}

Option& Option::Group(const std::string& group) {
  option_->group(group);
  return *this;
}

Option& Option::Variable(const std::string& name) {
  option_->envname(name);
  return *this;
}

Option& Option::TypeName(const std::string& name) {
  option_->type_name(name);
  return *this;
}

Option& Option::Help(const std::string& help) {
  option_->description(help);
  return *this;
}

Option& Option::ShowDefault() {
  option_->capture_default_str();
  return *this;
}

Option& Option::ShowDefault(const std::string& text) {
  option_->default_str(text);
  return *this;
}

Option& Option::Delimiter(char delimiter) {
  option_->delimiter(delimiter);
  return *this;
}

bool Option::given() const { return option_->count() > 0; }

Command Command::AddCommand(const std::string& name, const std::string& help) {
  return Command(*app_->add_subcommand(name, help));
}

template <typename T>
Option Command::AddOption(const std::string& name, T& value, const std::string& help) {
  CLI::Option* const option = app_->add_option(name, value, help);
  if constexpr (std::is_same_v<T, int64_t> || std::is_same_v<T, std::optional<int64_t>>) {
    // Without a name, which the help would show.
    option->check(CheckSigned);
  }
  return Option(option);
}

Option Command::AddTextOption(const std::string& name,
                              std::function<std::string(const std::string&)> read,
                              const std::string& help) {
  // The name without `-n,`, as errors have it.
  const std::string shown = name.substr(name.rfind(',') + 1);
  return Option(app_->add_option_function<std::string>(
      name,
      [shown, read = std::move(read)](const std::string& text) {
        const std::string wrong = read(text);
        if (!wrong.empty()) throw CLI::ValidationError(shown, wrong);
      },
      help));
}

Option Command::AddPrintOption(const std::string& name,
                               std::function<std::string(const std::string&)> print,
                               const std::string& help) {
  const auto end = [print = std::move(print)](const std::string& text) {
    // CLI11 prints the text of this exception, and a line break after it.
    throw CLI::CallForVersion(std::string(absl::StripSuffix(print(text), "\n")), 0);
  };
  return Option(app_->add_option_function<std::string>(name, end, help)->configurable(false));
}

Option Command::AddFlag(const std::string& name, bool& value, const std::string& help) {
  return Option(app_->add_flag(name, value, help));
}

Option Command::GetOption(const std::string& name) const { return Option(app_->get_option(name)); }

void Command::RemoveOption(const std::string& name) { app_->remove_option(app_->get_option(name)); }

Command Command::GetCommand(const std::string& name) const {
  return Command(*app_->get_subcommand(name));
}

Command& Command::Footer(const std::string& text) {
  app_->footer(text);
  return *this;
}

Command& Command::RequireCommand() {
  app_->require_subcommand(1);
  return *this;
}

Command& Command::PassOptionsUp() {
  app_->fallthrough();
  app_->formatter(std::make_shared<CommandFormatter>());
  return *this;
}

Command& Command::TakeLast() {
  app_->option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  return *this;
}

Command& Command::OnChosen(std::function<void()> action) {
  app_->callback(std::move(action));
  return *this;
}

Command& Command::HideAndIgnoreArguments() {
  app_->group("");
  app_->allow_extras();
  app_->fallthrough(false);  // Or the program refuses what the command ignores.
  app_->set_help_flag();
  app_->add_flag("-h,--help")->group("");
  return *this;
}

std::string Command::name() const { return app_->get_name(); }

std::string Command::help() const { return app_->help(); }

int ExitAfter(const CLI::App& program, const CLI::ParseError& thrown, ArgumentError* error) {
  if (dynamic_cast<const CLI::RequiredError*>(&thrown) != nullptr) {
    const std::string missing = MissingCommand(program);
    if (!missing.empty() && missing != thrown.what()) {
      return ExitAfter(program, CLI::RequiredError(missing, CLI::ExitCodes::RequiredError), error);
    }
  }
  // `--help` and `--version` end here as well, with code 0.
  if (program.exit(thrown, std::cout, std::cerr) == 0) {
    if (std::cout.flush()) return 0;
    const std::string why = DescribeErrno(errno, "cannot write standard output");
    std::cerr << program.get_name() << ": " << why << "\n";
    return kCannotPrint;
  }
  if (error != nullptr) *error = {thrown.get_name(), thrown.what()};
  return kUsageError;
}

CommandLine::CommandLine(const std::string& description, const std::string& name)
    : app_(std::make_unique<CLI::App>(description, name)) {}

CommandLine::~CommandLine() = default;

Command CommandLine::root() { return Command(*app_); }

void CommandLine::SetVersion(const std::string& text) { app_->set_version_flag("--version", text); }

std::optional<int> CommandLine::Parse(int argc, const char* const* argv, ArgumentError* error) {
  try {
    app_->parse(argc, argv);
    RefuseEmptyTexts(*app_);
  } catch (const CLI::ParseError& thrown) {
    return ExitAfter(*app_, thrown, error);
  }
  return std::nullopt;
}

int CommandLine::Refuse(const ArgumentError& error) const {
  app_->exit(CLI::ValidationError(error.kind, error.message), std::cout, std::cerr);
  return kUsageError;
}

std::string CommandLine::ParseWords(std::vector<std::string> words) {
  // CLI11 takes them from the back.
  std::vector<std::string> backwards(words.rbegin(), words.rend());
  try {
    app_->parse(backwards);
  } catch (const CLI::ParseError& thrown) {
    return thrown.what();
  }
  return "";
}

template Option Command::AddOption(const std::string&, std::string&, const std::string&);
template Option Command::AddOption(const std::string&, int&, const std::string&);
template Option Command::AddOption(const std::string&, int64_t&, const std::string&);
template Option Command::AddOption(const std::string&, double&, const std::string&);
template Option Command::AddOption(const std::string&, std::optional<std::string>&,
                                   const std::string&);
template Option Command::AddOption(const std::string&, std::optional<bool>&, const std::string&);
template Option Command::AddOption(const std::string&, std::optional<int>&, const std::string&);
template Option Command::AddOption(const std::string&, std::optional<int64_t>&, const std::string&);
template Option Command::AddOption(const std::string&, std::vector<std::string>&,
                                   const std::string&);
template Option Command::AddOption(const std::string&, std::vector<int>&, const std::string&);

}  // namespace parplan::shell
