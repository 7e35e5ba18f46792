// What stands behind --in NAME=FILE.npy and --set NAME=VALUE. Used by `tenon run`; what is not
// given is position-coded (arrays.h). SPDX-License-Identifier: MIT

#pragma once

#include <map>
#include <string>
#include <vector>

#include "tenon/cli/arrays.h"
#include "tenon/types/signature.h"

namespace tenon::cli {

/// NAME=TEXT words of one option, by name.
class NamedWords {
 public:
  /// Throws WrongUsage for a word without "=" or a name that comes twice.
  NamedWords(std::string option, const std::vector<std::string>& words);

  /// Null if it was not given.
  const std::string* find(const std::string& name) const;
  /// Throws kInvalidArgument, with the nearest right name, if a word's name is none of these.
  void check_names(const std::vector<std::string>& names) const;

 private:
  std::string option_;
  std::map<std::string, std::string> words_;
};

/// The bytes of input `number`: of the file that `files` names for it, else position-coded. The
/// array's `bytes` are filled. Throws kInvalidArgument if dtype or shape of the file differ;
/// bfloat16 and 8-bit floats, which NumPy lacks, are read from float32 and rounded.
void fill_input(NamedArray& input, const NamedWords& files, int64_t number);

/// The value of a scalar argument: given, else the largest of its range (floats: 1).
ArgumentValue scalar_value(const Argument& argument, const NamedWords& values);

}  // namespace tenon::cli
