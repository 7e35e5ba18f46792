// Printing of tensor graphs; graph_parse.cpp reads what this writes. SPDX-License-Identifier: MIT

#include "tenon/ir/graph_text.h"

#include <unordered_map>
#include <unordered_set>

#include "tenon/base/error.h"
#include "tenon/base/text.h"
#include "tenon/ir/scalar_text.h"

namespace tenon {
namespace {

constexpr auto kInvalid = ErrorCode::kInvalidArgument;

bool is_plain_name(std::string_view name) {
  if (name.empty() || (name[0] >= '0' && name[0] <= '9')) return false;
  for (char c : name) {
    const bool is_word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                         (c >= '0' && c <= '9') || c == '_' || c == '.';
    if (!is_word) return false;
  }
  return true;
}

std::string name_text(std::string_view name) {
  return is_plain_name(name) ? std::string(name) : quoted(name);
}

std::string list_text(std::span<const int64_t> list) {
  return concat("[", join(list, ","), "]");
}

std::string type_text(const Node& node) {
  return concat(dtype_name(node.dtype()), list_text(node.shape()));
}

std::string flipped_axes(std::span<const int64_t> flags) {
  std::vector<int64_t> axes;
  for (size_t axis = 0; axis < flags.size(); ++axis) {
    if (flags[axis] != 0) axes.push_back(static_cast<int64_t>(axis));
  }
  return list_text(axes);
}

// What stands behind the operands, with a space in front: the attributes by name.
std::string attribute_text(const Node& node) {
  const std::span<const int64_t> attr = node.attr();
  const size_t rank = node.shape().size();
  if (node.op() == Op::kConst) {
    return " " + scalar_text(node.dtype(), static_cast<uint64_t>(attr[0]));
  }
  if (node.op() == Op::kVariable) {
    return concat(" id ", attr[0], " min ", attr[1], " max ", attr[2]);
  }
  if (node.op() == Op::kIndex) return concat(" axis ", attr[0]);
  if (node.op() == Op::kPermute) return " axes " + list_text(attr);
  if (node.op() == Op::kFlip) return " axes " + flipped_axes(attr);
  if (node.op() == Op::kPad) {
    return concat(" before ", list_text(attr.first(rank)), " after ",
                  list_text(attr.subspan(rank, rank)), " fill ",
                  scalar_text(node.dtype(), static_cast<uint64_t>(attr.back())));
  }
  if (node.op() == Op::kShrink) {
    return concat(" begin ", list_text(attr.first(rank)), " end ", list_text(attr.subspan(rank)));
  }
  if (node.op() == Op::kWindow) {
    return concat(" axis ", attr[0], " size ", attr[1], " step ", attr[2], " dilation ", attr[3]);
  }
  if (node.op() == Op::kReduce) {
    return concat(" ", op_name(reduce_op(node)), " axes ", list_text(reduce_axes(node)), " acc ",
                  dtype_name(reduce_accumulator(node)));
  }
  if (node.op() == Op::kCopy) return concat(" device ", attr[0]);
  return "";
}

void check_names(std::string_view what, size_t num_nodes, const std::vector<std::string>& names) {
  TENON_CHECK(num_nodes == names.size(), kInvalid, "graph text: ", num_nodes, " ", what, "s but ",
              names.size(), " names");
  std::unordered_set<std::string_view> seen;
  for (const std::string& name : names) {
    TENON_CHECK(seen.insert(name).second, kInvalid, "graph text: two ", what, "s are named ",
                quoted(name));
  }
}

}  // namespace

std::string to_text(const TensorGraph& graph) {
  check_names("input", graph.inputs.size(), graph.input_names);
  check_names("output", graph.outputs.size(), graph.output_names);
  std::unordered_map<const void*, std::string> names;
  std::string text = concat("graph ", name_text(graph.name), " {\n");
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const Node& input = graph.inputs[i];
    TENON_CHECK(input && input.op() == Op::kBuffer, kInvalid, "graph text: input ",
                quoted(graph.input_names[i]), " is not a buffer");
    const std::string name = "%" + name_text(graph.input_names[i]);
    TENON_CHECK(names.emplace(input.id(), name).second, kInvalid, "graph text: input ",
                quoted(graph.input_names[i]), " is the same buffer as an earlier one");
    append(text, "  in ", name, ": ", type_text(input), "\n");
  }
  for (const Node& output : graph.outputs)
    TENON_CHECK(output, kInvalid, "graph text: an output is null");
  int64_t next_number = 0;
  for (const Node& node : topological_order(graph.outputs)) {
    if (names.contains(node.id())) continue;
    const std::string name = concat("%", next_number++);
    append(text, "  ", name, " = ", op_name(node.op()), " ", type_text(node));
    const char* separator = " ";
    for (const Node& src : node.srcs()) {
      append(text, separator, names.at(src.id()));
      separator = ", ";
    }
    append(text, attribute_text(node), "\n");
    names.emplace(node.id(), name);
  }
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    append(text, "  out ", name_text(graph.output_names[i]), " = ", names.at(graph.outputs[i].id()),
           "\n");
  }
  return text + "}\n";
}

}  // namespace tenon
