// Truncated and odd launch scripts: each is a clear error, or leaves a variable unknown
// (launch_script.h).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <optional>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "clients/import/launch_script.h"
#include "clients/import/shell_groups.h"
#include "clients/import/shell_text.h"
#include "tests/clients/import/launch_script_cases.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(LaunchOddScripts, SayWhatDoesNotEnd) {
  const struct {
    const char* text;
    const char* error;
  } cases[] = {
      {"A='1", "ends inside a quotation or a parenthesis"},
      {"A=\"$(date", "ends inside a quotation or a parenthesis"},
      {"f() {\n A=2", "does not end what `{` begins: `}` is missing"},
      {"f() (\n A=2", "does not end what `(` begins: `)` is missing"},
      {"if true; then A=1", "does not end what `if` begins: `fi` is missing"},
      {"while true; do A=1", "does not end what `while` begins: `done` is missing"},
      {"for A in 1 2; do", "does not end what `for` begins: `done` is missing"},
      {"case x in x) A=1 ;;", "does not end what `case` begins: `esac` is missing"},
      {"if true; then { A=1; fi", "has a `fi` without `if` before it"},
      {"A=1; }", "has a `}` without `{` before it"},
      {"}", "has a `}` without `{` before it"},
      {"A=1\nfi", "has a `fi` without `if` before it"},
      {"done", "has a `done` without `for` or `while` before it"},
      {"esac", "has a `esac` without `case` before it"},
      {"A=1 )", "has a `)` without `(` before it"},
      {"A=1 ;;", "has a `;;` without `case` before it"},
      {"then A=1", "has a `then` without `if` before it"},
      {"do A=1", "has a `do` without `for` or `while` before it"},
      {"if true; then A=1; done; fi", "has a `done` without `for` or `while` before it"},
  };
  for (const auto& test : cases) {
    EXPECT_EQ(Arguments(test.text, "--a $A"), absl::StrCat("run.sh: ", test.error)) << test.text;
  }
}

// A run without options has none of them, so that their variables stay empty.
TEST(LaunchOddScripts, LeaveOutArgumentsOfBranchesThatAreNotTaken) {
  const std::string options = "if [ $X = none ]; then\n A=\" \\\n --a 2\"\n B+=(--b)\nfi";
  EXPECT_EQ(Arguments(options + "\nX=none", "--c $A \"${B[@]}\" 1"), "--c|1");
  EXPECT_EQ(Arguments("X=none\n" + options, "$A ${B[@]}"), "--a|2|--b");
  ASSERT_OK_AND_ASSIGN(const LaunchCommand command,
                       ReadScript("if false; then A='--a'; fi\n"
                                  "CMD=\"python train.py --size 1 $A\"\neval $CMD"));
  EXPECT_THAT(command.arguments, ElementsAre("--size", "1"));
  EXPECT_THAT(command.notes, ElementsAre(HasSubstr("does not take count as empty: $A.")));
  // These are set elsewhere, or hold no arguments.
  for (const char* const before :
       {"A=1\nif ls; then A=2; fi\nif false; then A=--a; fi",
        "if ls; then A=--b; fi\n[ a = b ] && A=--a", "if false; then A=--a; fi\nread A",
        "if false; then A=--a; fi\neval \"$N=2\"", "if false; then A=4; fi",
        "if ls; then A=--a; fi"}) {
    EXPECT_THAT(Arguments(before, "$A"), HasSubstr("does not set `$A`")) << before;
  }
}

TEST(LaunchOddScripts, TakeTwoLaunchersOfOneProgramAsOne) {
  const std::string program = "train.py --size 1 --b 2";
  ASSERT_OK_AND_ASSIGN(
      LaunchCommand command,
      ReadScript(absl::StrCat("if ls; then\n nsys profile torchrun --nproc_per_node 8 ", program,
                              "\nelse\n torchrun --nproc_per_node 8 ", program, "\nfi")));
  EXPECT_THAT(command.arguments, ElementsAre("--size", "1", "--b", "2"));
  EXPECT_EQ(command.device_count, 8);
  ASSERT_OK_AND_ASSIGN(
      command, ReadScript(absl::StrCat("if ls; then\n torchrun --nproc_per_node 8 ", program,
                                       "\nelse\n srun python ", program, "\nfi")));
  EXPECT_EQ(command.device_count, std::nullopt);
  EXPECT_THAT(ReadScript(absl::StrCat("python ", program, "\npython ", program, " --c")).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("starts 2 Python programs")));
}

TEST(LaunchOddScripts, DoNotSplitWhatIsNotKnown) {
  EXPECT_EQ(Arguments("A=$(( B * C ))\nD=\"--d $A --e\"", "--a $A $D"),
            "--a|${(( B * C ))}|--d|${(( B * C ))}|--e");
  EXPECT_EQ(Arguments("A=\"$(date +%s) x\"", "--a $A"), "--a|${(date +%s)}|x");
  // Text in single quotation marks, which begins as such an expansion and does not end.
  EXPECT_EQ(Arguments("A='${( x y'", "--a $A"), "--a|${(|x|y");
  EXPECT_EQ(Arguments("", "--a 1 $((B / 2))"), "--a|1|${((B / 2))}");
  for (const char* const words : {"--a 1 $(cat a.txt)", "$(cat a.txt)"}) {
    EXPECT_THAT(Arguments("", words), HasSubstr("does not set `${(cat a.txt)}`")) << words;
  }
  EXPECT_THAT(Arguments("A=\"$(cat a.txt)\"", "$A"), HasSubstr("does not set `${(cat a.txt)}`"));
}

TEST(LaunchOddScripts, SayHowArgumentsOfTheScriptAreGiven) {
  EXPECT_THAT(Arguments("if [ $1 = a ]; then A=--a; elif ls; then A=--b; fi", "$A"),
              HasSubstr("by a line `set -- ARGUMENTS` at its beginning"));
  EXPECT_THAT(Arguments("", "$A"), Not(HasSubstr("set --")));
}

// For example over the arguments of a script that is given none.
TEST(LaunchOddScripts, LeaveOutLoopsOverNoValues) {
  const std::string loop = "for A in \"$@\"; do\n K=$(echo $A)\n export \"$K\"=1\n B=2\ndone";
  EXPECT_EQ(Arguments("B=1\n" + loop, "--b $B"), "--b|$B");
  EXPECT_EQ(Arguments("B=1\nset --\n" + loop, "--b $B"), "--b|1");
  EXPECT_EQ(Arguments("set -- x\nB=1\n" + loop, "--b $B --c $C"), "--b|2|--c|$C");
  EXPECT_EQ(Arguments("B=1\nN=\nfor A in $N; do B=2; done", "--b $B"), "--b|1");
}

// There is no command `[1`.
TEST(LaunchOddScripts, FailATestWithoutItsBlank) {
  EXPECT_EQ(Arguments("A=1\nB=2\nif [$A = 1 ]; then B=3; fi", "$B"), "2");
  EXPECT_EQ(Arguments("A=1\nB=2\nif ! [$A = 1 ]; then B=3; fi", "$B"), "3");
}

// Words that look like signs of groups where a shell takes them as words.
TEST(LaunchOddScripts, TakeSignsAsWordsWhereAShellDoes) {
  for (const char* const odd : {"echo }",
                                "echo fi done esac",
                                "echo \"{\" ')' \\( \\)",
                                "ls | xargs -I {} echo {}",
                                "x=${A//(/_}",
                                "[[ ( a == b ) || -f x ]] || true",
                                "for ((i = 0; i < 2; i++)); do x; done",
                                "find . -name x -exec ls {} \\;",
                                "diff <(ls a) <(ls b)",
                                "exec > >(tee log) 2>&1",
                                "while read x; do y; done < <(ls | sort)",
                                "case x in (a|b) x ;; esac",
                                "case x in esac",
                                "case x in\n if) y ;;\n *)\n  case z in @(a|b)) ;; esac ;;\nesac",
                                "z=$(echo \":)\")",
                                "f() { x; }; function g { y; }",
                                "coproc { x; }",
                                "time { x; }",
                                "! { x; }",
                                "if ! x; then y; fi",
                                "until x; do y; done",
                                "((1 + (2)))",
                                "select i in a b; do x; done",
                                "x() if true; then y; fi",
                                "y=$(ls # it's\n)"}) {
    EXPECT_EQ(Arguments(odd, "--b 1"), "--b|1") << odd;
  }
}

TEST(LaunchOddScripts, DoNotDecideMatches) {
  for (const char* const test :
       {"[[ $X =~ ^a ]]", "[[ ab =~ a|b ]]", "[[ ab =~ ^(a|b)+$ ]]", "[[ ab =~ (a b) ]]",
        "[[ ab =~ (#) ]]", "[[ ! ab =~ [0-9] ]]", "[[ ab =~ \"a\" ]]"}) {
    EXPECT_EQ(Arguments(absl::StrCat("A=0\nif ", test, "; then A=1; else A=2; fi"), "--a $A"),
              "--a|$A")
        << test;
  }
  EXPECT_EQ(Arguments("[[ ab =~ (a) ]]", "--a ${BASH_REMATCH[1]} --b ${BASH_REMATCH:-3}"),
            "--a|${BASH_REMATCH[1]}|--b|${BASH_REMATCH:-3}");
  // Patterns of some shells are not computed.
  EXPECT_EQ(Arguments("A=0\ncase x in !(x)) A=1 ;; *) A=2 ;; esac", "--a $A"), "--a|$A");
}

TEST(LaunchOddScripts, LeaveOutHereDocuments) {
  for (const char* const document :
       {"cat <<EOF > file\nA=2\n}\nf() {\nit's ;;\nEOF", "cat <<EOF>file\nA=2\nEOF",
        "cat > file <<'EOF'\nA=2 $(\nEOF", "cat <<-EOF\n\tA=2\n\tEOF",
        "cat <<\"EOF\" | x\nA=2\nEOF", "cat <<EOF\n  EOF\nA=2\nEOF", "cat <<A <<B\nA=2\nA\nA=3\nB",
        "cat <<< A=2", "cat <<EOF\r\nA=2\r\nEOF\r"}) {
    EXPECT_EQ(Arguments(absl::StrCat("A=1\n", document), "--a $A"), "--a|1") << document;
  }
  // It ends with the file.
  EXPECT_THAT(Arguments("cat <<EOF\nA=2", "--a $A"), HasSubstr("has no command"));
}

// Cuts a script behind each of its letters. What is left is refused, or has the value that the
// whole script has, or leaves it open.
TEST(LaunchOddScripts, NoTruncationChangesAValue) {
  const std::string script = R"(A=1
f() {
  local B=2
  case "$1" in
    x|y) A=2 ;;
    *) return ;;
  esac
}
if [[ -n $X && $X =~ ^(a|b)$ ]]; then A=3; fi
for C in 1; do eval "A=4"; done
f z | tee "log" <<EOF
A=9
EOF
ARGS=(--size 1 --a "$A")
python train.py "${ARGS[@]}"
)";
  ASSERT_OK_AND_ASSIGN(const LaunchCommand whole, ReadScript(script));
  EXPECT_THAT(whole.arguments, ElementsAre("--size", "1", "--a", "4"));
  const std::string command = "\npython train.py --size 1 --a $A\n";
  for (size_t size = 0; size < script.size(); ++size) {
    const auto cut = ReadScript(script.substr(0, size));
    if (!cut.ok()) {
      EXPECT_THAT(std::string(cut.status().message()), StartsWith("run.sh: "));
    }
    const std::string arguments = Arguments(script.substr(0, size), "--a $A");
    if (!absl::StrContains(arguments, "run.sh: ")) {
      EXPECT_THAT(arguments, ::testing::AnyOf("--a", "--a|1", "--a|4", "--a|$A"))
          << script.substr(0, size);
    }
  }
}

// Deep groups and functions take no more than linear time and no stack.
TEST(LaunchOddScripts, TakeDeepGroups) {
  for (const char* const opening :
       {"{ ", "(", "if x; then ", "while x; do ", "f() { ", "case x in x) ", "for A in 1 2; do "}) {
    std::string script;
    for (int i = 0; i < 5000; ++i) absl::StrAppend(&script, opening, "\n");
    EXPECT_THAT(Arguments(script, "--a $A"), HasSubstr("is missing")) << opening;
  }
  std::string nested;
  for (int i = 0; i < 5000; ++i) absl::StrAppend(&nested, "for A in 1 2; do\n");
  for (int i = 0; i < 5000; ++i) absl::StrAppend(&nested, "done\n");
  EXPECT_THAT(Arguments(nested, "--a $A"), HasSubstr("has too many commands"));
}

}  // namespace
}  // namespace parplan
