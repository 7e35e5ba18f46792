// The first program of the README: a lazy addition, compiled and run. SPDX-License-Identifier: MIT
#include <iostream>

#include "tenon/tensor/tensor.h"

int main() {
  tenon::Tensor x = {1, 2, 3};
  x.realize();
  std::cout << x << " on " << x.device().name() << ", kernels by " << x.device().renderer_name()
            << "\n";
  const tenon::Tensor y = x + 1;
  std::cout << "x + 1 = " << y << "\n";
  return y.to_vector<int>() == std::vector<int>{2, 3, 4} ? 0 : 1;
}
