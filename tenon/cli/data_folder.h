// Where the data of the demonstration lies. SPDX-License-Identifier: MIT

#pragma once

#include <string>

namespace tenon::cli {

/// The first of these that holds `file`: `folder` (option --data); setting TENON_DATA_DIR; "data"
/// beside the executable or in one of the four folders above it; "data" of the sources that the
/// command was built from. A folder that is named, by option or setting, is the only one looked at.
/// Throws kNotFound with all places.
std::string find_data_folder(const std::string& folder, const std::string& file);

}  // namespace tenon::cli
