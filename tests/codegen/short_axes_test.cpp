// Kernels over axes shorter than a vector have vectors all the same, and keep their value: streams,
// squares, rows along the short axis and rows side by side on it.
// SPDX-License-Identifier: MIT

#include <gtest/gtest.h>

#include "tenon/base/text.h"
#include "tenon/codegen/choose_plan.h"
#include "tenon/codegen/codegen.h"
#include "tenon/interp/interpret.h"
#include "tenon/ir/kernel_text.h"
#include "tenon/ir/linear_text.h"
#include "tests/support/random_kernel.h"
#include "tests/support/test_target.h"

namespace tenon::test {
namespace {

struct Form {
  std::string_view name;
  std::string_view text;  ///< N: the short extent, D: its double, T: the dtype
  bool has_vectors = true;
};

constexpr Form kForms[] = {
    {"a stream with a broadcast row", R"(
kernel k {
  in x: T[37,N]  in b: T[N]  out y: T[37,N]
  y[i,j] = x[i,j] * b[j] + b[j] over i:37, j:N
})"},
    {"a stream whose axes are one walk, with an element for each matrix", R"(
kernel k {
  in x: T[3,17,N]  in z: T[3,17,N]  in b: T[3]  out y: T[3,17,N]
  y[i,j,k] = x[i,j,k] * z[2-i,16-j,k] + b[i] over i:3, j:17, k:N
})"},
    {.name = "a stream that is one walk",
     .text = R"(
kernel k {
  in x: T[7,31,N]  in z: T[7,31,D]  out y: T[7,31,N]
  y[i,j,k] = x[6-i,30-j,N-1-k] * z[i,j,2*k+1] over i:7, j:31, k:N
})",
     .has_vectors = false},  // gathers are as slow as scalars
    {"a square whose stores are short", R"(
kernel k {
  in x: T[N,70]  out y: T[70,N]
  y[i,j] = x[j,i] + x[j,i] over i:70, j:N
})"},
    {"a square whose loads are short", R"(
kernel k {
  in x: T[70,N]  out y: T[N,70]
  y[i,j] = x[j,i] + x[j,i] over i:N, j:70
})"},
    {"rows along the short axis", R"(
kernel k {
  in x: T[37,N]  out y: T[37,N]  tmp m: T[37]  tmp s: T[37]
  m[i] max= x[i,j] over i:37, j:N red start -100
  s[k] += x[k,l] - m[k] over k:37, l:N red start 0
  y[p,q] = x[p,q] * m[p] + s[p] over p:37, q:N
})"},
    {"rows side by side on the short axis", R"(
kernel k {
  in x: T[50,11,N]  out y: T[50,11,N]  tmp m: T[50,N]  tmp s: T[50,N]
  m[a,i] max= x[a,j,i] over a:50, i:N, j:11 red start -100
  s[c,k] += x[c,l,k] - m[c,k] over c:50, k:N, l:11 red start 0
  y[d,q,p] = x[d,q,p] * m[d,p] + s[d,p] over d:50, q:11, p:N
})"},
};

Kernel kernel_of(const Form& form, int64_t extent, std::string_view dtype) {
  std::string text;
  for (const char letter : form.text) {
    if (letter == 'N') {
      append(text, extent);
    } else if (letter == 'D') {
      append(text, 2 * extent);
    } else if (letter == 'T') {
      append(text, dtype);
    } else {
      text += letter;
    }
  }
  return parse_kernel(text, form.name);
}

// Lanes of the widest vector that is loaded or stored.
int64_t lanes_in_memory(const LinearProgram& program) {
  int64_t lanes = 1;
  for (const InstId id : program_order(program)) {
    const Inst& inst = program.insts[id];
    if (inst.op == Op::kLoad) lanes = std::max<int64_t>(lanes, inst.type.lanes);
    if (inst.op == Op::kStore) {
      lanes = std::max<int64_t>(lanes, program.type_of(program.operands_of(inst)[1]).lanes);
    }
  }
  return lanes;
}

TEST(ShortAxes, HaveVectorsAndKeepTheirValue) {
  const Target target = vector_target();
  for (const Form& form : kForms) {
    for (const std::string_view dtype : {"f32", "i16", "f64"}) {
      for (const int64_t extent : {2, 3, 4, 5, 7, 8, 9, 11, 15, 16, 17, 31}) {
        SCOPED_TRACE(concat(form.name, ", ", dtype, ", ", extent));
        const Kernel kernel = kernel_of(form, extent, dtype);
        KernelMemory memory(kernel, static_cast<uint64_t>(extent));
        eval_kernel(kernel, memory.kernel_arguments());
        const std::vector<std::byte> expected = memory.outputs();
        const LinearProgram program = lower_kernel(kernel, target, {.verify = true});
        if (form.has_vectors) {
          EXPECT_GT(lanes_in_memory(program), 1) << to_text(program);
        }
        memory.reset();
        interpret(program, memory.program_arguments(program.signature));
        EXPECT_EQ(memory.guard_finding(), "");
        EXPECT_TRUE(memory.outputs() == expected) << to_text(program);
      }
    }
  }
}

}  // namespace
}  // namespace tenon::test
