// Fuzz entry of the .tg parser: any bytes are a graph or a kInvalidArgument, and what was read
// is sound, prints, and reads back as the same text. SPDX-License-Identifier: MIT

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "tenon/base/error.h"
#include "tenon/ir/graph_text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  tenon::TensorGraph graph;
  try {
    graph = tenon::parse_graph(text, "fuzz");
  } catch (const tenon::Error& error) {
    if (error.code() != tenon::ErrorCode::kInvalidArgument) std::abort();
    return 0;
  }
  if (!tenon::verify_graph(graph.outputs).empty()) std::abort();
  const std::string printed = tenon::to_text(graph);
  if (tenon::to_text(tenon::parse_graph(printed, "printed")) != printed) std::abort();
  return 0;
}
