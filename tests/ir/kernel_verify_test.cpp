// Each rule of the kernel verifier: what it must find, and that the golden kernels have no errors.
// SPDX-License-Identifier: MIT

#include "tenon/ir/kernel_verify.h"

#include <gtest/gtest.h>

#include "tests/ir/kernel_support.h"
#include "tests/support/expect_error.h"

namespace tenon {
namespace {

using testing::golden_kernel;

// The findings for which `rule` speaks.
std::vector<Finding> found(const Kernel& kernel, KernelStage stage, std::string_view rule,
                           const Target* target = nullptr) {
  std::vector<Finding> findings = verify_kernel(kernel, stage, target);
  std::erase_if(findings, [&](const Finding& finding) { return finding.rule != rule; });
  return findings;
}

void expect_found(const Kernel& kernel, KernelStage stage, std::string_view rule, Severity severity,
                  std::initializer_list<std::string_view> words, const Target* target = nullptr) {
  const std::vector<Finding> findings = found(kernel, stage, rule, target);
  ASSERT_FALSE(findings.empty()) << to_text(verify_kernel(kernel, stage, target));
  EXPECT_EQ(findings[0].severity, severity) << to_text(findings);
  for (const std::string_view word : words)
    EXPECT_NE(findings[0].text.find(word), std::string::npos) << word << " in " << findings[0].text;
}

void expect_error(const std::string& text, std::string_view rule,
                  std::initializer_list<std::string_view> words) {
  const Kernel kernel = parse_kernel(text, "t");
  expect_found(kernel, kernel.is_nest ? KernelStage::kNest : KernelStage::kComps, rule,
               Severity::kError, words);
}

void expect_silent(const std::string& text, std::string_view rule) {
  const Kernel kernel = parse_kernel(text, "t");
  const KernelStage stage = kernel.is_nest ? KernelStage::kNest : KernelStage::kComps;
  const std::vector<Finding> findings = verify_kernel(kernel, stage);
  for (const Finding& finding : findings)
    EXPECT_NE(finding.rule, rule) << finding.text;
}

TEST(KernelVerify, GoldenKernelsObeyTheRules) {
  for (const char* file : {"matmul_bias_relu.tk", "softmax.tk"}) {
    EXPECT_EQ(to_text(verify_kernel(golden_kernel(file), KernelStage::kComps)), "") << file;
  }
  for (const char* file :
       {"matmul_nest.tk", "softmax_nest.tk", "matmul_lanes.tk", "softmax_lanes.tk"}) {
    const Kernel kernel = golden_kernel(file);
    for (const Finding& finding : verify_kernel(kernel, KernelStage::kNest)) {
      EXPECT_EQ(finding.severity, Severity::kUnproven) << file << ": " << finding.text;
      EXPECT_EQ(finding.rule, "V7") << file << ": " << finding.text;
    }
    check_kernel(kernel, KernelStage::kNest);
  }
}

TEST(KernelVerify, CheckThrowsTheErrorsAndTheText) {
  const Kernel kernel = parse_kernel("kernel bad { out y: f32[4] y[i] = 0 over i:5 }", "t");
  EXPECT_ERROR(check_kernel(kernel, KernelStage::kComps), ErrorCode::kInternal, "'bad'", "V3 error",
               "y[i] = 0f32");
}

constexpr std::string_view kNest = "nest k grid(g:2) lanes(l:4) { in x: f32[64] out y: f32[64] ";

std::string nest(std::string_view body) {
  return concat(kNest, body, " }");
}

TEST(KernelVerify, V1AxesAreBoundOnce) {
  expect_error("kernel k { out y: f32[4,4] y[i,i] = 0 over i:4, i }", "V1", {"'i'", "twice"});
  expect_error(nest("for i:4 { for i:4 { y[32*g+4*i+l] = 0 } }"), "V1", {"for i", "twice"});
  expect_error(nest("for i:4 { } y[32*g+4*i+l] = 0"), "V1", {"'i'", "not bound"});
  expect_error(nest("for i:4 to i+1 { }"), "V1", {"'i'", "not bound"});
  expect_error(nest("y[32*g+4*i+l] = 0 over l:4 seq, i:4 seq"), "V1", {"'l'", "twice"});
  expect_silent(nest("for i:4 { y[32*g+4*i+l] = 0 } for i:4 { y[32*g+4*i+l] = 1 }"), "V1");
  Kernel kernel = parse_kernel("kernel k { out y: f32[4] y[i] = 0 over i:4 }", "t");
  std::get<Comp>(kernel.body[0].node).index[0] = make_axis(0, 3, AxisKind::kPar);
  expect_found(kernel, KernelStage::kComps, "V1", Severity::kError, {"'i'", "not bound"});
}

TEST(KernelVerify, V2WritesAreDistinct) {
  expect_error("kernel k { out y: f32[4] y[i] = 0 over i:4, j:3 }", "V2", {"'j'", "one place"});
  expect_error("kernel k { out y: f32[7] y[i+j] = 0 over i:4, j:4 }", "V2", {"one place"});
  expect_error("kernel k { out y: f32[22] y[5*i+2*j] = 0 over i:3, j:6 }", "V2", {"one place"});
  expect_error("kernel k { out y: f32[4] y[i] += 1 over i:4, j:3 }", "V2", {"'j'"});
  expect_error(nest("y[l] = 0"), "V2", {"'g'", "one place"});
  expect_error(nest("y[g] = 0"), "V2", {"'l'", "one place"});
  expect_silent("kernel k { out y: f32[4,5] y[j//5,j%5] = 0 over j:20 }", "V2");
  expect_silent("kernel k { out y: f32[24] y[6*i+j] = 0 over i:4, j:6 }", "V2");
  expect_silent("kernel k { out y: f32[4,9] y[i,i+j] = 0 over i:4, j:6 }", "V2");
  expect_silent("kernel k { out y: f32[4] y[i] += 1 over i:4, j:3 red }", "V2");
  expect_silent(nest("y[g] = 0 guard l < 1"), "V2");
  expect_silent(nest("if l < 1 { y[g] = 0 }"), "V2");
  expect_silent(nest("alloc t: f32[4] reg t[v] = 0 over v:4 vec"), "V2");
}

TEST(KernelVerify, V3IndicesAreInside) {
  expect_error("kernel k { out y: f32[4] y[i] = 0 over i:5 }", "V3", {"'y'", "0..4", "0..3"});
  expect_error("kernel k { in x: f32[4] out y: f32[4] y[i] = x[i-1] over i:4 }", "V3",
               {"read of 'x'", "i-1", "-1..2"});
  expect_error("kernel k { in x: f32[4] out y: f32[4] y[i] = x[i+4 if i < 2 else 0] over i:4 }",
               "V3", {"'x'", "4.."});
  expect_silent(
      "kernel k { in x: f32[4] out y: f32[9] "
      "y[i] = x[i-2 if 2 <= i & i < 6 else 0] over i:9 }",
      "V3");
  expect_silent(
      "kernel k { in x: f32[9] out y: f32[9] "
      "y[i] = x[i-3 if not(i < 3) & not(i >= 7) else 0] over i:9 }",
      "V3");
  expect_silent(
      "kernel k { in x: f32[4] in n: i32[9] out y: f32[9] "
      "y[i] = x[min(max(idx(n[i]), 0), 3)] + x[idx(min(max(n[i], 0), 3))] over i:9 }",
      "V3");
  expect_silent("kernel k { in x: f32[4,5] out y: f32[20] y[i] = x[i//5,i%5] over i:20 }", "V3");
  expect_silent(nest("for i:16 to min(16, 13-g*2) { y[2*(i+2*g)] = 0 }"), "V3");
  const Kernel unknown = parse_kernel(
      "kernel k { in x: f32[4] in n: i32[4] out y: f32[4] y[i] = x[idx(n[i])] over i:4 }", "t");
  expect_found(unknown, KernelStage::kComps, "V3", Severity::kUnproven, {"'x'", "idx(n[i])"});
}

TEST(KernelVerify, V4RegisterIndicesAreConstant) {
  const std::string head = "alloc t: f32[4] reg alloc u: f32[8] reg ";
  expect_error(nest(head + "for i:4 { t[i] = 0 }"), "V4", {"'t'", "index i"});
  expect_error(nest(head + "t[v] = 0 over v:4 seq"), "V4", {"'t'", "index v"});
  expect_error(nest(head + "t[v] = u[v//2] over v:4 vec"), "V4", {"'u'", "v//2"});
  expect_silent(nest(head + "u[2*v+1] = 0 over v:4 unroll"), "V4");
}

TEST(KernelVerify, V5TheTargetHoldsIt) {
  Target target;
  target.max_lanes = 2;
  target.max_local_bytes = 100;
  target.max_arguments = 1;
  const Kernel kernel =
      parse_kernel(nest("if g < 1 { alloc s: f32[20] group } else { alloc u: f32[25] group } "
                        "alloc t: f32[13] group if g < 1 { alloc w: f32[13] group }"),
                   "t");
  expect_found(kernel, KernelStage::kNest, "V5", Severity::kError, {"4 lanes", "2"}, &target);
  target.max_lanes = 4;
  expect_found(kernel, KernelStage::kNest, "V5", Severity::kError, {"104 bytes", "100"}, &target);
  target.max_local_bytes = 104;
  expect_found(kernel, KernelStage::kNest, "V5", Severity::kError, {"2 buffers", "1"}, &target);
  target.max_arguments = 2;
  EXPECT_TRUE(found(kernel, KernelStage::kNest, "V5", &target).empty());
}

TEST(KernelVerify, V6OwnReadsAreAtTheWrittenPlace) {
  expect_error("kernel k { inout y: f32[4] y[i] = y[3-i] over i:4 }", "V6", {"'y'", "another"});
  expect_silent("kernel k { inout y: f32[4] y[i] = y[i] * 2 over i:4 }", "V6");
}

TEST(KernelVerify, V7ReadsFollowWrites) {
  expect_error("kernel k { out y: f32[4] tmp t: f32[4] y[i] = t[i] over i:4 }", "V7",
               {"'t'", "nothing wrote"});
  expect_error("kernel k { out y: f32[4] y[i] += 1 over i:4 }", "V7", {"'y'", "nothing wrote"});
  expect_error("kernel k { out y: f32[4] tmp t: f32[4] y[i] = t[i] over i:4 t[i] = 0 over i }",
               "V7", {"'t'"});
  expect_error(nest("if g < 1 { alloc t: f32[] reg t[] = 0 } y[4*g+l] = t[]"), "V7",
               {"'t'", "not allocated"});
  expect_silent(
      "kernel k { out y: f32[4] tmp t: f32[4] t[3-i] = 0 over i:4 "
      "t[i] = 1 over i y[i] = t[3-i] over i }",
      "V7");
  expect_silent(nest("alloc t: f32[4] group t[l] = 0 barrier y[4*g+l] = t[3-l]"), "V7");
  expect_silent(nest("alloc t: f32[8] reg for i:2 { t[v] = 0 over v:8 vec } "
                     "y[32*g+8*l+v] = t[v] over v"),
                "V7");
  const Kernel part = parse_kernel(
      "kernel k { out y: f32[4] tmp t: f32[4] t[i] = 0 over i:3 y[j] = t[j] over j:4 }", "t");
  expect_found(part, KernelStage::kComps, "V7", Severity::kUnproven, {"'t'", "may be read"});
  const Kernel masked = parse_kernel(
      "kernel k { out y: f32[4] tmp t: f32[4] scalar n: i64 in 0..4 t[i] = 0 over i:4 guard i < n "
      "y[i] = t[i] over i }",
      "t");
  expect_found(masked, KernelStage::kComps, "V7", Severity::kUnproven, {"'t'"});
}

TEST(KernelVerify, V8BarriersAreUniform) {
  expect_error(nest("if l < 2 { barrier }"), "V8", {"barrier", "lane"});
  expect_error(nest("alloc t: f32[] reg t[] = 0 if l < 2 { combine t = add t over l }"), "V8",
               {"combine", "lane"});
  expect_error(nest("for i:4 to l+1 { }"), "V8", {"extent", "lane"});
  expect_silent(nest("if g < 1 { barrier }"), "V8");
}

TEST(KernelVerify, V9KindsAllowRoles) {
  expect_error("nest k grid(g:2 red) lanes() { }", "V9", {"'g'", "red", "grid0"});
  expect_found(parse_kernel("kernel k { in x: f32[7] out y: f32[7] }", "t"), KernelStage::kComps,
               "stage", Severity::kError, {"computes nothing"});
  expect_error(nest("y[32*g+4*i+l] += 1 over i:4 scan unroll"), "V9", {"'i'", "scan", "unroll"});
  expect_error(nest("for i:4 vec { }"), "V9", {"for", "seq"});
  expect_error(nest("y[q] = 0 over q:8 lane0"), "V9", {"'q'", "more lanes"});
  expect_error(nest("y[q] = 0 over q:2 grid0"), "V9", {"'q'", "grid role"});
  expect_error(nest("alloc t: f32[4] reg combine t[0] = add t[i] over i:4 seq"), "V9",
               {"'i'", "seq", "unroll"});
}

TEST(KernelVerify, V10DTypesAgreeAndNumbersExist) {
  const auto broken = [](const std::function<void(Kernel&, Comp&)>& change,
                         std::initializer_list<std::string_view> words) {
    Kernel kernel = parse_kernel(
        "kernel k { in x: f32[4] out y: f32[4] tmp t: f32[4] y[i] = x[i] over i:4 }", "t");
    change(kernel, std::get<Comp>(kernel.body[0].node));
    expect_found(kernel, KernelStage::kComps, "V10", Severity::kError, words);
  };
  broken([](Kernel&, Comp& comp) { comp.dst = 9; }, {"no buffer 9"});
  broken([](Kernel&, Comp& comp) { comp.dst = 0; }, {"writes the input", "'x'"});
  broken([](Kernel&, Comp& comp) { comp.index.clear(); }, {"0 indices of 'y'", "rank 1"});
  broken([](Kernel&, Comp& comp) { comp.value = {}; }, {"value", "null"});
  broken([](Kernel&, Comp& comp) { comp.value = int_const(DType::kI32, 1); }, {"i32", "f32"});
  broken([](Kernel&, Comp& comp) { comp.value = comp.index[0]; }, {"value is idx"});
  broken([](Kernel&, Comp& comp) { comp.combine = Op::kSub; }, {"sub", "combine"});
  broken([](Kernel&, Comp& comp) { comp.start = comp.value; }, {"start", "constant"});
  broken([](Kernel&, Comp& comp) { comp.guard = {comp.index[0]}; }, {"guard is idx", "i1"});
  broken([](Kernel&, Comp& comp) { comp.axes[0].axis = {}; }, {"axis is null"});
  broken([](Kernel&, Comp& comp) { comp.index[0] = comp.value; }, {"index of 'y'", "f32"});
  broken([](Kernel& kernel, Comp&) { kernel.buffers[0].dtype = DType::kF16; },
         {"load of 'x' is f32", "f16"});
  broken([](Kernel& kernel, Comp&) { kernel.buffers[0].access = BufferAccess::kTmp; },
         {"'y'", "behind a tmp"});
  broken([](Kernel& kernel, Comp&) { kernel.buffers[0].scope = Scope::kGroup; },
         {"'x'", "not global"});
  broken(
      [](Kernel& kernel, Comp&) {
        kernel.buffers[2].layout = {{0, 3}};
      },
      {"'t'", "layout", "hold 3"});
  broken([](Kernel& kernel, Comp&) { kernel.buffers[2].align_bytes = 3; }, {"alignment 3"});
  broken([](Kernel&, Comp& comp) { comp.index[0] = make_scalar(0, 0, 3); }, {"scalar 0"});
  broken([](Kernel& kernel, Comp&) { kernel.body.push_back({For{}}); }, {"axis is null"});
  broken([](Kernel& kernel, Comp&) { kernel.body.push_back({If{}}); }, {"condition is null"});
  broken([](Kernel& kernel, Comp&) { kernel.body.push_back({Alloc{0}}); }, {"allocates a param"});
  broken([](Kernel& kernel, Comp&) { kernel.body.push_back({Combine{}}); }, {"writes the input"});
}

TEST(KernelVerify, V11DepthIsBounded) {
  Kernel kernel = parse_kernel("kernel k { out y: f32[4] y[i] = 0 over i:4 }", "t");
  const Node yes = make_expr(Op::kLt, idx_const(0), idx_const(1));
  for (int i = 0; i < 64; ++i) {
    Body body = std::move(kernel.body);
    kernel.body.clear();
    kernel.body.push_back({If{.condition = yes, .then_body = std::move(body), .else_body = {}}});
  }
  expect_found(kernel, KernelStage::kComps, "V11", Severity::kError, {"65 deep", "64"});
}

TEST(KernelVerify, StagesAddRules) {
  const Kernel comps = golden_kernel("matmul_bias_relu.tk");
  expect_found(comps, KernelStage::kNest, "stage", Severity::kError, {"not marked as a nest"});
  expect_found(golden_kernel("matmul_nest.tk"), KernelStage::kComps, "stage", Severity::kError,
               {"grid"});
  expect_error(nest("y[32*g+4*i+l] += 1 over i:4 unroll start 0"), "stage", {"implicit start"});
  expect_error(nest("y[32*g+4*i+l] = 1 over i:4"), "stage", {"'i'", "no role"});
  expect_error("nest k grid() lanes() { tmp t: f32[4] }", "stage", {"'t'", "no scope"});
  expect_found(golden_kernel("matmul_lanes.tk"), KernelStage::kFlat, "stage", Severity::kError,
               {"idx"});
  const Kernel flat =
      parse_kernel(nest("y[(i32(g)*4+i32(l))*8+i32(v)] = x[i32(v)] over v:8 vec"), "t");
  EXPECT_EQ(to_text(found(flat, KernelStage::kFlat, "stage")), "");
}

}  // namespace
}  // namespace tenon
