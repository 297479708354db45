#include "clients/import/launch_script.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "clients/import/shell_text.h"
#include "tests/clients/import/launch_script_cases.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ReadLaunchScript, ReadsTheFormOfMegatronsExamples) {
  ASSERT_OK_AND_ASSIGN(const LaunchCommand command, ReadScript(R"(#!/bin/bash
# A comment with 'one quotation mark.
export CUDA_DEVICE_MAX_CONNECTIONS=1
GPUS_PER_NODE=8
NUM_NODES=4
MASTER_ADDR=$(scontrol show hostnames "$LIST" | head -n 1)
SAVE=$1 #<path>
DISTRIBUTED_ARGS=(
    --nproc_per_node $GPUS_PER_NODE
    --nnodes $NUM_NODES   # a comment in an array
    --master_addr $MASTER_ADDR
)
ARGS=(
    --size 96 --name 'a b'
)
ARGS+=( --more )
torchrun ${DISTRIBUTED_ARGS[@]} pretrain_gpt.py \
    ${ARGS[@]} \
    --save $SAVE "$@" > log 2>&1
)"));
  EXPECT_EQ(command.program, "pretrain_gpt.py");
  EXPECT_EQ(command.device_count, 32);
  // Elements of an array that is not quoted are split again, as a shell does.
  EXPECT_THAT(command.arguments,
              ElementsAre("--size", "96", "--name", "a", "b", "--more", "--save", "$1"));
  EXPECT_THAT(command.notes, ElementsAre(HasSubstr("`$@`"), HasSubstr("--save $1")));
}

TEST(ReadLaunchScript, FindsTheCommandInsideWords) {
  ASSERT_OK_AND_ASSIGN(const LaunchCommand command, ReadScript(R"(
OPTIONS=" --size 3 \
  --name x "
run_cmd="python -u ${DIR}/pretrain.py ${OPTIONS}"
srun -l --output=%x.log sh -c "${run_cmd}"
)"));
  EXPECT_EQ(command.program, "$DIR/pretrain.py");
  EXPECT_THAT(command.arguments, ElementsAre("--size", "3", "--name", "x"));
  EXPECT_EQ(command.device_count, std::nullopt);
}

TEST(ReadLaunchScript, ExpandsAsAShellDoes) {
  EXPECT_EQ(Arguments("A='x  y'", "$A \"$A\" --a '$A' --b \\$A"), "x|y|x  y|--a|$A|--b|$A");
  EXPECT_EQ(Arguments("A=(1 '2 3')", "\"${A[@]}\" $A ${A}"), "1|2 3|1|1");
  EXPECT_EQ(Arguments("A=1; A+=2", "$A"), "12");
  EXPECT_EQ(Arguments("A=4 B=$((A * (3 + 2) - 7 / 2 % 2))", "$B $(( $B + ${A} ))"), "19|23");
  EXPECT_EQ(Arguments("", "${N:-5} ${N-6} \"${N:-a b}\""), "5|6|a b");
  EXPECT_EQ(Arguments("N=7", "${N:-5}"), "7");
  EXPECT_EQ(Arguments("N=", "${N:-5}"), "5");
  EXPECT_EQ(Arguments("EMPTY=", "a $EMPTY b \"$EMPTY\""), "a|b|");
  EXPECT_EQ(Arguments("A=1\nA=2", "x$A-${A}y"), "x2-2y");
  EXPECT_EQ(Arguments("cat <<EOF > f\nA=2 ) '\nEOF\nA=1", "$A"), "1");
  EXPECT_EQ(Arguments("f() {\n A=2\n}\nB=1", "$B"), "1");
}

TEST(ReadLaunchScript, KeepsWhatOnlyARunKnows) {
  // A value of an argument may stay open; the reader of that argument decides.
  EXPECT_EQ(Arguments("if ls; then\n A=2\nfi", "--a $A"), "--a|$A");
  EXPECT_EQ(Arguments("for A in 1 2; do echo; done", "--a $A"), "--a|$A");
  EXPECT_EQ(Arguments("A=$(date)", "--a \"$A\""), "--a|${(date)}");
  EXPECT_EQ(Arguments("A=1\nif ls; then A+=2; fi", "--a $A"), "--a|$A");
  EXPECT_EQ(Arguments("A=1\nls || A=2", "--a $A"), "--a|$A");
  EXPECT_EQ(Arguments("A=$5\nif [ $A = x ]; then B=1; fi", "--b $B"), "--b|$B");
  EXPECT_EQ(Arguments("if [ -f x ]; then A=1; elif [ 1 -eq 2 ]; then A=2; else A=3; fi", "--a $A"),
            "--a|$A");
  EXPECT_EQ(Arguments("A=ab\nif [[ $A == a* ]]; then A=2; fi", "--a $A"), "--a|$A");
  EXPECT_EQ(Arguments("A=1\nif ! [[ 1 == 1 && 1 == 1 ]]; then A=2; fi", "--a $A"), "--a|$A");
  EXPECT_EQ(Arguments("A=1\nif [[ 1 == 2 && -f x || 1 == 1 ]]; then A=2; fi", "--a $A"), "--a|$A");
  EXPECT_EQ(Arguments("", "--a $((B + 1)) --b $((1 / 0)) --c $((99999 * 99999))"),
            "--a|${((B + 1))}|--b|${((1 / 0))}|--c|${((99999 * 99999))}");
}

TEST(ReadLaunchScript, RefusesVariablesThatMayHoldArguments) {
  for (const char* const words : {"${A[@]}", "--a ${A[@]}", "$A", "--a 1 $A", "\"${A[*]}\""}) {
    EXPECT_THAT(Arguments("", words),
                AllOf(HasSubstr("run.sh: line 2: does not set"), HasSubstr("`$")))
        << words;
  }
  EXPECT_THAT(Arguments("if ls; then A=(--x); fi", "${A[@]}"), HasSubstr("does not set"));
}

// Each condition is one that the text decides.
TEST(ReadLaunchScript, TakesTheBranchesThatTheTextDecides) {
  const std::string arms = "; then A=1; else A=2; fi";
  for (const char* const holds :
       {"true", "[ x ]", "[ -n x ]", "[ -z '' ]", "test a = a", "[[ a == a ]]", "[ 3 -gt 2 ]",
        "[ 2 -le 2 ]", "! false", "[ ! -n '' ]", "! [ a = b ]", "[[ -z $UNSET ]]", "[ -z \"$1\" ]",
        "[[ a == b ]] || [[ a == a ]]", "[[ a == b || a == a ]]", "[[ a == a && 1 -lt 2 ]]",
        "[ -f x ] || true", "[ a = a ] &&\n [ b = b ]"}) {
    EXPECT_EQ(Arguments(absl::StrCat("if ", holds, arms), "--a $A"), "--a|1") << holds;
  }
  for (const char* const fails :
       {"false", "[ '' ]", "[ -z x ]", "[[ a != a ]]", "[ 3 -ne 3 ]", "! true", "[[ -n $UNSET ]]",
        "[ -f x ] && false", "[[ a == b && a == a ]]", "[[ -f x && a == b ]]"}) {
    EXPECT_EQ(Arguments(absl::StrCat("if ", fails, arms), "--a $A"), "--a|2") << fails;
  }
  const std::string sizes = "if [ $S = a ]; then A=1\nelif [ $S = b ]; then A=2\nelse A=3\nfi";
  EXPECT_EQ(Arguments("S=a\n" + sizes, "$A"), "1");
  EXPECT_EQ(Arguments("S=b\n" + sizes, "$A"), "2");
  EXPECT_EQ(Arguments("S=c\n" + sizes, "$A"), "3");
  // Within a branch that is not taken nothing is.
  EXPECT_EQ(Arguments("A=1\nif false; then\n if true; then A=2; fi; A=3\nfi", "$A"), "1");
  EXPECT_EQ(Arguments("A=1\nif ls; then\n if true; then A=2; fi\nfi", "--a $A"), "--a|$A");
  EXPECT_EQ(Arguments("A=1\n[ a = b ] && A=2\n[ a = a ] && A+=3", "$A"), "13");
  EXPECT_EQ(Arguments("A=1\n[ a = a ] || A=2\ncd x && A+=3", "$A"), "13");
  EXPECT_EQ(Arguments("if false; then python a.py --size 3; fi", "x"), "x");
  EXPECT_EQ(Arguments(": ${A:=2} \"${B=3}\"\nA=${A:=5}", "$A $B"), "2|3");
  EXPECT_EQ(Arguments("A=${2:-MOCK}", "$A"), "MOCK");
}

TEST(ReadLaunchScript, TakesTheArmOfCaseThatMatches) {
  const std::string sizes =
      "case $S in\n  a|b) A=1 ;;\n  (c*) A=2\n;;\n  \"d e\") A=3;;\n  *) A=4 ;;\nesac";
  EXPECT_EQ(Arguments("S=a\n" + sizes, "$A"), "1");
  EXPECT_EQ(Arguments("S=b\n" + sizes, "$A"), "1");
  EXPECT_EQ(Arguments("S=cd\n" + sizes, "$A"), "2");
  EXPECT_EQ(Arguments("S='d e'\n" + sizes, "$A"), "3");
  EXPECT_EQ(Arguments("S=x\n" + sizes, "$A"), "4");
  EXPECT_EQ(Arguments("S=$(date)\n" + sizes, "--a $A"), "--a|$A");
  EXPECT_EQ(Arguments("A=0\ncase x in x) (A=9); A=1;; *) A=2;; esac", "$A"), "1");
  EXPECT_EQ(Arguments("A=0\ncase x in [xy]) A=1;; *) A=2;; esac", "--a $A"), "--a|$A");
  EXPECT_EQ(Arguments("A=0\ncase x in x) A=1;& y) A=2;; esac", "--a $A"), "--a|$A");
  EXPECT_EQ(Arguments("A=0\nif false; then case x in x) A=1;; esac; fi", "$A"), "0");
}

TEST(ReadLaunchScript, KeepsWhatAnotherProcessSetsApart) {
  EXPECT_EQ(Arguments("A=1\n(A=2; cd x)", "$A"), "1");
  EXPECT_EQ(Arguments("A=1\n( (A=2); A+=3 )\nA+=4", "$A"), "14");
  EXPECT_EQ(Arguments("A=1\nA=2 ./other.sh", "$A"), "1");
  EXPECT_EQ(Arguments("A=1\nexport A=2 B=3 C", "$A$B"), "23");
  EXPECT_EQ(Arguments("A=1\nA=2 B=3", "$A$B"), "23");
  ASSERT_OK_AND_ASSIGN(const LaunchCommand command,
                       ReadScript("A=1\nA=2 bash -c 'python x.py --size $A'"));
  EXPECT_THAT(command.arguments, ElementsAre("--size", "2"));
}

TEST(ReadLaunchScript, ForgetsWhatCommandsOfTheShellSet) {
  for (const char* const setter :
       {"read A", "let A=A+1", "let \"A = 3\"", "((A += 1))", "(( A++ ))", "printf -v A 3",
        "readarray -t A < x", "[ -f x ] && unset A"}) {
    EXPECT_EQ(Arguments(absl::StrCat("A=1\n", setter), "--a $A"), "--a|$A") << setter;
  }
  EXPECT_EQ(Arguments("A=1\nprintf A; echo A", "$A"), "1");
  EXPECT_EQ(Arguments("A=1\nunset A", "${A:-2}"), "2");
  ASSERT_OK_AND_ASSIGN(const LaunchCommand command,
                       ReadScript("source ${D}/env.sh\n. b.sh\npython a.py --size 1"));
  EXPECT_THAT(command.notes, ElementsAre(HasSubstr("sources them: $D/env.sh, b.sh;")));
}

TEST(ReadLaunchScript, ComputesTestsOfNumbers) {
  const std::string arms = ")); then A=1; else A=2; fi";
  for (const char* const holds : {"N > 3", "N == 4", "$N >= 4", "N != 5", "N % 2 == 0", "N"}) {
    EXPECT_EQ(Arguments(absl::StrCat("N=4\nif (( ", holds, arms), "$A"), "1") << holds;
  }
  for (const char* const fails : {"N < 3", "N <= 3", "N - 4", "(N + 1) * 2 > 10"}) {
    EXPECT_EQ(Arguments(absl::StrCat("N=4\nif (( ", fails, arms), "$A"), "2") << fails;
  }
  EXPECT_EQ(Arguments("if (( N > 3 && 1" + arms, "--a $A"), "--a|$A");
  // Scripts of Pai-Megatron-Patch set so whether communication overlaps.
  EXPECT_EQ(Arguments("N=4", "$(( ($N > 1) ? 1 : 0 )) $((N == 1 ? 2 : N > 9 ? 3 : (N < 5) + 6))"),
            "1|7");
  EXPECT_EQ(Arguments("", "--a $((N > 1 ? 1 : 0)) --b $((1 ? 2)) --c $((1 ? 2 : M))"),
            "--a|${((N > 1 ? 1 : 0))}|--b|${((1 ? 2))}|--c|${((1 ? 2 : M))}");
  EXPECT_EQ(Arguments("for (( i = 0; i < 2; i++ )); do A=1; done", "--a $A"), "--a|$A");
}

TEST(ReadLaunchScript, ComputesElementsLengthsAndNamesBehindNames) {
  const std::string array = "A=(4 8 16)\nI=1\nN=A_NAME\nA_NAME=x9\n";
  EXPECT_EQ(Arguments(array, "--a ${A[1]} --b ${A[I+1]} --c ${A[$I]} --d ${A[-1]}"),
            "--a|8|--b|16|--c|8|--d|16");
  EXPECT_EQ(Arguments(array, "--a ${#A[@]} --b ${#A_NAME} --c ${!N} --d ${A_NAME%9}"),
            "--a|3|--b|2|--c|x9|--d|x");
  EXPECT_EQ(Arguments(array, "--a ${A[7]} --b 1"), "--a|--b|1");
  // Not known: another variable, an index that nothing sets, keys, names of unknown variables.
  for (const char* unknown :
       {"${B[1]}", "${A[J]}", "${#B}", "${!B}", "${!A_NAME}", "${A_NAME@Q}", "${A_NAME%$X}"}) {
    EXPECT_EQ(Arguments(array, absl::StrCat("--a ", unknown)), absl::StrCat("--a|", unknown));
  }
  EXPECT_EQ(Arguments("declare -A M=([a]=4 [b]=8)", "--a ${M[a]}"), "--a|${M[a]}");
  EXPECT_EQ(Arguments("M=([2]=4 8)", "--a ${M[0]}"), "--a|${M[0]}");
  EXPECT_EQ(Arguments("M=(1 2)\nM=([1]=$1)", "--a ${M[0]}"), "--a|${M[0]}");
}

TEST(ReadLaunchScript, FollowsSetAndForgetsWhatItDoesNotCompute) {
  EXPECT_EQ(Arguments("set -- 4 8", "--a $1 --b $2 --c ${1:-9}"), "--a|4|--b|8|--c|4");
  EXPECT_EQ(Arguments("set -- 4 8\nshift", "--a $1 --b ${2:-3}"), "--a|8|--b|3");
  EXPECT_EQ(Arguments("set -- 4 8 9\nshift 2", "\"$@\""), "9");
  EXPECT_EQ(Arguments("set -- 4 8\nshift 3", "--a $1"), "--a|4");
  EXPECT_EQ(Arguments("set -- 4 8\nif ls; then shift; fi", "--a $1"), "--a|$1");
  EXPECT_EQ(Arguments("set -- 4 8\nshift $N", "--a $1"), "--a|$1");
  EXPECT_EQ(Arguments("set -- $(date)", "--a $1"), "--a|$1");
  EXPECT_EQ(Arguments("if [ -f x ]; then set -- 4; fi", "--a $1"), "--a|$1");
  EXPECT_EQ(Arguments("set -e -x", "--a $1"), "--a|$1");
  // `-i` computes what stands behind it.
  EXPECT_EQ(Arguments("N=1\ndeclare -i N=2+3", "--a $N"), "--a|$N");
  EXPECT_EQ(Arguments("N=1\ndeclare -gi N=2+3", "--a $N"), "--a|$N");
  EXPECT_EQ(Arguments("declare -i N=4", "--a $N"), "--a|4");
  EXPECT_EQ(Arguments("N=1\ndeclare -i N+=4", "--a $N"), "--a|$N");
  EXPECT_EQ(Arguments("declare -x N=2", "--a $N"), "--a|2");
}

// A shell makes several elements of these, so they are not counted.
TEST(ReadLaunchScript, DoesNotCountElementsThatAShellMultiplies) {
  for (const char* const array :
       {"A=({0..7})", "A=(node{1..4})", "A=(/etc/host*)", "IFS=','\nD=1,2\nA=($D x*)",
        "A=(1 2)\nA+=(x?)", "P='*'\nA=($P 2)", "A=(~ 2)", "shopt -s nullglob\nA=([a]*)"}) {
    for (const char* const read : {"${#A[@]}", "${A[1]}", "${A:-3}", "${A%x}"}) {
      EXPECT_EQ(Arguments(array, absl::StrCat("--a x", read)), absl::StrCat("--a|x", read))
          << array;
    }
  }
  EXPECT_EQ(Arguments("A=('*' \"{1..2}\" \\~)", "--a ${#A[@]}"), "--a|3");
  EXPECT_EQ(Arguments("IFS=,\nD=1,2\nA=($D)", "--a x${#A[@]} --b $A"), "--a|x${#A[@]}|--b|$D");
  EXPECT_EQ(Arguments("IFS=,\nD=1,2\nE=12", "--a $D --b \"$D\" --c $E"), "--a|$D|--b|1,2|--c|12");
  EXPECT_EQ(Arguments("A=1,2\nIFS=, read B <<< x", "--a $A"), "--a|1,2");
  EXPECT_EQ(Arguments("set -- x*", "--a $1"), "--a|$1");
  EXPECT_EQ(Arguments("set -- 'x*' 2", "--a $2"), "--a|2");
}

TEST(ReadLaunchScript, ForgetsAnArrayOfWhichAnElementIsSet) {
  for (const char* const setter : {"A[1]=9", "A[$I]=9", "A[0]+=9", "A[ 1 ]=9", "declare A[1]=9",
                                   "declare -g A[1]=9", "unset A[1]"}) {
    EXPECT_EQ(Arguments(absl::StrCat("A=(2 4)\n", setter), "--a ${A[0]} --b x${#A[@]}"),
              "--a|${A[0]}|--b|x${#A[@]}")
        << setter;
  }
  EXPECT_EQ(Arguments("A=2\nA[0]=8", "--a $A"), "--a|$A");
  EXPECT_EQ(Arguments("A=2\nif false; then A[0]=8; fi", "--a $A"), "--a|2");
  EXPECT_EQ(Arguments("A=2\nunset -f A", "--a $A"), "--a|$A");
}

TEST(ReadLaunchScript, KnowsThePositionsOfFunctionsButNotOfInnerLines) {
  for (const char* const head : {"f() {", "function f {", "function f() {", "f()\n{", "f() ("}) {
    const std::string end = absl::EndsWith(head, "(") ? ")" : "}";
    const auto command = ReadScript(
        absl::StrCat("set -- 4 8\n", head, "\n python a.py --size $1 --b ${2:-3} --c ${3:-5}\n",
                     end, "\nf 9\n"));
    ASSERT_OK(command.status()) << head;
    EXPECT_THAT(command->arguments, ElementsAre("--size", "9", "--b", "3", "--c", "5")) << head;
    EXPECT_EQ(Arguments(absl::StrCat("set -- 4\n", head, "\n shift\n set -- 7\n", end, "\nf 1"),
                        "--a $1"),
              "--a|4");
  }
  EXPECT_EQ(Arguments("function f {\n B=2\n}\nB=1\nfunction g {\n B=2\n}", "--a $B"), "--a|1");
  EXPECT_EQ(Arguments("f() {\n x\n}", "--a ${1:-3}"), "--a|3");
  ASSERT_OK_AND_ASSIGN(const LaunchCommand command,
                       ReadScript("set -- 4\nbash -c 'python x.py --size $1' _ 8"));
  EXPECT_THAT(command.arguments, ElementsAre("--size", "$1"));
}

TEST(ReadLaunchScript, FollowsAllFormsOfSet) {
  const std::string ten = "set -- 1 2 3 4 5 6 7 8 9 16";
  EXPECT_EQ(Arguments(ten, "--a ${10:-2} --b $10 --c ${11:-3}"), "--a|16|--b|10|--c|3");
  EXPECT_EQ(Arguments(ten + "\nset -- 1", "--a ${10:-2}"), "--a|2");
  EXPECT_EQ(Arguments(ten + "\nshift", "--a ${10:-2} --b $9"), "--a|2|--b|16");
  for (const char* const setter : {"set 8", "set -e -- 8", "set -ex -- 8", "set -ex 8", "set - 8",
                                   "set -o pipefail 8", "set -euo pipefail -- 8", "set +x 8"}) {
    EXPECT_EQ(Arguments(absl::StrCat("set -- 4\n", setter), "--a $1"), "--a|8") << setter;
  }
  for (const char* const other : {"set", "set -e", "set -o pipefail", "set -", "set +x"}) {
    EXPECT_EQ(Arguments(absl::StrCat("set -- 4\n", other), "--a $1"), "--a|4") << other;
  }
  for (const char* const unknown :
       {"eval set -- \"$X\"", "eval \"set -- $X\"", "set $X", "set \"-e\" 8", "set -- $(date)"}) {
    EXPECT_EQ(Arguments(absl::StrCat("set -- 4\n", unknown), "--a ${1:-2}"), "--a|${1:-2}")
        << unknown;
  }
  EXPECT_EQ(Arguments("set -- 4 5", "--a \"$@\" --b \"$*\""), "--a|4|5|--b|4 5");
  EXPECT_THAT(Arguments("set -- \"$@\" --b 1", "\"$@\""), HasSubstr("does not set `${@}`"));
  EXPECT_EQ(Arguments("(set -- 4)", "--a ${1:-2}"), "--a|2");
}

TEST(ReadLaunchScript, DoesNotTakeOctalNumbersAsDecimal) {
  EXPECT_EQ(Arguments("A=(1 2 3 4 5 6 7 8 9)\nI=010", "--a ${A[I]} --b $((010)) --c $((I + 1))"),
            "--a|${A[I]}|--b|${((010))}|--c|${((I + 1))}");
  EXPECT_EQ(Arguments("N=123456789abc", "--a ${N:010} --b ${N:+4} --c $((0))"),
            "--a|${N:010}|--b|${N:+4}|--c|0");
  EXPECT_EQ(Arguments("A=1\nif [[ 010 -eq 8 ]]; then A=2; fi", "--a $A"), "--a|$A");
}

TEST(ReadLaunchScript, KeepsWhatADeclarationSaysOfAVariable) {
  EXPECT_EQ(Arguments("declare -A M\nM=(a 4 b 8)", "--a ${M[0]} --b x${#M[@]}"),
            "--a|${M[0]}|--b|x${#M[@]}");
  EXPECT_EQ(Arguments("declare -i N\nN=2+3", "--a $N"), "--a|$N");
  EXPECT_EQ(Arguments("declare -i N=4\nN=2+3", "--a $N"), "--a|$N");
  EXPECT_EQ(Arguments("declare -i N\nN=4\nN+=1", "--a $N"), "--a|$N");
  EXPECT_EQ(Arguments("declare -i N\nN=5", "--a $N"), "--a|5");
  EXPECT_EQ(Arguments("declare -u N\nN=a", "--a $N"), "--a|$N");
  EXPECT_EQ(Arguments("N=a\ndeclare -p N", "--a $N"), "--a|a");
}

TEST(ReadLaunchScript, TakesTheFirstElementAndEmptyWordsAsAShellDoes) {
  EXPECT_EQ(Arguments("A=(2 4)\nB=A", "--a ${!B} --b ${A:-3} --c ${A-3}"), "--a|2|--b|2|--c|2");
  EXPECT_EQ(Arguments("N=\nA=()", "--a ${N-5}x ${A-5}"), "--a|x|5");
  EXPECT_EQ(Arguments("A=(2 4)", "--a \"${A[9]}\" --b ${A[9]} --c \"${A[*]}\""),
            "--a||--b|--c|2 4");
  EXPECT_EQ(Arguments("A=()", "--a \"${A[@]}\" --b"), "--a|--b");
  EXPECT_EQ(Arguments("N=\xc3\xa9", "--a ${#N}"), "--a|${#N}");
}

// `;;&` goes on with the patterns behind it.
TEST(ReadLaunchScript, DoesNotEndACaseAtAnArmThatGoesOn) {
  const std::string arms = "case ab in\n  a*) A=1 ;;&\n  *b) A=2 ;;\n  *) A=3 ;;\nesac";
  EXPECT_EQ(Arguments(arms, "--a $A"), "--a|$A");
  EXPECT_EQ(Arguments("A=0\ncase ab in\n  a*) A=1 ;;&\n  c) A=2 ;;\nesac", "--a $A"), "--a|1");
}

TEST(ReadLaunchScript, SaysWhichVariablesItTakesAsEmpty) {
  ASSERT_OK_AND_ASSIGN(const LaunchCommand command, ReadScript(R"(
LOGGING_ARGS=(--log-interval 1)
if [ -n "${WANDB_API_KEY}" ]; then
    LOGGING_ARGS+=(--wandb-project x)
fi
torchrun train.py --size 1 ${LOGGING_ARGS[@]}
)"));
  EXPECT_THAT(command.arguments, ElementsAre("--size", "1", "--log-interval", "1"));
  EXPECT_THAT(command.notes, ElementsAre(HasSubstr("count as empty: WANDB_API_KEY.")));
}

TEST(ReadLaunchScript, RefusesBadInput) {
  const auto refuse = [](const std::string& text, const std::string& part) {
    EXPECT_THAT(ReadScript(text).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(part)))
        << text.substr(0, 80);
  };
  refuse("", "has no command that starts a Python program with --size");
  refuse("python train.py --other 1", "has no command");
  refuse("echo --size 1", "has no command");
  refuse("python a.py --size 1\npython b.py --size=2", "starts 2 Python programs");
  refuse("python a.py --size '1", "ends inside a quotation");
  refuse("python a.py --size \"1", "ends inside a quotation");
  refuse("A=(1 2\npython a.py --size 1", "ends inside a quotation or a parenthesis");
  refuse("A=(B=(C=(1)))\npython a.py --size 1", "ends inside");
  refuse("A=${B", "ends inside");
  refuse("A=`date", "ends inside");
  // Doubles 40 times.
  std::string bomb = "A=xxxxxxxxxxxxxxxx\n";
  for (int i = 0; i < 40; ++i) bomb += "A=$A$A\n";
  refuse(bomb + "python a.py --size 1", "expands to too much text");
  // Nested deeper than anything that people write: no value, and no crash.
  std::string nested;
  std::string sums;
  for (int i = 0; i < 20000; ++i) {
    nested += "${A:-";
    sums += '(';
  }
  nested += std::string(20000, '}');
  EXPECT_OK(ReadScript("python a.py --size " + nested));
  EXPECT_OK(ReadScript("python a.py --size $((" + sums + "1" + std::string(20000, ')') + "))"));
}

TEST(SplitShellText, TakesEveryTruncation) {
  const std::string text =
      "A=(1 \"$B\" '2') ; x && y | z <<E >f 2>&1\n E\nE\n`q` $((1)) ${a:-\"b\"} \\\n \\";
  for (size_t size = 0; size <= text.size(); ++size) (void)SplitShellText(text.substr(0, size));
  EXPECT_TRUE(SplitShellText("a b").has_value());
  EXPECT_FALSE(SplitShellText("a 'b").has_value());
}

// A script may leave arguments to its caller: the error has the line, and a line that helps.
TEST(ReadLaunchScript, SaysWhereArgumentsAreLackingAndWhatToWrite) {
  const std::string begin = "#!/bin/bash\nTP=1\n";
  const std::string command = "torchrun train.py --micro-batch-size 1 ";
  const auto fault = [&](const std::string& word) {
    return ReadLaunchScript({"run.sh", absl::StrCat(begin, command, word, "\n")},
                            "--micro-batch-size")
        .status();
  };
  EXPECT_THAT(
      fault("${EXTRA_ARGS[@]}"),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("run.sh: line 3: does not set `${EXTRA_ARGS[@]}`"),
                     HasSubstr("or a line `EXTRA_ARGS=()` before it if the run has none"))));
  EXPECT_THAT(fault("$EXTRA"), StatusIs(absl::StatusCode::kInvalidArgument,
                                        AllOf(HasSubstr("line 3"), HasSubstr("`EXTRA=\"\"`"))));
  for (const char* const line : {"EXTRA_ARGS=()\n", "EXTRA_ARGS=\"\"\n"}) {
    const bool is_array = line[11] == '(';
    ASSERT_OK_AND_ASSIGN(
        const LaunchCommand read,
        ReadLaunchScript(
            {"run.sh", absl::StrCat(begin, line, command,
                                    is_array ? "${EXTRA_ARGS[@]}" : "$EXTRA_ARGS", "\n")},
            "--micro-batch-size"));
    EXPECT_THAT(read.arguments, ElementsAre("--micro-batch-size", "1")) << line;
  }
}

}  // namespace
}  // namespace parplan
