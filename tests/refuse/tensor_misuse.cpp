// What must not compile with tensors and graph nodes, and beside it what must.
// See must_not_compile.py. SPDX-License-Identifier: MIT

#include "tenon/tensor/tensor.h"

#include "tenon/ir/tensor_ops.h"

namespace tenon {

void use_tensors(const Node& node, const std::vector<bool>& flags) {
  const Tensor x = {1.0F, 2.0F};
  const Tensor y(node);
  const Tensor sum = x + y * 2 + true;
  const bool is_first_larger = (x > y)[0].item<bool>();
#ifdef MISUSE_tensor_as_condition
  if (x > y) return;
#endif
#ifdef MISUSE_equal_tensors_as_condition
  if (x == y) return;
#endif
#ifdef MISUSE_tensor_and_tensor
  const Tensor both = (x > y) && (y > x);
#endif
#ifdef MISUSE_not_tensor
  const Tensor negated = !(x > y);
#endif
#ifdef MISUSE_tensor_to_bool
  const bool is_larger = x > y;
#endif
#ifdef MISUSE_tensor_to_number
  const float first = x[0];
#endif
#ifdef MISUSE_tensor_from_bool
  const Tensor flag = true;
#endif
#ifdef MISUSE_tensor_from_number
  const Tensor number = 1.5;
#endif
#ifdef MISUSE_tensor_from_node
  const Tensor implicit = node;
#endif
#ifdef MISUSE_tensor_plus_text
  const Tensor text = x + "1";
#endif
#ifdef MISUSE_item_of_long_double
  const auto item = x[0].item<long double>();
#endif
#ifdef MISUSE_packed_bools
  const Tensor packed = Tensor::from_data(flags, {2});
#endif
#ifdef MISUSE_address_of_node
  const Node made = node.id();
#endif
#ifdef MISUSE_node_as_number
  const int number = node;
#endif
#ifdef MISUSE_op_from_number
  tensor_unary(40, node);
#endif
#ifdef MISUSE_dtype_from_number
  tensor_cast(node, 14);
#endif
  static_cast<void>(flags);
  static_cast<void>(is_first_larger);
}

}  // namespace tenon
