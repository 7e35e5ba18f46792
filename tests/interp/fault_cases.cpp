// SPDX-License-Identifier: MIT

#include "tests/interp/fault_cases.h"

#include <string_view>

#include "tenon/base/text.h"

namespace tenon::testing {

namespace {

/// A program over x, which is read, and y, both i32, with constants 0 to 4, group and lane number.
std::string program(int groups, int lanes, int x, int y, std::string_view statements,
                    std::string_view access = "write", std::string_view scratch = "0") {
  return concat("tir 1 func f grid(", groups, ") lanes(", lanes, ") scratch ", scratch,
                " {\n  arg 0 x i32[", x, "] read\n  arg 1 y i32[", y, "] ", access,
                "\n  %x = param 0 %y = param 1 %g = grid_id 0 i32 %l = lane_id 0 i32\n",
                "  %0c = const i32 0 %1c = const i32 1 %2c = const i32 2 %3c = const i32 3\n",
                "  %4c = const i32 4 %true = const i1 true %n = const i32 ", lanes, "\n",
                statements, "}\n");
}

void add_bounds(std::vector<FaultCase>& cases) {
  const auto add = [&](std::string name, std::string words, std::string text,
                       std::vector<int64_t> want) {
    cases.push_back(
        {std::move(name), FaultKind::kBounds, std::move(words), std::move(text), std::move(want)});
  };
  add("store above the end",
      "`store %y[%i], %v` in group 0, lane 0: index 4 of argument 'y' with 4",
      program(1, 1, 4, 4, R"(%e = add i32 %4c, %1c for %i = %0c..<%e|%4c> {
          %c = lt i32 %i, %4c %v = load i32 %x[%i] gate %c alt %0c store %y[%i], %v })"),
      {10, 11, 12, 13});
  add("store below the start", "index -1 of argument 'y'",
      program(1, 1, 4, 4, R"(for %i = %0c..%4c { store %y[%i< - 1|>], %i })"), {0, 1, 2, 3});
  add("load above the end", "index 4 of argument 'x' with 4 elements",
      program(1, 1, 4, 4, R"(for %i = %0c..%4c {
          %v = load i32 %x[%i< + 1|>] store %y[%i], %v })"),
      {10, 11, 12, 13});
  add("load below the start", "index -1 of argument 'x'", program(1, 1, 4, 4, R"(for %i = %0c..%4c {
          %c = lt i32 %0c, %i %v = load i32 %x[%i - 1]<| gate %c alt %0c> store %y[%i], %v })"),
      {0, 10, 11, 12});
  add("an index that only some groups have wrong", "in group 2, lane 0: index 4 of argument 'y'",
      program(3, 1, 4, 4, R"(
          %b = mul i32 %g, %2c %e = le i32 %b, %2c
          if <%true|%e> { store %y[%b], %g store %y[%b + 1], %g })"),
      {0, 0, 1, 1});
  add("an index that only some lanes have wrong", "lane 3: index 3 of alloc %t with 3 elements",
      program(1, 4, 4, 4, R"(%t = alloc i32 <3|4> group store %t[%l], %l
          %v = load i32 %t[%l] store %y[%l], %v)",
              "write", "<12|16>"),
      {0, 1, 2, 3});
  add("private memory above the end", "index 2 of alloc %t with 2 elements",
      program(1, 2, 4, 2, R"(%t = alloc i32 <2|3> reg
          for %i = %0c..%3c { store %t[%i], %i } %v = load i32 %t[%l] store %y[%l], %v)"),
      {0, 1});
  add("gather beyond the end",
      "`%v = load i32x4 %x[%r]` in group 0, lane 0: index 4 of argument 'x'",
      program(1, 1, 4, 4, R"(%r = ramp i32x4 %0c, <%2c|%1c>
          if %true { %v = load i32x4 %x[%r] store %y[%0c], %v })"),
      {10, 11, 12, 13});
  add("scatter below the start", "index -1 of argument 'y'",
      program(1, 1, 4, 4, R"(%v = load i32x4 %x[%0c] %d = sub i32 %0c, %1c
          %r = ramp i32x4 %3c, %d if %true { store %y[%r< - 1|>], %v })"),
      {13, 12, 11, 10});
  add("vector tail without its gate", "index 6 of argument 'x' with 6 elements",
      program(2, 1, 6, 6, R"(%b = mul i32 %g, %4c %6c = const i32 6 %left = sub i32 %6c, %b
          %m = first_n i1x4 %left %z = splat i32x4 %0c
          %v = load i32x4 %x[%b] <|gate %m alt %z> store %y[%b], %v gate %m)"),
      {10, 11, 12, 13, 14, 15});
  add("vector store without its gate", "index 6 of argument 'y' with 6 elements",
      program(2, 1, 6, 6, R"(%b = mul i32 %g, %4c %6c = const i32 6 %left = sub i32 %6c, %b
          %m = first_n i1x4 %left %z = splat i32x4 %0c
          %v = load i32x4 %x[%b] gate %m alt %z store %y[%b], %v <|gate %m>)"),
      {10, 11, 12, 13, 14, 15});
  add("atomic beyond the end", "atomic add %y[%at], %1c` in group 0, lane 1: index 1",
      program(1, 2, 1, 1,
              R"(%at = mul i32 %l, <%1c|%0c> if %true { %o = atomic add %y[%at], %1c })",
              "readwrite"),
      {12});
}

void add_alignment(std::vector<FaultCase>& cases) {
  cases.push_back({"a claim that holds for even elements only",
                   FaultKind::kAlignment,
                   "claims align 8, but element 1 of argument 'x' lies at byte 4",
                   program(1, 1, 8, 4, R"(for %i = %0c..%2c { %b = mul i32 %i, <%1c|%2c>
          %v = load i32x2 %x[%b] align 8 store %y[%b], %v })"),
                   {10, 11, 12, 13}});
  cases.push_back({"a claim about a store",
                   FaultKind::kAlignment,
                   "claims align 16, but element 2 of argument 'y' lies at byte 8",
                   program(1, 1, 8, 8, R"(for %i = %0c..%2c { %b = mul i32 %i, <%2c|%4c>
          %v = load i32x4 %x[%b] store %y[%b], %v align 16 })"),
                   {10, 11, 12, 13, 14, 15, 16, 17}});
}

void add_never_written(std::vector<FaultCase>& cases) {
  const auto add = [&](std::string name, std::string words, std::string text,
                       std::vector<int64_t> want) {
    cases.push_back({std::move(name), FaultKind::kNeverWritten, std::move(words), std::move(text),
                     std::move(want)});
  };
  add("private memory before it is written", "reads element 1 of alloc %t, which was never written",
      program(1, 2, 2, 2, R"(%t = alloc i32 2 reg store %t[%0c], %l <|store %t[%1c], %l>
          %v = load i32 %t[%1c] store %y[%l], %v)"),
      {0, 1});
  add("group memory before it is written", "reads element 2 of alloc %t, which was never written",
      program(1, 1, 4, 4, R"(%t = alloc i32 4 group %v = load i32x2 %x[%0c] store %t[%0c], %v
          %u = load i32x2 %x[%2c] <|store %t[%2c], %u>
          %w = load i32x4 %t[%0c] store %y[%0c], %w)",
              "write", "16"),
      {10, 11, 12, 13});
  add("group memory of the group before", "in group 1, lane 0: reads element 0 of alloc %t",
      program(2, 1, 2, 2, R"(%t = alloc i32 1 group %first = eq i32 %g, %0c
          store %t[%0c], %4c <gate %first|> %v = load i32 %t[%0c] store %y[%g], %v)",
              "write", "4"),
      {4, 4});
  add("an input with a hole", "reads element 2 of argument 'x', which was never written",
      program(1, 1, 4, 4, R"(for %i = %0c..%4c { %c = eq i32 %i, %2c %on = not i1 %c
          %v = load i32 %x[%i] <|gate %on alt %0c> store %y[%i], %v })"),
      {10, 11, 0, 13});
  cases.back().hole = 2;
  add("an output that is read first", "element 1 of argument 'y', which is no input, before",
      program(1, 1, 2, 2, R"(for %i = %0c..%2c { <|store %y[%i], %3c>
          %c = eq i32 %i, %0c if %c { store %y[%i], %3c }
          %v = load i32 %y[%i] %w = add i32 %v, %i store %y[%i], %w })"),
      {3, 4});
  add("a loop that ends too early", "reads element 3 of alloc %t, which was never written",
      program(1, 1, 4, 4, R"(%t = alloc i32 4 group for %i = %0c..<%3c|%4c> { store %t[%i], %i }
          for %k = %0c..%4c { %v = load i32 %t[%k] store %y[%k], %v })",
              "write", "16"),
      {0, 1, 2, 3});
  add("an atomic on nothing", "reads element 0 of alloc %t, which was never written",
      program(1, 4, 4, 4, R"(%t = alloc i32 1 group %first = eq i32 %l, %0c
          <|store %t[%0c], %0c gate %first> barrier %o = atomic add %t[%0c], %1c barrier
          %v = load i32 %t[%0c] store %y[%l], %v)",
              "write", "4"),
      {4, 4, 4, 4});
}

/// Each lane writes its place and reads that of the next lane.
void add_missing_barriers(std::vector<FaultCase>& cases) {
  for (const int lanes : {2, 3, 32, 64, 256}) {
    std::vector<int64_t> want;
    for (int i = 0; i < lanes; ++i)
      want.push_back((i + 1) % lanes + 10);
    cases.push_back({concat("missing barrier of ", lanes, " lanes"), FaultKind::kRace,
                     "`store %t[%l], %v` in group 0, lane 1 writes it, `%w = load i32 %t[%at]` in "
                     "group 0, lane 0 reads it, and no barrier stands between",
                     program(1, lanes, lanes, lanes, concat("%t = alloc i32 ", lanes, R"( group
          %v = load i32 %x[%l] store %t[%l], %v <|barrier>
          %next = add i32 %l, %1c %at = mod i32 %next, %n %w = load i32 %t[%at] store %y[%l], %w)"),
                             "write", std::to_string(4 * lanes)),
                     want});
  }
}

void add_races_of_lanes(std::vector<FaultCase>& cases) {
  const auto add = [&](std::string name, std::string words, std::string text,
                       std::vector<int64_t> want) {
    cases.push_back(
        {std::move(name), FaultKind::kRace, std::move(words), std::move(text), std::move(want)});
  };
  add("read, then overwritten by another lane", "reads it, `store %t[%l], %w` in group 0, lane",
      program(1, 2, 2, 2, R"(%t = alloc i32 2 group store %t[%l], %l barrier
          %o = sub i32 %1c, %l %v = load i32 %t[%o] <|barrier>
          %w = add i32 %v, %4c store %t[%l], %w barrier
          %r = load i32 %t[%o] store %y[%l], %r)",
              "write", "8"),
      {4, 5});
  add("no barrier at a loop's end", "and no barrier stands between",
      program(1, 2, 2, 2, R"(%t = alloc i32 2 group
          %r = for %i = %0c..%3c carry %v = %l { store %t[%l], %v barrier
            %o = sub i32 %1c, %l %w = load i32 %t[%o] <|barrier> yield %w }
          store %y[%l], %r)",
              "write", "8"),
      {1, 0});
  add("lanes write one element of group memory",
      "lane 0 writes it, `store %t[%0c], %l` in group 0, lane 1 writes it",
      program(1, 2, 2, 2, R"(%t = alloc i32 1 group %first = eq i32 %l, %0c
          store %t[%0c], %l <|gate %first> barrier %v = load i32 %t[%0c] store %y[%l], %v)",
              "write", "4"),
      {0, 0});
  add("lanes write one element of a result", "race on element 0 of argument 'y'",
      program(1, 4, 4, 1, R"(%last = eq i32 %l, %3c store %y[%0c], %l <|gate %last>)"), {3});
  add("lanes write the same value", "race on element 0 of argument 'y'",
      program(1, 4, 4, 1, R"(%some = eq i32 %l, %2c store %y[%0c], %4c <|gate %some>)"), {4});
  add("a result that another lane reads", "reads it, and no barrier stands between",
      program(1, 2, 2, 4, R"(store %y[%l], %l <|barrier> %o = sub i32 %1c, %l
          %v = load i32 %y[%o] store %y[%l + 2], %v)"),
      {0, 1, 1, 0});
  add("read once by its own lane, then by another one, and overwritten",
      "reads it, `store %t[%l], %w` in group 0",
      program(1, 2, 2, 2, R"(%t = alloc i32 2 group store %t[%l], %l barrier
          %v = load i32 %t[%l] barrier %o = sub i32 %1c, %l %w = load i32 %t[%o] <|barrier>
          store %t[%l], %w barrier %r = load i32 %t[%l] store %y[%l], %r)",
              "write", "8"),
      {1, 0});
  add("what all lanes read, overwritten by the first one",
      "lane 0 and others reads it, `store %t[%0c], %l gate %first`",
      program(1, 2, 2, 2, R"(%t = alloc i32 1 group %first = eq i32 %l, %0c
          store %t[%0c], %4c gate %first barrier %v = load i32 %t[%0c] <|barrier>
          store %t[%0c], %l gate %first barrier %r = load i32 %t[%0c] %s = add i32 %v, %r
          store %y[%l], %s)",
              "write", "4"),
      {4, 4});
  add("a result under two names", "no barrier stands between",
      program(1, 2, 2, 4, R"(%z = param 1 store %y[%l], %l <|barrier> %o = sub i32 %1c, %l
          %v = load i32 %z[%o] store %z[%l + 2], %v)"),
      {0, 1, 1, 0});
  add("vectors of lanes overlap", "race on element 1 of argument 'y'",
      program(1, 2, 4, 4, R"(%b = mul i32 %l, <%1c|%2c> %v = load i32x2 %x[%b]
          if %true { store %y[%b], %v })"),
      {10, 11, 12, 13});
  add("a tree without its inner barrier", "and no barrier stands between",
      program(1, 4, 4, 1, R"(%t = alloc i32 4 group %v = load i32 %x[%l] store %t[%l], %v
          barrier
          for %i = %0c..%2c { %h = shr i32 %2c, %i %on = lt i32 %l, %h
            if %on { %o = add i32 %l, %h %a = load i32 %t[%l] %b = load i32 %t[%o]
              %s = add i32 %a, %b store %t[%l], %s }
            <|barrier> }
          %first = eq i32 %l, %0c %r = load i32 %t[%0c] gate %first alt %0c
          store %y[%0c], %r gate %first)",
              "write", "16"),
      {46});
}

void add_atomics(std::vector<FaultCase>& cases) {
  const auto add = [&](std::string name, std::string words, std::string text,
                       std::vector<int64_t> want) {
    cases.push_back(
        {std::move(name), FaultKind::kRace, std::move(words), std::move(text), std::move(want)});
  };
  add("an atomic and a plain store", "updates it, `store %y[%0c], %0c gate %first` in group 0",
      program(1, 4, 4, 1, R"(%first = eq i32 %l, %1c %o = atomic add %y[%0c], %1c
          <|barrier> store %y[%0c], %0c gate %first)",
              "readwrite"),
      {0});
  add("a plain store and atomics", "writes it, `%o = atomic add %y[%0c], %1c` in group 0, lane 0",
      program(1, 4, 4, 1, R"(%first = eq i32 %l, %1c store %y[%0c], %0c gate %first
          <|barrier> %o = atomic add %y[%0c], %1c)",
              "readwrite"),
      {4});
  add("an atomic that is read at once", "updates it, `%v = load i32 %t[%0c]` in group 0",
      program(1, 4, 4, 4, R"(%t = alloc i32 1 group %first = eq i32 %l, %0c
          store %t[%0c], %0c gate %first barrier %o = atomic add %t[%0c], %1c <|barrier>
          %v = load i32 %t[%0c] store %y[%l], %v)",
              "write", "4"),
      {4, 4, 4, 4});
  add("atomics, and a read by the lane of the first one", "updates it, `%v = load i32 %y[%0c]",
      program(1, 2, 2, 2, R"(%o = atomic add %y[%0c], %1c <|barrier> %first = eq i32 %l, %0c
          %v = load i32 %y[%0c] gate %first alt %0c store %y[%1c], %v gate %first)",
              "readwrite"),
      {12, 12});
  add("atomics of groups and a plain read", "and nothing orders groups",
      program(2, 1, 2, 2, R"(%o = atomic add %y[%0c], %1c %last = eq i32 %g, %1c
          %v = load i32 %y[<%0c|%1c>] gate %last alt %0c store %y[%1c], %v gate %last)",
              "readwrite"),
      {12, 11});
}

void add_races_of_groups(std::vector<FaultCase>& cases) {
  const auto add = [&](std::string name, std::string words, std::string text,
                       std::vector<int64_t> want) {
    cases.push_back(
        {std::move(name), FaultKind::kRace, std::move(words), std::move(text), std::move(want)});
  };
  add("groups write one element",
      "race on element 0 of argument 'y': `store %y[%at], %g` in group 0, lane 0 writes it, `store "
      "%y[%at], %g` in group 1, lane 0 writes it, and nothing orders groups",
      program(2, 1, 2, 2, R"(%at = mul i32 %g, <%0c|%1c> if %true { store %y[%at], %g })",
              "readwrite"),
      {0, 1});
  add("a group reads what one before it wrote", "in group 1, lane 0 reads it, and nothing orders",
      program(2, 1, 2, 4, R"(store %y[%g], %4c %k = mul i32 %g, <%0c|%1c>
          %v = load i32 %y[%k] store %y[%g + 2], %v)",
              "readwrite"),
      {4, 4, 4, 4});
  add("a group writes what one before it read", "in group 0, lane 0 reads it, `store %y[%g], %4c`",
      program(2, 1, 2, 4, R"(%k = add i32 %g, <%1c|%0c> %first = eq i32 %g, %0c
          %v = load i32 %y[%k] gate %first alt %0c store %y[%g], %4c store %y[%g + 2], %v)",
              "readwrite"),
      {4, 4, 10, 0});
  add("a group writes what it and one before it read", "in group 0, lane 0 reads it, `store",
      program(2, 1, 2, 2, R"(%k = mul i32 %g, <%0c|%1c> %v = load i32 %y[%k] %on = eq i32 %g, %1c
          store %y[%k], %4c gate %on)",
              "readwrite"),
      {10, 4});
  add("groups overlap by an element", "race on element 2 of argument 'y'",
      program(2, 1, 4, 4, R"(%b = mul i32 %g, %2c for %i = %0c..<%3c|%2c> {
          %at = add i32 %b, %i %c = lt i32 %at, %4c store %y[%at], %at gate %c })"),
      {0, 1, 2, 3});
  add("a barrier does not order groups", "and nothing orders groups",
      program(2, 2, 4, 4, R"(%b = mul i32 %g, %2c %at = add i32 %b, %l store %y[%at], %at barrier
          %f = mul i32 <%0c|%b>, %1c %v = load i32 %y[%f] barrier store %y[%at], %v)",
              "readwrite"),
      {0, 0, 2, 2});
}

void add_barriers(std::vector<FaultCase>& cases) {
  const auto add = [&](std::string name, std::string words, std::string text,
                       std::vector<int64_t> want) {
    cases.push_back(
        {std::move(name), FaultKind::kBarrier, std::move(words), std::move(text), std::move(want)});
  };
  add("a barrier under a condition of lanes",
      "`barrier` in group 0: 2 of 4 lanes reach it, lane 0 among them, lane 2 not",
      program(1, 4, 4, 4, R"(%low = lt i32 %l, %2c if <%low|%true> { barrier }
          store %y[%l], %l)"),
      {0, 1, 2, 3});
  add("barriers on both sides of a condition", "2 of 4 lanes reach it",
      program(1, 4, 4, 4, R"(%low = lt i32 %l, %2c if <%low|%true> { barrier } else { barrier }
          store %y[%l], %l)"),
      {0, 1, 2, 3});
  add("a loop with a barrier that lanes run less often", "3 of 4 lanes reach it, lane 1 among",
      program(1, 4, 4, 4, R"(for %i = %0c..<%l|%4c> { barrier } store %y[%l], %l)"), {0, 1, 2, 3});
  add("a trip count that comes from an atomic", "lanes reach it",
      program(1, 2, 2, 2, R"(%t = alloc i32 1 group %first = eq i32 %l, %0c
          store %t[%0c], %1c gate %first barrier %o = atomic add %t[%0c], %1c
          for %i = %0c..<%o|%2c> { barrier } store %y[%l], %l)",
              "write", "4"),
      {0, 1});
}

}  // namespace

std::string one_side(const std::string& text, bool is_mended) {
  std::string out;
  size_t at = 0;
  for (size_t open = text.find('<'); open != std::string::npos; open = text.find('<', at)) {
    const size_t middle = text.find('|', open);
    const size_t close = text.find('>', middle);
    append(out, text.substr(at, open - at),
           is_mended ? text.substr(middle + 1, close - middle - 1)
                     : text.substr(open + 1, middle - open - 1));
    at = close + 1;
  }
  return out + text.substr(at);
}

std::vector<FaultCase> fault_cases() {
  std::vector<FaultCase> cases;
  add_bounds(cases);
  add_alignment(cases);
  add_never_written(cases);
  add_missing_barriers(cases);
  add_races_of_lanes(cases);
  add_atomics(cases);
  add_races_of_groups(cases);
  add_barriers(cases);
  return cases;
}

}  // namespace tenon::testing
