// SPDX-License-Identifier: MIT

#include "tenon/cli/data_folder.h"

#include <filesystem>
#include <system_error>
#include <vector>

#include "tenon/base/error.h"
#include "tenon/base/settings.h"
#include "tenon/base/text.h"

namespace tenon::cli {

std::string find_data_folder(const std::string& folder, const std::string& file) {
  std::vector<std::string> places;
  const std::string setting = setting_string(Setting::kDataDir);
  if (!folder.empty()) {
    places.push_back(folder);
  } else if (!setting.empty()) {
    places.push_back(setting);
  } else {
    std::error_code ignored;
    std::filesystem::path above = std::filesystem::read_symlink("/proc/self/exe", ignored);
    for (int level = 0; level < 5 && above.has_relative_path(); ++level) {
      above = above.parent_path();
      places.push_back((above / "data").string());
      places.push_back((above / "share/tenon/data").string());  // installed
    }
    places.push_back(TENON_SOURCE_DIR "/data");
  }
  for (const std::string& place : places) {
    std::error_code ignored;
    if (std::filesystem::exists(concat(place, "/", file), ignored)) return place;
  }
  fail(ErrorCode::kNotFound, "data: no '", file, "' in ", join(places, ", "),
       ". Name its folder with --data or TENON_DATA_DIR");
}

}  // namespace tenon::cli
