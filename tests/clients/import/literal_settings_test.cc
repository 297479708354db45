#include "clients/import/literal_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"

namespace parplan {
namespace {

using ::nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Returns the settings as one object; what is not literal as the text `?`.
json AsObject(const std::vector<LiteralSetting>& settings) {
  json object = json::object();
  for (const LiteralSetting& setting : settings) {
    object[setting.path] = setting.is_literal ? setting.value : json("?");
  }
  return object;
}

json Toml(const std::string& text) {
  const auto settings = ReadTomlSettings({"a.toml", text});
  EXPECT_OK(settings);
  return settings.ok() ? AsObject(*settings) : json();
}

json Python(const std::string& text, const std::string& function = "") {
  const auto settings = ReadPythonSettings({"a.py", text}, function);
  EXPECT_OK(settings);
  return settings.ok() ? AsObject(*settings) : json();
}

TEST(ReadTomlSettings, ReadsEveryKindOfValue) {
  EXPECT_EQ(Toml(R"(
# A comment with a "text".
top = 1
[training]  # behind a section
local_batch_size = 8
big = 1_000_000
rate = -8e-4
name = "a\tb" # behind a value
path = 'C:\new'
long = """
two
lines"""
on = true
off = false
list = [
  1,
  [2, "x"],  # inside
]
table = {a = 1, b = "y"}
model.flavor = "8B"
[activation_checkpoint]
mode = "full"
)"),
            json::parse(R"({"top": 1, "training.local_batch_size": 8, "training.big": 1000000,
              "training.rate": -8e-4, "training.name": "a\tb", "training.path": "C:\\new",
              "training.long": "\ntwo\nlines", "training.on": true, "training.off": false,
              "training.list": [1, [2, "x"]], "training.table": {"a": 1, "b": "y"},
              "training.model.flavor": "8B", "activation_checkpoint.mode": "full"})"));
}

TEST(ReadTomlSettings, RefusesWithLineAndRule) {
  const auto refuse = [](const std::string& text, const std::string& part) {
    EXPECT_THAT(
        ReadTomlSettings({"a.toml", text}),
        StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr("a.toml"), HasSubstr(part))));
  };
  refuse("a = 1\na = 2", "line 2: sets `a` once more");
  refuse("[s]\nx = 1\n[s]\nx = 1", "line 4: sets `s.x` once more");
  refuse("a", "line 1: must be `name = value`");
  refuse("a = ", "line 1: has no value of `a`");
  refuse("a = b", "line 1: has no value of `a`");
  refuse("a = True", "line 1: has no value of `a`");
  refuse("a = 1 2", "line 1: has no value of `a`");
  refuse("\n\n[[runs]]", "line 3: must begin with a name");
  refuse("[s\na = 1", "ends inside brackets");
  refuse("[s] a = 1", "line 1: goes on behind its value");
  refuse("a = \"open", "line 1: leaves a text open");
  refuse("a = '''open\n", "leaves a text open");
  refuse("a = [1, 2", "ends inside brackets");
  refuse("a = 1]", "closes nothing");
  refuse("a = 2026-11-23", "line 1: has no value of `a`");
  refuse(absl::StrCat("a = ", std::string(40, '[')), "nests deeper than 32");
}

TEST(ReadPythonSettings, ReadsArgumentsAndAssignments) {
  EXPECT_EQ(Python(R"(
"""A text that says config.training.steps = 3."""
from torchtitan.trainer import Trainer

SIZES = dict(dim=256, tied=True)
LIST: list[str] = ["a", 'b' "c"]

def debug() -> Trainer.Config:
    model_spec = model_registry("debug")
    config = Trainer.Config(
        loss=Loss.Config(fn=CrossEntropy.Config(size=vocabulary(model_spec))),
        training=TrainingConfig(local_batch_size=2 * 4, seq_len=2_048, dtype="float32"),  # here
        parallelism=torchtitan.config.ParallelismConfig(
            tensor_parallel_degree=(8), module_fqns_per_model_part=[["norm"], ("x", 1)],
        ),
        activation_checkpoint=None,
        checkpoint=FullAC.Config(),
    )
    config.training.max_norm = -1.5
    config.parallelism.degree += 1
    if os.environ.get("X"):
        config.training.steps = 7
    return config
)"),
            json::parse(R"({"SIZES.dim": 256, "SIZES.tied": true, "LIST": ["a", "bc"],
              "model_spec": "?", "config": "?", "Trainer.Config.loss": "?", "Loss.Config.fn": "?",
              "Trainer.Config.training": "?", "Trainer.Config.parallelism": "?",
              "Trainer.Config.checkpoint": "?",
              "CrossEntropy.Config.size": "?", "TrainingConfig.local_batch_size": "?",
              "TrainingConfig.seq_len": 2048, "TrainingConfig.dtype": "float32",
              "torchtitan.config.ParallelismConfig.tensor_parallel_degree": 8,
              "torchtitan.config.ParallelismConfig.module_fqns_per_model_part":
                [["norm"], ["x", 1]],
              "Trainer.Config.activation_checkpoint": null, "FullAC.Config": null,
              "config.training.max_norm": -1.5, "config.parallelism.degree": "?",
              "config.training.steps": "?"})"));
}

// However a dictionary is written, its entries are settings, literal or not.
TEST(ReadPythonSettings, ReadsDictionariesOfAllForms) {
  EXPECT_EQ(Python(R"(
A = {"x": 1, "y": count, "z": {"u": 2, "v": count}}
B = dict(A, x=1)
C = dataclasses.replace(old.C, x=1)
D(**A, y=2)
E["x"] = 1
E["y"]["z"] = count
F = {"x": 1, **A}
G = {"x": 1} | A
H = dict(x=1) if big else A
I **= 2
K = dict()
L = {}
J == 3
)"),
            json::parse(R"({"A.x": 1, "A.y": "?", "z.u": 2, "z.v": "?", "B": "?", "B.x": 1,
              "C": "?", "C.x": 1, "D": "?", "D.y": 2, "E.x": 1, "E.y.z": "?", "F.x": 1, "F": "?",
              "G.x": 1, "G": "?", "H.x": "?", "H": "?", "I": "?"})"));
}

TEST(ReadPythonSettings, SaysWhatANameOrACallRefersTo) {
  const std::string text = R"(
a = B.C
a = B.C(1)
a = B.C or D
a = B.C(1).d
a = B.C if d else D
a = "B"
f(**B.C)
a = dict(B.C)
if d:
    a = B.C
)";
  ASSERT_OK_AND_ASSIGN(const std::vector<LiteralSetting> settings,
                       ReadPythonSettings({"a.py", text}, ""));
  std::vector<std::string> references;
  for (const LiteralSetting& setting : settings) references.push_back(setting.reference);
  EXPECT_THAT(references, ElementsAre("B.C", "B.C", "", "", "", "", "B.C", "B.C", ""));
}

TEST(ReadPythonSettings, MarksWhatOnlySomeRunsSet) {
  const std::string text = R"(
A(x=1, y=count)
if big:
    B(x=1)
c = C(x=1) if big else D(x=2)
def make():
    E(x=1)
    for i in sizes:
        F(x=1)
    return E(z=2)
)";
  ASSERT_OK_AND_ASSIGN(const std::vector<LiteralSetting> settings,
                       ReadPythonSettings({"a.py", text}, ""));
  std::vector<std::string> always;
  std::vector<std::string> sometimes;
  for (const LiteralSetting& setting : settings) {
    (setting.is_conditional ? sometimes : always).push_back(setting.path);
    EXPECT_TRUE(setting.is_literal ? !setting.is_conditional : setting.value.is_null());
  }
  EXPECT_THAT(always, ElementsAre("A.x", "A.y", "E.x", "E.z"));
  EXPECT_THAT(sometimes, ElementsAre("B.x", "C.x", "D.x", "c", "F.x"));
}

TEST(ReadPythonSettings, ReadsOneFunctionAndWhatIsOutsideOfAll) {
  const std::string text = R"(
A = 1
def one():
    return TrainingConfig(steps=1)
def two():
    return TrainingConfig(steps=2, more=f"{A}")
B = {"x": 1, "y": [None, False]}
)";
  EXPECT_EQ(Python(text, "two"), json::parse(R"({"A": 1, "TrainingConfig.steps": 2,
              "TrainingConfig.more": "?", "B.x": 1, "B.y": [null, false]})"));
  EXPECT_THAT(ReadPythonSettings({"a.py", text}, "three"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("has no function `three`")));
}

// Forms of statements that change a setting: each is a setting, literal or not.
TEST(ReadPythonSettings, ReadsEveryFormOfAssignment) {
  EXPECT_EQ(Python(R"(
from a.b import C as D, E
import f.g as h
a.x, b.y = 1, "two"
(a.u, [b.v]) = 3, 4
c, d = make()
ai, aj = [1, 2], [3, 4]
[ak, al] = [5, 6]
e = f = 5
g.h = i["j"] = dict(k=6)
l = 7; m.n = 8
if wide: o = 9
def p(): q = 10
r["s"]["t"].u = 11
v[3].w = 12
aa[key] = 13
setattr(bb.cc, "dd", 14)
object.__setattr__(ee, 'ff', make())
gg.update(hh=15, ii=make())
jj.update({"kk": 16}, **ll)
vars(mm.nn)["oo"] = 17
pp.__dict__.update(qq=18)
del rr.ss, tt["uu"]
vv.pop("ww")
xx <<= 1
yy = 1, 2
zz: int = 19
ab = make() or Make(ac=20)
for ad in af: ag.ah = 21
)"),
            json::parse(R"({"D": "?", "h": "?", "a.x": 1, "b.y": "two", "a.u": 3, "b.v": 4,
              "c": "?", "d": "?", "ai": [1, 2],
              "aj": [3, 4], "ak": 5, "al": 6, "e": 5, "f": 5, "g.h.k": 6, "i.j.k": 6, "l": 7, "m.n": 8,
              "o": "?", "q": 10, "r.s.t.u": 11, "v.w": 12, "aa": "?", "bb.cc.dd": 14,
              "ee.ff": "?", "gg.hh": 15, "gg.ii": "?", "jj.kk": 16, "jj": "?", "mm.nn.oo": 17,
              "pp.qq": 18, "rr.ss": "?", "tt.uu": "?", "vv": "?", "xx": "?", "yy": "?",
              "zz": 19, "Make.ac": "?", "ab": "?", "ag.ah": "?", "make": null})"));
}

TEST(ReadPythonSettings, MarksSettingsWhoseNameIsAnExpression) {
  for (const char* const text : {"setattr(a.b, name, 1)", "setattr(f(), \"x\", 1)", "f(x).y = 3",
                                 "x = 1; f(x)[\"y\"] = 3", "setattr(*args)"}) {
    ASSERT_OK_AND_ASSIGN(const std::vector<LiteralSetting> settings,
                         ReadPythonSettings({"a.py", text}, ""));
    int unknown = 0;
    for (const LiteralSetting& setting : settings) unknown += setting.has_unknown_name ? 1 : 0;
    EXPECT_EQ(unknown, 1) << text;
  }
  for (const char* const text :
       {"print(a == b)", "f(x).y == 3", "f(x=3)", "x = lambda a=1: a", "a if f(x) <= 3 else b"}) {
    ASSERT_OK_AND_ASSIGN(const std::vector<LiteralSetting> settings,
                         ReadPythonSettings({"a.py", text}, ""));
    for (const LiteralSetting& setting : settings) EXPECT_FALSE(setting.has_unknown_name) << text;
  }
}

// Source of any kind is read to its end or refused; what is odd is not literal.
TEST(ReadPythonSettings, RefusesAFunctionThatHasToReturnAConfigurationAndDoesNot) {
  const auto status = [](const std::string& text, const char* function = "") {
    return ReadPythonSettings({"run.py", text}, function).status();
  };
  const std::string cut =
      "def small() -> Trainer.Config:\n    config = base()\n    config.training.steps = 1\n";
  EXPECT_OK(status(cut + "    return config\n"));
  EXPECT_THAT(status(cut).ToString(), HasSubstr("run.py: small: has to return a configuration"));
  EXPECT_THAT(status(cut + "def other():\n    return 1\n").ToString(), HasSubstr("small: has to"));
  EXPECT_THAT(
      status("def other() -> Trainer.Config:\n    return Trainer.Config()\n\n" + cut).ToString(),
      HasSubstr("small: has to"));
  // A `return` within another function does not return from this one.
  for (const char* inner :
       {"    def other():\n        return 1\n", "    def other(): return 1\n    x = 2\n",
        "    async def other():\n        if x:\n            return 1\n"}) {
    EXPECT_THAT(status(cut + inner).ToString(), HasSubstr("small: has to")) << inner;
    EXPECT_OK(status(cut + inner + "    return config\n")) << inner;
  }
  EXPECT_THAT(status("def a() -> Config:\n    'Text.'\n    x = 1\n").ToString(),
              HasSubstr("a: has to"));
  EXPECT_THAT(status("def a() -> Config:\n").ToString(), HasSubstr("a: has to"));
  // A condition may return, and a function that is not read says nothing.
  EXPECT_OK(status(cut + "    if big:\n        return config\n"));
  EXPECT_OK(status("def other() -> JobConfig:\n    return JobConfig()\n" + cut, "other"));
  for (const char* other : {"def a() -> Config: ...\n", "def a() -> Config:\n    pass\n",
                            "def a() -> Config:\n    raise NotImplementedError\n",
                            "def a() -> Config:\n    \"\"\"What it is.\"\"\"\n",
                            "def a() -> Config:\n    'Text.'\n    ...\n",
                            "def a() -> Config:\n    'Text.'\n    raise NotImplementedError()\n",
                            "def a() -> Config:\n    def b():\n        x = 1\n    return b()\n",
                            "def a_Config() -> int:\n    x = 1\n", "def a():\n    x = 1\n",
                            "class A:\n    def a(self) -> Config:\n        x = 1\n"}) {
    EXPECT_OK(status(other)) << other;
  }
}

TEST(ReadPythonSettings, ComesToAnEndOnOddSource) {
  for (const char* const text : {"x = {{1}: 2}",
                                 "x = {(1, 2): 3}\ny = 4",
                                 "f(:)",
                                 "f(a=:, b=1)",
                                 "x = [i for i in y]",
                                 "f(*a, **b)",
                                 "x = lambda: 3",
                                 "f(a=b=c)",
                                 "x = y = 3",
                                 "{}",
                                 "()",
                                 "f(=)",
                                 "@f(a=1)",
                                 "x = {1: 2, 3}",
                                 "return",
                                 "return f(",
                                 "x = {:}",
                                 "a.b.c",
                                 "x = -",
                                 "x = 0x10",
                                 "\\",
                                 "f(a == b)",
                                 "x: int",
                                 "x: int = 3",
                                 "print(1);y = 2",
                                 "[,]",
                                 "f(a=[,])",
                                 "a, = 1",
                                 "(a, b = 1",
                                 "a[",
                                 "*",
                                 "a, b",
                                 "[a] = [1]",
                                 "; ; ;",
                                 "if",
                                 "if x: ; y",
                                 "del",
                                 "from",
                                 "import as",
                                 "setattr(",
                                 "setattr()",
                                 "vars(",
                                 "vars(x",
                                 "a.update(",
                                 "x = = 3",
                                 "a = b = c = "}) {
    const auto settings = ReadPythonSettings({"a.py", text}, "");
    if (!settings.ok()) continue;
    EXPECT_LE(settings->size(), 4) << text;
  }
  EXPECT_EQ(Python("x = {(1, 2): 3}\ny = 4"), json::parse(R"({"x": "?", "y": 4})"));
  EXPECT_EQ(Python("x = lambda: 3"), json::parse(R"({"x": "?"})"));
  EXPECT_EQ(Python("x: int = 3"), json::parse(R"({"x": 3})"));
}

}  // namespace
}  // namespace parplan
