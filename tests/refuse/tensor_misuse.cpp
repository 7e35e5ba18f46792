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
#ifdef MISUSE
  if (x > y) return;
#endif
#ifdef MISUSE
  if (x == y) return;
#endif
#ifdef MISUSE
  const Tensor both = (x > y) && (y > x);
#endif
#ifdef MISUSE
  const Tensor negated = !(x > y);
#endif
#ifdef MISUSE
  const bool is_larger = x > y;
#endif
#ifdef MISUSE
  const float first = x[0];
#endif
#ifdef MISUSE
  const Tensor flag = true;
#endif
#ifdef MISUSE
  const Tensor number = 1.5;
#endif
#ifdef MISUSE
  const Tensor implicit = node;
#endif
#ifdef MISUSE
  const Tensor text = x + "1";
#endif
#ifdef MISUSE
  const auto item = x[0].item<long double>();
#endif
#ifdef MISUSE
  const Tensor packed = Tensor::from_data(flags, {2});
#endif
#ifdef MISUSE
  const Node made = node.id();
#endif
#ifdef MISUSE
  const int number = node;
#endif
#ifdef MISUSE
  tensor_unary(40, node);
#endif
#ifdef MISUSE
  tensor_cast(node, 14);
#endif
  static_cast<void>(flags);
  static_cast<void>(is_first_larger);
}

}  // namespace tenon
