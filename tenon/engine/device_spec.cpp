// Parses device names. SPDX-License-Identifier: MIT

#include "tenon/engine/device_spec.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "tenon/base/error.h"
#include "tenon/base/text.h"

namespace tenon {
namespace {

bool is_number(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

/// The canonical spelling of `name`, or an error about `kind`.
std::string look_up(std::string_view text, std::string_view kind, std::string_view name,
                    const std::vector<std::string>& names) {
  for (const std::string& known : names) {
    if (equal_ignoring_case(known, name)) return known;
  }
  fail(ErrorCode::kInvalidArgument, "device name ", quoted(text), ": no ", kind, " is called '",
       name, "'", suggest_name(name, names, "Known"));
}

/// Takes `NAME(argument)+` from the front of `rest` while there is one.
std::vector<InterfaceSpec> take_interfaces(std::string_view text, std::string_view& rest,
                                           const DeviceNames& names) {
  std::vector<InterfaceSpec> interfaces;
  while (true) {
    // The device's own fields may hold "+" behind the first ":" (an ARCH, a path).
    const size_t end_of_name = rest.find_first_of("(+:");
    if (end_of_name == std::string_view::npos || rest[end_of_name] == ':') return interfaces;
    InterfaceSpec interface;
    interface.name = look_up(text, "interface", rest.substr(0, end_of_name), names.interfaces);
    if (rest[end_of_name] == '+') {
      rest.remove_prefix(end_of_name + 1);
    } else {
      const size_t close = rest.find(')', end_of_name);
      TENON_CHECK(close != std::string_view::npos && rest.substr(close + 1).starts_with('+'),
                  ErrorCode::kInvalidArgument, "device name ", quoted(text), ": '", interface.name,
                  "(' must be followed by an argument and ')+'. Write ", interface.name,
                  "(argument)+DEVICE");
      interface.argument = rest.substr(end_of_name + 1, close - end_of_name - 1);
      rest.remove_prefix(close + 2);
    }
    interfaces.push_back(std::move(interface));
  }
}

/// The text up to the next ":", which is taken too; `has_more` says whether there was one.
std::string_view take_field(std::string_view& rest, bool& has_more) {
  const size_t colon = rest.find(':');
  has_more = colon != std::string_view::npos;
  const std::string_view field = rest.substr(0, colon);
  rest.remove_prefix(has_more ? colon + 1 : rest.size());
  return field;
}

int parse_index(std::string_view text, std::string_view field) {
  const std::optional<int64_t> index = parse_int(field);
  TENON_CHECK(index && *index <= std::numeric_limits<int>::max(), ErrorCode::kInvalidArgument,
              "device name ", quoted(text), ": index ", field, " is too large");
  return static_cast<int>(*index);
}

}  // namespace

std::string suggest_name(std::string_view name, const std::vector<std::string>& names,
                         std::string_view list_title) {
  const std::optional<std::string> nearest = nearest_name(name, names);
  return concat(nearest ? concat("; did you mean '", *nearest, "'?") : std::string("."), " ",
                list_title, ": ", names.empty() ? "none" : join(names, ", "));
}

DeviceSpec parse_device_spec(std::string_view text, const DeviceNames& names) {
  std::string_view rest = trim(text);
  TENON_CHECK(!rest.empty(), ErrorCode::kInvalidArgument, "device name ", quoted(text),
              " is empty. Known: ", join(names.devices, ", "));
  DeviceSpec spec;
  spec.interfaces = take_interfaces(text, rest, names);
  bool has_more = false;
  spec.device = look_up(text, "device", take_field(rest, has_more), names.devices);
  if (std::find(names.path_devices.begin(), names.path_devices.end(), spec.device) !=
      names.path_devices.end()) {
    spec.path = rest;
    return spec;
  }
  if (!has_more) return spec;
  std::string_view field = take_field(rest, has_more);
  if (is_number(field)) {
    spec.index = parse_index(text, field);
    if (!has_more) return spec;
    field = take_field(rest, has_more);
  }
  TENON_CHECK(!is_number(field), ErrorCode::kInvalidArgument, "device name ", quoted(text),
              ": a second index ", field, " stands where a renderer may. Write ", spec.device,
              ":INDEX:RENDERER");
  spec.renderer = to_upper(field);
  spec.arch = rest;
  return spec;
}

std::vector<DeviceSpec> parse_device_list(std::string_view text, const DeviceNames& names) {
  std::vector<DeviceSpec> specs;
  for (const std::string_view part : split(text, ';')) {
    TENON_CHECK(!trim(part).empty(), ErrorCode::kInvalidArgument, "DEV=", quoted(text),
                ": an entry is empty. Separate device names by one ';'");
    specs.push_back(parse_device_spec(part, names));
  }
  return specs;
}

}  // namespace tenon
