#include "clients/planctl/report/html.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace parplan::report {
namespace {

// Three significant digits without an exponent, for values of 0 to 9999.
std::string ThreeDigits(double value) {
  if (value >= 99.95) return absl::StrFormat("%.0f", value);
  if (value >= 9.995) return absl::StrFormat("%.1f", value);
  return absl::StrFormat("%.2f", value);
}

}  // namespace

std::string Escape(absl::string_view text) {
  std::string escaped;
  escaped.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return escaped;
}

std::string Time(Seconds seconds) {
  const double value = seconds.value();
  if (value >= 1.0) return absl::StrCat(ThreeDigits(value), " s");
  if (value >= 1e-3) return absl::StrCat(ThreeDigits(value * 1e3), " ms");
  return absl::StrCat(ThreeDigits(value * 1e6), " µs");
}

std::string Size(Bytes bytes) {
  const double value = bytes.as_double();
  if (std::abs(value) >= 1e9) return absl::StrCat(ThreeDigits(value / 1e9), " GB");
  if (std::abs(value) >= 1e6) return absl::StrCat(ThreeDigits(value / 1e6), " MB");
  return absl::StrCat(ThreeDigits(value / 1e3), " kB");
}

std::string Percent(double ratio) { return absl::StrFormat("%.1f %%", 100.0 * ratio); }

const char* Name(MemoryItemKind kind) {
  switch (kind) {
    case MemoryItemKind::kParameters:
      return "parameters";
    case MemoryItemKind::kGradients:
      return "gradients";
    case MemoryItemKind::kOptimizerStates:
      return "optimizer states";
    case MemoryItemKind::kActivations:
      return "activations";
    case MemoryItemKind::kCheckpoints:
      return "checkpoints";
    case MemoryItemKind::kTransient:
      return "transient";
    case MemoryItemKind::kContext:
      return "context";
  }
  return "";
}

const char* Name(TimeItemKind kind) {
  switch (kind) {
    case TimeItemKind::kForwardCompute:
      return "forward";
    case TimeItemKind::kBackwardCompute:
      return "backward";
    case TimeItemKind::kRecompute:
      return "recompute";
    case TimeItemKind::kTensorParallel:
      return "tensor parallel";
    case TimeItemKind::kShardedDataParallel:
      return "sharded data parallel";
    case TimeItemKind::kResharding:
      return "resharding";
  }
  return "";
}

std::string ColourClass(MemoryItemKind kind) { return absl::StrCat("m", static_cast<int>(kind)); }
std::string ColourClass(TimeItemKind kind) { return absl::StrCat("t", static_cast<int>(kind)); }
std::string StrategyColourClass(int index) { return absl::StrCat("s", index % 10); }

const char* StyleSheet() {
  return R"(
:root{color-scheme:light dark;--page:#fbfaf7;--ink:#1d2433;--quiet:#5b6475;--line:#d9dbe1;
--card:#ffffff;--fwd:#3f6fb5;--bwd:#d98a3d;--sync:#8a5aa8;--limit:#b3261e;
--m0:#2f5d9b;--m1:#6d9bd1;--m2:#274060;--m3:#3d9970;--m4:#a9cf7f;--m5:#d9a441;--m6:#9aa0ab;
--t0:#3f6fb5;--t1:#d98a3d;--t2:#b04a5a;--t3:#3d9970;--t4:#8a5aa8;--t5:#9aa0ab;
--s0:#3f6fb5;--s1:#d98a3d;--s2:#3d9970;--s3:#b04a5a;--s4:#8a5aa8;--s5:#5aa9b8;--s6:#a38b3b;
--s7:#6b7686;--s8:#c46a9a;--s9:#7aa35a}
@media (prefers-color-scheme:dark){:root{--page:#14171d;--ink:#e8eaf0;--quiet:#a3abbb;
--line:#343a46;--card:#1c2028;--fwd:#6f9fe0;--bwd:#e8a765;--sync:#b48ad0;--limit:#ff8a80;
--m0:#5d8fd6;--m1:#9cc0ea;--m2:#8793ad;--m3:#5fbf95;--m4:#bfe09a;--m5:#e6bd68;--m6:#6b7280;
--t0:#6f9fe0;--t1:#e8a765;--t2:#d97585;--t3:#5fbf95;--t4:#b48ad0;--t5:#6b7280;
--s0:#6f9fe0;--s1:#e8a765;--s2:#5fbf95;--s3:#d97585;--s4:#b48ad0;--s5:#7cc7d6;--s6:#c9b163;
--s7:#8f9aab;--s8:#e08fbb;--s9:#9cc77a}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);
font:16px/1.5 system-ui,"Segoe UI","Noto Sans","DejaVu Sans",sans-serif}
main{max-width:68rem;margin:0 auto;padding:2rem 1.25rem 4rem}
h1{font-size:1.6rem;line-height:1.25;margin:0 0 .25rem}
h2{font-size:1.1rem;margin:2.5rem 0 .25rem}
p{margin:.25rem 0 .75rem;max-width:46rem}.quiet{color:var(--quiet)}
.gist{font-family:ui-monospace,"DejaVu Sans Mono",monospace;font-size:.9rem;
overflow-wrap:anywhere}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(11rem,1fr));gap:.75rem;
margin:1.25rem 0}
.tile{background:var(--card);border:1px solid var(--line);border-radius:.5rem;padding:.75rem 1rem}
.tile b{display:block;font-size:1.4rem;line-height:1.3}
.tile span{color:var(--quiet);font-size:.85rem}
svg{display:block;width:100%;height:auto;background:var(--card);border:1px solid var(--line);
border-radius:.5rem}
svg text{fill:var(--quiet);font:12px system-ui,"Segoe UI","Noto Sans","DejaVu Sans",sans-serif}
.axis{stroke:var(--line);stroke-width:1}.limit{stroke:var(--limit);stroke-width:2}
.fwd{fill:var(--fwd)}.bwd{fill:var(--bwd)}.sync{fill:var(--sync)}.event{stroke:var(--card);
stroke-width:.6}
.legend{display:flex;flex-wrap:wrap;gap:.35rem 1.1rem;margin:.5rem 0 .75rem;padding:0;
list-style:none;font-size:.85rem;color:var(--quiet)}
.legend i{display:inline-block;width:.8rem;height:.8rem;border-radius:.15rem;margin-right:.4rem;
vertical-align:-.08rem}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:.9rem;font-variant-numeric:tabular-nums}
th,td{text-align:right;padding:.35rem .6rem;border-bottom:1px solid var(--line);
vertical-align:top}
th{font-weight:600;color:var(--quiet)}th:first-child,td:first-child,.left{text-align:left}
tr.best td{font-weight:600}.bad{color:var(--limit)}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.2rem 1rem;font-size:.85rem}
dt{color:var(--quiet)}dd{margin:0;overflow-wrap:anywhere}
@media (max-width:40rem){dl{grid-template-columns:1fr}dd{margin-bottom:.4rem}}
)"
         ".m0{fill:var(--m0);background:var(--m0)}.m1{fill:var(--m1);background:var(--m1)}"
         ".m2{fill:var(--m2);background:var(--m2)}.m3{fill:var(--m3);background:var(--m3)}"
         ".m4{fill:var(--m4);background:var(--m4)}.m5{fill:var(--m5);background:var(--m5)}"
         ".m6{fill:var(--m6);background:var(--m6)}"
         ".t0{fill:var(--t0);background:var(--t0)}.t1{fill:var(--t1);background:var(--t1)}"
         ".t2{fill:var(--t2);background:var(--t2)}.t3{fill:var(--t3);background:var(--t3)}"
         ".t4{fill:var(--t4);background:var(--t4)}.t5{fill:var(--t5);background:var(--t5)}"
         ".s0{fill:var(--s0);background:var(--s0)}.s1{fill:var(--s1);background:var(--s1)}"
         ".s2{fill:var(--s2);background:var(--s2)}.s3{fill:var(--s3);background:var(--s3)}"
         ".s4{fill:var(--s4);background:var(--s4)}.s5{fill:var(--s5);background:var(--s5)}"
         ".s6{fill:var(--s6);background:var(--s6)}.s7{fill:var(--s7);background:var(--s7)}"
         ".s8{fill:var(--s8);background:var(--s8)}.s9{fill:var(--s9);background:var(--s9)}"
         ".cf{background:var(--fwd)}.cb{background:var(--bwd)}.cs{background:var(--sync)}";
}

}  // namespace parplan::report
