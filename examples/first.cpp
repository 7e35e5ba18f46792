// The first program of the README: a lazy addition, compiled and run. SPDX-License-Identifier: MIT
#include <iostream>

#include "tenon/tensor/tensor.h"

int main() {
  tenon::Tensor x = {1, 2, 3};
  x.realize();
  std::cout << x << " on " << tenon::device_name(x.device()) << ", kernels by "
            << tenon::renderer_name(x.device()) << "\n";
  const tenon::Tensor y = x + 1;
  std::cout << "x + 1 = " << y << "\n";
  return y.to_vector<int>() == std::vector<int>{2, 3, 4} ? 0 : 1;
}
