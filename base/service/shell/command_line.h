// Command lines: commands, options and the rules for their values.
//
//   CommandLine line("Counts the words of a file", "count");
//   std::string path;
//   int limit = 10;
//   line.AddOption("file", path, "The file").Required();
//   line.AddOption("--limit", limit, "Words to print [10]").Check(Between(1, 100));
//   if (const std::optional<int> exit_code = line.Parse(argc, argv)) return *exit_code;
//
// A thin layer over CLI11, which is headers only: every source that includes CLI11 takes 5 to 25
// seconds longer to compile, so command_line.cc and completion/command_tree.cc do it for all
// programs that need no more. `Command` and `Option` are handles: cheap to copy, valid as long as
// the CommandLine. Not thread-safe. Programs of commands (command_program.h) and
// `parplan-agent-probe` read their arguments by it alone; the server, the agent, the sidecar and
// `parplan-exec` use it beside CLI11.

#ifndef PARPLAN_BASE_SERVICE_SHELL_COMMAND_LINE_H_
#define PARPLAN_BASE_SERVICE_SHELL_COMMAND_LINE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace CLI {
class App;
class Option;
class ParseError;
class Validator;
}  // namespace CLI

namespace parplan::shell {

// A rule for the text of one value.
class ValueCheck {
 public:
  // `check` returns what is wrong with a text, as the end of a sentence, or an empty string.
  // `type_name` stands in the help, in capitals.
  ValueCheck(std::function<std::string(const std::string&)> check, const std::string& type_name);
  explicit ValueCheck(std::shared_ptr<const CLI::Validator> validator);

  // Returns what is wrong with `text`, or an empty string.
  std::string operator()(const std::string& text) const;

 private:
  friend class Option;
  std::shared_ptr<const CLI::Validator> validator_;
};

// A finite number above 0.
ValueCheck Positive();
// A finite number from 0 on.
ValueCheck NotNegative();
// A number from 0 to below 1.
ValueCheck Share();
// A number from 1e-6 to 0.5.
ValueCheck Risk();
// Any text but the empty one, which would read as if the flag were not given.
ValueCheck NotEmpty();
// A number, whole for the first, from `lowest` to `highest`, both included.
ValueCheck Between(int lowest, int highest);
ValueCheck Between(double lowest, double highest);
// One of these words, in the same case.
ValueCheck OneOf(std::vector<std::string> words);

// A flag, an option with a value, or an argument without a name. Setters return this handle, so
// that they can be chained.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  // Refuses a command line without the option; with false no longer.
  Option& Required(bool required = true);
  // Refuses values that break this rule, each with the rule's text.
  Option& Check(const ValueCheck& check);
  // Refuses this option without, or together with, `other`.
  Option& Needs(const Option& other);
  Option& Excludes(const Option& other);
  // Names the heading of the help under which the option is listed; empty hides it.
  Option& Group(const std::string& group);
  // Names the environment variable that is read if the option is not given.
  Option& Variable(const std::string& name);
  // Sets the help's name for the value, in capitals: FILE.
  Option& TypeName(const std::string& name);
  // Replaces the text of the help.
  Option& Help(const std::string& help);
  // Lets the help show the present value as the default, or `text`.
  Option& ShowDefault();
  Option& ShowDefault(const std::string& text);
  // Returns whether the command line that was read has the option, or its variable was set; false
  // before it is read.
  bool given() const;
  // Splits each value of a list at this character as well.
  Option& Delimiter(char delimiter);

 private:
  CLI::Option* option_;
};

// A command, or the program itself.
class Command {
 public:
  // Implicit: callers that use CLI11 themselves pass an App where a Command is taken.
  Command(CLI::App& app) : app_(&app) {}  // NOLINT(google-explicit-constructor)

  // Adds a command below this one. REQUIRES, here and for options: the name is not taken; CLI11
  // throws an exception otherwise.
  Command AddCommand(const std::string& name, const std::string& help);

  // Adds an option: `--name` or `-n,--name`; without dashes, an argument by its place. `value` must
  // live until the command line is parsed and stays as it is if the option is not given. A list
  // takes several values. `T` is one of the types instantiated at the end of command_line.cc:
  // string, int, int64_t, double; optional of string, bool, int, int64_t; vector of string, int.
  template <typename T>
  Option AddOption(const std::string& name, T& value, const std::string& help = "");

  // Adds an option whose text goes to `read` during the parsing, which returns what is wrong with
  // it, or an empty string.
  Option AddTextOption(const std::string& name, std::function<std::string(const std::string&)> read,
                       const std::string& help = "");

  // Adds an option that prints what `print` returns for its text and ends the program with exit
  // code 0, whatever else the command line has or lacks. Configuration files cannot set it.
  Option AddPrintOption(const std::string& name,
                        std::function<std::string(const std::string&)> print,
                        const std::string& help = "");

  // Adds an option that takes one of these words, each of which stands for a value. `value` must
  // live until the command line is parsed and stays as it is if the option is not given.
  template <typename T>
  Option AddChoice(const std::string& name, std::optional<T>& value,
                   const std::vector<std::pair<std::string, T>>& choices,
                   const std::string& help = "") {
    std::vector<std::string> words;
    for (const auto& [word, meaning] : choices) words.push_back(word);
    return AddTextOption(
               name,
               [&value, choices](const std::string& text) {
                 for (const auto& [word, meaning] : choices) {
                   if (word == text) value = meaning;
                 }
                 return std::string();
               },
               help)
        .Check(OneOf(std::move(words)));
  }

  // Adds a flag without a value: `--name`, or `--name,!--no-name` with its opposite. `value` must
  // live until the command line is parsed and stays as it is if the flag is not given.
  Option AddFlag(const std::string& name, bool& value, const std::string& help = "");

  // Return the option of this name, and remove it, after which its handles are invalid. REQUIRES:
  // there is one; CLI11 throws an exception otherwise.
  Option GetOption(const std::string& name) const;
  void RemoveOption(const std::string& name);

  // Returns the command of this name. REQUIRES: there is one; CLI11 throws an exception otherwise.
  Command GetCommand(const std::string& name) const;

  // Sets the text below the options of the help.
  Command& Footer(const std::string& text);
  // Refuses a command line that does not name exactly one of the commands below.
  Command& RequireCommand();
  // Lets options of the program follow the commands added from now on.
  Command& PassOptionsUp();
  // Lets options that are added from now on be given more than once; the last one counts.
  Command& TakeLast();
  // Makes `Parse` call `action` once all values are read, if the command line names this command.
  Command& OnChosen(std::function<void()> action);
  // Hides the command from the help; it accepts any arguments, `--help` included, and ignores them.
  Command& HideAndIgnoreArguments();

  // Return the name that the command was made with, and its whole help as `--help` prints it now.
  std::string name() const;
  std::string help() const;
  // The App of CLI11 that this handle stands for.
  const CLI::App& app() const { return *app_; }

 protected:
  CLI::App* app_;
};

// Arguments that can't be read.
struct ArgumentError {
  // The rule that was broken, such as `ValidationError`, or for `Refuse` the flag at fault.
  std::string kind;
  std::string message;
};

// Prints why the arguments of `program` could not be read to standard error, or what --help and
// --version ask for to standard output. Fills `error`, unless it is null, if it returns 2. A
// command line that lacks a command gets the list of those there are. Returns 0 after --help and
// --version, 1 if standard output is closed or its disk is full, else 2. For callers that use CLI11
// themselves.
int ExitAfter(const CLI::App& program, const CLI::ParseError& thrown,
              ArgumentError* error = nullptr);

// The command line of one program. Has -h and --help.
class CommandLine {
 public:
  // `description` and `name` begin the help; errors name the program by `name`.
  CommandLine(const std::string& description, const std::string& name);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  // Returns the program itself, to which options and commands are added.
  Command root();

  // Adds --version, which prints `text`.
  void SetVersion(const std::string& text);

  // Reads the arguments into the values of the options. Returns nothing if the program shall go on,
  // else what `ExitAfter` returns: 0 after --help or --version, 1 if these could not be printed; 2
  // for arguments that can't be read, empty texts among them, which it says on standard error and,
  // unless it is null, in `error`. Some values may be set then.
  std::optional<int> Parse(int argc, const char* const* argv, ArgumentError* error = nullptr);

  // Prints to standard error that the arguments, each readable, do not go together. Returns 2.
  int Refuse(const ArgumentError& error) const;

  // Reads the words after the name of the program. Returns what is wrong, or an empty string.
  // Prints nothing; for tests.
  std::string ParseWords(std::vector<std::string> words);

 private:
  const std::unique_ptr<CLI::App> app_;
};

}  // namespace parplan::shell

#endif  // PARPLAN_BASE_SERVICE_SHELL_COMMAND_LINE_H_
