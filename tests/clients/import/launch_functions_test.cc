// Functions, loops, `eval` and pipelines in launch scripts (launch_script.h).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "clients/import/launch_script.h"
#include "tests/clients/import/launch_script_cases.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(LaunchFunctions, SetWhatTheirBodiesSetOnceTheyAreCalled) {
  EXPECT_EQ(Arguments("A=1\nf() { A=2; }\nf", "--a $A"), "--a|2");
  EXPECT_EQ(Arguments("A=1\nf() { A=2; }", "--a $A"), "--a|1");
  EXPECT_EQ(Arguments("f() { A=2; }\nA=1\nf", "--a $A"), "--a|2");
  EXPECT_EQ(Arguments("f() { A=$1; }\nf 4 5", "--a $A"), "--a|4");
  EXPECT_EQ(Arguments("f() { A+=x; }\nA=\nf; f && f", "--a $A"), "--a|xxx");
  EXPECT_EQ(Arguments("f() { g; }\ng() { A=3; }\nf", "--a $A"), "--a|3");
  EXPECT_EQ(Arguments("A=1\nf() { A=2; }\nls || f", "--a $A"), "--a|$A");
  EXPECT_EQ(Arguments("A=1\nf() { A=2; }\nif ls; then f; fi", "--a $A"), "--a|$A");
  EXPECT_EQ(Arguments("A=1\nf() { A=2; }\nif false; then f; fi", "--a $A"), "--a|1");
  EXPECT_EQ(Arguments("f() { if [ $1 = x ]; then A=1; else A=2; fi; }\nf x", "--a $A"), "--a|1");
  // A later definition counts, and one that only a run makes leaves what it sets open.
  EXPECT_EQ(Arguments("f() { A=1; }\nf() { A=2; }\nf", "--a $A"), "--a|2");
  EXPECT_EQ(Arguments("A=0\nif ls; then f() { A=1; }; else f() { A=2; }; fi\nf", "--a $A"),
            "--a|$A");
  EXPECT_EQ(Arguments("if true; then f() { A=1; }; fi\nf", "--a $A"), "--a|1");
}

TEST(LaunchFunctions, KeepTheirLocalVariables) {
  for (const char* const local : {"local A=2", "local A; A=2", "declare A=2", "local -r A=2",
                                  "local \"A=2\"", "local -i A=2", "local -a A; A=(2)"}) {
    EXPECT_EQ(Arguments(absl::StrCat("A=1\nf() { ", local, "; B=$A; }\nf"), "--a $A"), "--a|1")
        << local;
  }
  EXPECT_EQ(Arguments("A=1\nf() { local A=2; B=$A; }\nf", "--b $B"), "--b|2");
  // Functions that it calls set its own.
  EXPECT_EQ(Arguments("A=1\ng() { A=3; }\nf() { local A=2; g; B=$A; }\nf", "--a $A --b $B"),
            "--a|1|--b|3");
  EXPECT_EQ(Arguments("A=1\nf() { declare -g A=2; }\nf", "--a $A"), "--a|$A");
  EXPECT_EQ(Arguments("A=1\nf() { if ls; then local A; fi; A=2; }\nf", "--a $A"), "--a|$A");
  EXPECT_EQ(Arguments("A=1\nf() { A=3; }\nA=2 f", "--a $A"), "--a|1");
  EXPECT_EQ(Arguments("A=1\nB=1\nf() { B=$A; }\nA=2 f", "--b $B"), "--b|2");
  EXPECT_EQ(Arguments("A=1\nf() { local -n R=A; R=2; }\nf", "--a $A"), "--a|$A");
}

TEST(LaunchFunctions, AreFoundHoweverTheirNamesAreWritten) {
  for (const char* const call : {"\"f\"", "\\f", "F=f; $F", "command f; f"}) {
    EXPECT_EQ(Arguments(absl::StrCat("A=1\nf() { A=2; }\n", call), "--a $A"), "--a|2") << call;
  }
  EXPECT_EQ(Arguments("A=1\nf() { A=2; }\ncommand f", "--a $A"), "--a|1");
  for (const char* const eval : {"command eval", "builtin eval", "\\eval", "\"eval\"", "$E"}) {
    EXPECT_EQ(Arguments(absl::StrCat("A=1\nE=eval\n", eval, " A=2"), "--a $A"), "--a|2") << eval;
  }
  for (const char* const word : {"command export", "\\export", "\"export\"", "$E"}) {
    EXPECT_EQ(Arguments(absl::StrCat("A=1\nE=export\n", word, " A=2"), "--a $A"), "--a|$A") << word;
  }
}

TEST(LaunchFunctions, MayFailOrBeTakenAway) {
  EXPECT_EQ(Arguments("A=1\nf() { return 1; }\nf && A=3", "--a $A"), "--a|$A");
  EXPECT_EQ(Arguments("A=1\nf() { g; }\ng() { false; }\nf && A=3", "--a $A"), "--a|$A");
  EXPECT_EQ(Arguments("A=1\nf() { A=2; }\nunset -f f\nf", "--a $A"), "--a|$A");
  EXPECT_EQ(Arguments("A=1\nf() { A=3; }\n(f() { A=2; })\nf", "--a $A"), "--a|$A");
  EXPECT_EQ(Arguments("A=2\ng() { unset A; }\nf() { local A=5; g; A=6; }\nf", "--a $A"), "--a|$A");
  EXPECT_EQ(Arguments("A=2\nB=A\nf() { local $B=5; A=6; }\nf", "--a $A"), "--a|$A");
}

TEST(LaunchFunctions, DeclareAllWordsByWhatWasSetBefore) {
  EXPECT_EQ(Arguments("A=1\nexport A=5 B=$A", "--a $A --b $B"), "--a|5|--b|1");
  EXPECT_EQ(Arguments("A=1\nf() { local A=5 B=$A; C=$B; }\nf", "--c $C"), "--c|1");
  EXPECT_EQ(Arguments("A=2\nf() { local A+=5; B=$A; }\nf", "--b $B"), "--b|5");
  EXPECT_EQ(Arguments("f() { g $@; }\ng() { A=$2; }\nf \"3 4\" 5", "--a $A"), "--a|4");
}

TEST(LaunchFunctions, EndWhereTheyReturn) {
  EXPECT_EQ(Arguments("A=1\nf() { return; A=2; }\nf", "--a $A"), "--a|1");
  EXPECT_EQ(Arguments("A=1\nf() { if true; then return 0; fi; A=2; }\nf", "--a $A"), "--a|1");
  EXPECT_EQ(Arguments("A=1\nf() { if ls; then return; fi; A=2; }\nf", "--a $A"), "--a|$A");
  EXPECT_EQ(Arguments("A=1\nf() { ls && return; A=2; }\nf\nB=3", "--a $A --b $B"), "--a|$A|--b|3");
}

TEST(LaunchFunctions, AreNotFollowedWithoutEnd) {
  EXPECT_EQ(Arguments("A=1\nf() { A=2; f; }\nf", "--a $A"), "--a|$A");
  EXPECT_EQ(Arguments("A=1\nf() { A=2; if ls; then f; fi; }\nf", "--a $A"), "--a|$A");
  // Each calls the one before it eight times.
  std::string script = "f0() { A=1; }\n";
  for (int i = 1; i < 16; ++i) {
    absl::StrAppend(&script, "f", i, "() {");
    for (int k = 0; k < 8; ++k) absl::StrAppend(&script, " f", i - 1, ";");
    absl::StrAppend(&script, " }\n");
  }
  EXPECT_THAT(Arguments(script + "f15", "--a $A"), HasSubstr("run.sh: has too many commands"));
}

TEST(LaunchFunctions, StartTheProgramWithTheirArguments) {
  const auto read = [](const std::string& text) {
    const auto command = ReadScript(text);
    EXPECT_OK(command.status()) << text;
    return command.ok() ? command->arguments : std::vector<std::string>();
  };
  EXPECT_THAT(read("run() { echo \"+ $@\"; \"$@\"; }\nrun torchrun a.py --size 1 --b 'x y'"),
              ElementsAre("--size", "1", "--b", "x y"));
  EXPECT_THAT(read("run() { torchrun a.py --size 1 \"$@\"; }\nrun --b 2"),
              ElementsAre("--size", "1", "--b", "2"));
  EXPECT_THAT(read("run() { shift; torchrun a.py --size 1 \"$@\"; }\nrun x --b 2"),
              ElementsAre("--size", "1", "--b", "2"));
  EXPECT_THAT(read("A=1\nrun() { python a.py --size $A; }\nA=2\nrun"), ElementsAre("--size", "2"));
  // Those of the script are handed on, and are not in the file.
  EXPECT_THAT(read("main() { python a.py --size 1 \"$@\"; }\nmain \"$@\""),
              ElementsAre("--size", "1"));
  EXPECT_THAT(read("run() { \"$@\"; }\nrun torchrun a.py --size $(date)"),
              ElementsAre("--size", "${(date)}"));
  // Nothing in the text calls it.
  EXPECT_THAT(read("A=1\nrun() { python a.py --size $A --b $1; }\n$1"),
              ElementsAre("--size", "1", "--b", "$1"));
  EXPECT_THAT(ReadScript("run() { python a.py --size 1 \"$@\"; }\nrun $(date)").status().message(),
              HasSubstr("does not set `${@}`"));
  EXPECT_THAT(ReadScript("bash -c 'python a.py --size 1 \"$@\"' _ --b 2").status().message(),
              HasSubstr("does not set `${@}`"));
}

TEST(LaunchLoops, OverOneValueRunOnce) {
  EXPECT_EQ(Arguments("for A in 4; do B=$A; done", "--a $A --b $B"), "--a|4|--b|4");
  EXPECT_EQ(Arguments("N='a b'\nfor A in \"$N\"; do B=$A; done", "--b \"$B\""), "--b|a b");
  EXPECT_EQ(Arguments("B=1\nfor A in 4; do break; B=2; done", "--b $B"), "--b|1");
  EXPECT_EQ(Arguments("B=1\nfor A in 4; do ls && continue; B=2; done", "--b $B"), "--b|$B");
  for (const char* const values : {"4 5", "$X", "*.sh", "{1..2}", "$(date)", "\"$@\""}) {
    EXPECT_EQ(Arguments(absl::StrCat("B=1\nfor A in ", values, "; do B=2; done"), "--a $A --b $B"),
              "--a|$A|--b|$B")
        << values;
  }
  EXPECT_EQ(Arguments("A=1\nfor A; do B=2; done", "--a $A"), "--a|$A");
  // A variable that a later round changes is unknown from the first round on.
  ASSERT_OK_AND_ASSIGN(
      const LaunchCommand command,
      ReadScript("A=1\nfor i in 1 2; do\n python a.py --size 1 --a $A\n A=2\ndone"));
  EXPECT_THAT(command.arguments, ElementsAre("--size", "1", "--a", "$A"));
  EXPECT_EQ(Arguments("A=1\nf() { A=2; }\nwhile ls; do f; done", "--a $A"), "--a|$A");
  EXPECT_EQ(Arguments("set -- 4 5\nwhile ls; do shift; done", "--a $1"), "--a|$1");
}

TEST(LaunchEval, ReadsTheTextThatItIsGiven) {
  EXPECT_EQ(Arguments("A=1\neval \"A=2\"", "--a $A"), "--a|2");
  EXPECT_EQ(Arguments("A=1\neval A=2", "--a $A"), "--a|2");
  EXPECT_EQ(Arguments("A=1\nN=A\neval \"$N=3; B=4\"", "--a $A --b $B"), "--a|3|--b|4");
  EXPECT_EQ(Arguments("A=1\neval 'B=$A'\nA=2", "--b $B"), "--b|1");
  EXPECT_EQ(Arguments("A=1\nls && eval A=2", "--a $A"), "--a|2");
  EXPECT_EQ(Arguments("A=1\nls || eval A=2", "--a $A"), "--a|$A");
  EXPECT_EQ(Arguments("set -- 4\neval set -- 8", "--a $1"), "--a|8");
  // Any variable may be that one, also one that was never set.
  EXPECT_EQ(Arguments("A=1\neval \"$X=2\"", "--a $A --b ${B:-5}"), "--a|$A|--b|${B:-5}");
  EXPECT_EQ(Arguments("A=1\neval 'A=2; (('", "--a $A"), "--a|$A");
  EXPECT_EQ(Arguments("A=1\nB='eval \"$B\"'\neval \"$B\"", "--a $A"), "--a|$A");
  ASSERT_OK_AND_ASSIGN(const LaunchCommand command,
                       ReadScript("eval \"$(conda shell.bash hook)\"\neval python a.py --size 1"));
  EXPECT_THAT(command.arguments, ElementsAre("--size", "1"));
  EXPECT_THAT(command.notes, ElementsAre(HasSubstr("evaluates it: $(conda shell.bash hook);")));
}

TEST(LaunchPipelines, SetNothingBehindThem) {
  EXPECT_EQ(Arguments("A=1\nA=2 | cat", "--a $A"), "--a|$A");
  EXPECT_EQ(Arguments("A=1\nf() { A=2; }\nf | tee x", "--a $A"), "--a|1");
  EXPECT_EQ(Arguments("A=1\n{ A=2; } 2>&1 | tee x", "--a $A"), "--a|1");
  EXPECT_EQ(Arguments("A=1\n{ A=2; } &", "--a $A"), "--a|1");
  EXPECT_EQ(Arguments("A=1\nls | while read x; do A=2; done", "--a $A"), "--a|1");
  EXPECT_EQ(Arguments("A=1\nif true; then A=2; fi | cat", "--a $A"), "--a|1");
  EXPECT_EQ(Arguments("A=1\n{ A=2; }", "--a $A"), "--a|2");
  EXPECT_EQ(Arguments("A=1\n{ false; } || A=2", "--a $A"), "--a|$A");
  EXPECT_EQ(Arguments("A=1\nB=$(false) || A=2", "--a $A"), "--a|$A");
}

TEST(LaunchDeclarations, SetWhatQuotationsAndOtherVariablesName) {
  EXPECT_EQ(Arguments("A=1\nexport \"A=2\"", "--a $A"), "--a|2");
  EXPECT_EQ(Arguments("A=1\nB=x\nexport \"A=$B\"", "--a $A"), "--a|x");
  for (const char* const setter : {"export \"$N=2\"", "declare $N=2", "read \"$N\"",
                                   "printf -v \"$N\" 2", "unset $N", "export $N"}) {
    EXPECT_EQ(Arguments(absl::StrCat("A=1\n", setter), "--a $A"), "--a|$A") << setter;
  }
  EXPECT_EQ(Arguments("A=1\nread -p \"$N\" B", "--a $A --b $B"), "--a|1|--b|$B");
  EXPECT_EQ(Arguments("read x", "--a ${REPLY:-4}"), "--a|${REPLY:-4}");
}

}  // namespace
}  // namespace parplan
