// docs/target.md is the table of the Target's fields as it stands in the library.
// SPDX-License-Identifier: MIT

#include <gtest/gtest.h>

#include "tenon/base/file.h"
#include "tenon/base/settings.h"
#include "tenon/base/text.h"

namespace tenon::testing {
namespace {

TEST(TargetPage, IsTheTableOfTheLibrary) {
  std::string page =
      "# Fields of Target\n\n"
      "What codegen and renderers may assume of a device (`tenon/types/target.h`). The text of a "
      "Target, as\n"
      "`tenon explain X.tpo` shows it, has them in this order; "
      "`TENON_TARGET=max_arguments=4,native_ops=sqrt+fma`\n"
      "shrinks some for all devices of a process. Each but `arch` and `features` has a test in "
      "`tests/target`\n"
      "(`ctest -R LivingTarget`): shrunk, it makes another program, which is as right.\n\n"
      "| field | meaning | what it decides |\n|---|---|---|\n";
#define TENON_TARGET_FIELD(member, name, meaning, decides) \
  append(page, "| `", #name, "` | ", meaning, " | ", decides, " |\n");
#include "tenon/types/target_fields.def"
#undef TENON_TARGET_FIELD
  const std::string path = TENON_SOURCE_DIR "/docs/target.md";
  if (setting_bool(Setting::kUpdateGolden)) write_file_atomic(path, page);
  EXPECT_EQ(read_file(path), page) << "TENON_UPDATE_GOLDEN=1 writes it anew";
}

}  // namespace
}  // namespace tenon::testing
